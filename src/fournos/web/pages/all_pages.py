"""All pages, actions and downloads, in the order of the navigation."""

from __future__ import annotations

from typing import Final

from fournos.web.pages import (
    artifacts,
    benchmarks,
    cluster,
    compare,
    fleet,
    health,
    job,
    job_actions,
    jobs,
    kinds,
    kpis,
    logs,
    queue,
    schedule,
    schedules,
    submit,
    trends,
    usage,
)
from fournos.web.routes import Action, Download, Page

PAGES: Final[tuple[Page, ...]] = (
    fleet.PAGE,
    cluster.PAGE,
    queue.PAGE,
    jobs.PAGE,
    job.PAGE,
    logs.PAGE,
    benchmarks.PAGE,
    compare.PAGE,
    kpis.PAGE,
    trends.PAGE,
    submit.PAGE,
    schedules.PAGE,
    schedule.PAGE,
    usage.PAGE,
    kinds.PAGE,
    kinds.OBJECT,
    health.PAGE,
)
ACTIONS: Final[tuple[Action, ...]] = (
    *cluster.ACTIONS,
    *job_actions.ACTIONS,
    *trends.ACTIONS,
    *submit.ACTIONS,
    *schedule.ACTIONS,
)
DOWNLOADS: Final[tuple[Download, ...]] = (*logs.DOWNLOADS, *artifacts.DOWNLOADS)
WATCHED: Final = tuple(dict.fromkeys(watched for page in PAGES for watched in page.watched))
"""The kinds that the server watches."""
