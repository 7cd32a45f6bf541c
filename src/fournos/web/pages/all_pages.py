"""All pages, actions and downloads, in the order of the navigation."""

from __future__ import annotations

from typing import Final

from fournos.web.pages import (
    benchmarks,
    cluster,
    compare,
    fleet,
    health,
    job,
    jobs,
    kinds,
    logs,
    queue,
    schedules,
    submit,
    trends,
    usage,
)
from fournos.web.site import Action, Download, Page

PAGES: Final[tuple[Page, ...]] = (
    fleet.PAGE,
    cluster.PAGE,
    queue.PAGE,
    jobs.PAGE,
    job.PAGE,
    logs.PAGE,
    benchmarks.PAGE,
    compare.PAGE,
    trends.PAGE,
    submit.PAGE,
    schedules.PAGE,
    schedules.SCHEDULE,
    usage.PAGE,
    kinds.PAGE,
    kinds.OBJECT,
    health.PAGE,
)
ACTIONS: Final[tuple[Action, ...]] = (
    *cluster.ACTIONS,
    *job.ACTIONS,
    *trends.ACTIONS,
    *submit.ACTIONS,
    *schedules.ACTIONS,
)
DOWNLOADS: Final[tuple[Download, ...]] = (*logs.DOWNLOADS, *job.DOWNLOADS)
WATCHED: Final = tuple(dict.fromkeys(watched for page in PAGES for watched in page.watched))
"""The kinds that the server watches."""
