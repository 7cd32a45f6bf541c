"""A run of the history as a row of a list of jobs.  Pure."""

from __future__ import annotations

from datetime import datetime
from typing import TYPE_CHECKING, TypeVar

from fournos.api.phase import NEW
from fournos.engine.api.values import format_time
from fournos.insight.job_row import JobRow
from fournos.insight.values import hardware_text, one_line

if TYPE_CHECKING:
    from fournos.history.records import Run

R = TypeVar("R", bound=JobRow)


def recorded_row(row: type[R], run: Run) -> R:
    """Returns the row of a run, as an object of the class `row`."""
    return row(
        namespace=run.identity.namespace,
        name=run.name,
        uid=run.identity.uid,
        title=run.display_name or run.name,
        phase=run.phase or NEW,
        owner=run.owner,
        cluster=run.target,
        hardware=hardware_text({"gpuType": run.gpu_type, "gpuCount": run.gpu_count}).removeprefix("-"),
        submitted=format_time(run.submitted_at),
        started=_time(run.ran_from),
        ended=_time(run.ended_at),
        message=one_line(run.message),
        live=False,
        labels=run.labels,
    )


def _time(at: datetime | None) -> str:
    return format_time(at) if at else ""
