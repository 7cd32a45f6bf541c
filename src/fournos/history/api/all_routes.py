"""All routes of the API."""

from __future__ import annotations

from typing import Final

from fournos.history.api import (
    artifacts,
    comparisons,
    results,
    runs,
    usage,
    values,
    verdicts,
)
from fournos.history.api.routes import Route

ROUTES: Final[tuple[Route, ...]] = (
    *runs.ROUTES,
    *artifacts.ROUTES,
    *results.ROUTES,
    *values.ROUTES,
    *comparisons.ROUTES,
    *verdicts.ROUTES,
    *usage.ROUTES,
)
