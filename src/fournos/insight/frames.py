"""Rows as data frames of pandas, which is loaded when one is asked for."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from importlib import import_module
from typing import Any

from fournos.insight.errors import FournosError


def frame(rows: Iterable[Mapping[str, Any]]) -> Any:
    """Returns a pandas DataFrame of these rows.  Raises FournosError if pandas is not installed."""
    try:
        pandas = import_module("pandas")
    except ImportError:
        raise FournosError("pandas is not installed", fix="pip install pandas") from None
    return pandas.DataFrame(list(rows))
