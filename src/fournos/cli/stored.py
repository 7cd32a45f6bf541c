"""The history as commands read it: runs that are over, also when their objects are gone."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Sequence
from contextlib import asynccontextmanager
from datetime import datetime
from typing import TYPE_CHECKING, Annotated, Any, Final, TypeVar

import typer
from rich.text import Text

from fournos.cli.command import Cli, CliSession
from fournos.cli.find import bare_name
from fournos.cli.output import table
from fournos.client.history import AsyncHistory, is_name
from fournos.history.records import adapter
from fournos.insight.errors import FournosError
from fournos.insight.values import Obj, between, key_of, one_line, uid_of

if TYPE_CHECKING:
    from fournos.history.estimates import Typical
    from fournos.history.records import Run
    from fournos.history.results.models import Test

T = TypeVar("T")
_ESTIMATE: Final = 1.0
"""Seconds that an estimate or results may take beside a command that does not need them."""


RunArgument = Annotated[
    str,
    typer.Argument(
        metavar="JOB",
        show_default=False,
        callback=bare_name,
        help="Name or UID of a job, labels (team=x,model=y: the newest that succeeded), or @last; "
        "it may be gone.",
    ),
]


async def selected(cli: Cli, history: AsyncHistory, jobs: Sequence[str]) -> list[str]:
    """Returns the name or UID of each run that is meant by names, labels, @last and @baseline.

    Names alone need no request.
    """
    if all(map(is_name, jobs)):
        return list(jobs)
    return [run.identity.uid for run in await history.select(*jobs, owner=cli.me)]


@asynccontextmanager
async def history_of_run(cli: Cli, job: str) -> AsyncIterator[tuple[AsyncHistory, str]]:
    """Connects to the history; yields it with the name or UID of the run that `job` selects."""
    async with cli.session() as session:
        history = session.history
        (name,) = await selected(cli, history, [job])
        yield history, name


async def estimated(session: CliSession, job: Obj) -> Typical | None:
    """Returns how long runs of the kind of a job took; None if the history has no answer within a second."""
    reading = session.history.estimate(uid_of(job), namespace=key_of(job).namespace)
    return await _within_a_second(reading, None)


async def results_within_a_second(session: CliSession, job: Obj) -> tuple[Test, ...]:
    """Returns what a job measured; nothing if the history has no answer within a second."""
    reading = session.history.results(uid_of(job), namespace=key_of(job).namespace)
    return await _within_a_second(reading, ())


async def _within_a_second(reading: Awaitable[T], otherwise: T) -> T:
    try:
        async with asyncio.timeout(_ESTIMATE):
            return await reading
    except (TimeoutError, FournosError, ValueError):  # ValueError: from a history of another version
        return otherwise


def result_table(records: Sequence[Test], *, width: int | None = None, most: int | None = None) -> list[Text]:
    """The KPIs of the tests of a job, at most `most` of them."""
    rows = [
        (
            " ".join(f"{name}={value}" for name, value in record.labels.items()) or "-",
            kpi.kpi_id,
            f"{len(kpi.values)} points" if kpi.is_curve else f"{kpi.value:g}",
            kpi.measured_in or "-",
            "ok" if record.success else "failed",
        )
        for record in records
        for kpi in record.kpis
    ]
    if not rows:
        return []
    lines = table(("TEST", "KPI", "VALUE", "UNIT", "STATE"), rows[:most], width=width)
    left = len(rows) - len(rows[:most])
    return [*lines, Text(f"and {left} more: fournos results list", style="dim")] if left else lines


def api_data(value: Any, *, by_alias: bool = True) -> Any:
    """A value of the history's API as JSON, in the names of the API, else of Python."""
    kind: Any = type(value)
    return adapter(kind).dump_python(value, mode="json", by_alias=by_alias)


def waited_line(run: Run, now: datetime) -> Text | None:
    """How long a run waited, and for what at last; None if it did not."""
    if not run.waited_for:
        return None
    until = run.started_at or run.ended_at
    length = between(run.submitted_at.isoformat(), until.isoformat() if until else None, now)
    return Text.assemble(f"{length:<8} ", (f"{run.waited_for:<14} ", "dim"), one_line(run.waited_for_text))
