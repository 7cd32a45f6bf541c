"""fournos list: many jobs at a glance."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from typing import Annotated, Any, Final

import typer
from rich.text import Text

from fournos.api.kinds import FOURNOS_JOB, Resource
from fournos.cli.command import Cli
from fournos.cli.errors import Fail
from fournos.cli.find import complete_cluster, complete_owner, complete_phase, installed
from fournos.cli.options import Format
from fournos.cli.output import connection_text, phase_text, table
from fournos.cli.stored import api_data
from fournos.history.records import recorded_row
from fournos.insight.caches import ObjectCaches
from fournos.insight.jobs import JobRow, matches, newest_first, wanted_labels, wanted_phases
from fournos.insight.readable import shown_all
from fournos.insight.values import (
    Obj,
    between,
    display_name,
    key_of,
    moment,
    since,
    spec_of,
    status_of,
    uid_of,
)

SelectorOption = Annotated[
    str,
    typer.Option("--selector", "-l", metavar="LABELS", help="Only those with these labels: a=b,c!=d."),
]
EverywhereOption = Annotated[bool, typer.Option("--all-namespaces", "-A", help="Of all namespaces.")]


@dataclass(frozen=True, slots=True)
class ListTable:
    """The table of a list; the namespace is added to it."""

    columns: tuple[str, ...]
    wide: tuple[str, ...]
    """The further columns of the wide form; MESSAGE follows them."""
    row: Callable[[Obj, datetime, bool], list[str | Text]]
    """Returns the cells of an object; True: of the wide form."""

    def lines(
        self, objects: Sequence[Obj], *, now: datetime, wide: bool, everywhere: bool, width: int | None
    ) -> list[Text]:
        header = [*self.columns, *(self.wide if wide else ()), "MESSAGE"]
        rows = [self.row(obj, now, wide) for obj in objects]
        if everywhere:
            header.insert(0, "NAMESPACE")
            rows = [[key_of(obj).namespace, *row] for obj, row in zip(objects, rows, strict=True)]
        return table(header, rows, width=width)


async def show_list(
    cli: Cli,
    resource: Resource,
    shown_as: ListTable,
    phase_of: Callable[[Obj], str],
    *,
    phases: Iterable[str] | None,
    selector: str,
    everywhere: bool,
) -> None:
    """Prints the objects in one of the phases (None: in any), newest first."""
    async with cli.session() as session:
        namespace = "" if everywhere else session.namespace
        with installed(resource):
            listed = (await session.api.list(resource, namespace=namespace, selector=selector)).items
    wanted = {one.lower() for one in phases or ()}
    shown = [one for one in newest_first(listed) if not wanted or phase_of(one).lower() in wanted]
    if cli.output.objects(resource, shown):
        return
    if not shown:
        where = "any namespace" if everywhere else f"namespace {session.namespace}"
        cli.output.hint(
            f"No {resource.kind}s in {where}." if not listed else "None of them is in that phase."
        )
        return
    wide = cli.output.form is Format.WIDE

    def lines(objects: list[Obj]) -> list[Text]:
        return shown_as.lines(
            objects, now=cli.world.now(), wide=wide, everywhere=everywhere, width=cli.output.width
        )

    cli.output.lines(shown_all(resource, shown, lines))


class Order(StrEnum):
    """What a list may be sorted by."""

    NAME = "name"
    PHASE = "phase"
    CLUSTER = "cluster"
    OWNER = "owner"
    RAN = "ran"


PhaseOption = Annotated[
    list[str] | None,
    typer.Option(
        "--phase",
        metavar="PHASE",
        help="Only jobs in this phase, such as Running; repeat it, or write several with commas. "
        "'active' means all that have not ended.",
        autocompletion=complete_phase,
    ),
]
OwnerOption = Annotated[
    str | None,
    typer.Option("--owner", metavar="NAME", help="Only jobs of this owner.", autocompletion=complete_owner),
]
ClusterOption = Annotated[
    str | None,
    typer.Option(
        "--cluster",
        metavar="NAME",
        help="Only jobs on, or asking for, this cluster.",
        autocompletion=complete_cluster,
    ),
]
LabelsOption = Annotated[
    str, typer.Option("--selector", "-l", metavar="LABELS", help="Only jobs with these labels: a=b,c!=d.")
]
JobsEverywhereOption = Annotated[bool, typer.Option("--all-namespaces", "-A", help="Jobs of all namespaces.")]
AllTimeOption = Annotated[
    bool, typer.Option("--all-time", help="From the history: also jobs that are gone. Needs a history.")
]
LimitOption = Annotated[
    int, typer.Option("--limit", metavar="N", min=1, help="With --all-time: at most N jobs, the newest.")
]
OrderOption = Annotated[
    Order | None,
    typer.Option("--sort-by", help="Sort by this, jobs that ran longest first; default: newest first."),
]
LabelColumnsOption = Annotated[
    list[str] | None,
    typer.Option(
        "--label-columns",
        "-L",
        metavar="LABEL",
        help="Show the value of this label in a column; repeat it, or write several with commas.",
    ),
]
FollowOption = Annotated[
    bool, typer.Option("--watch", "-w", help="Then print the row of each job that changes, until Ctrl-C.")
]


@dataclass(frozen=True, slots=True)
class AskedList:
    """Which jobs are listed, and how."""

    phases: frozenset[str]
    owner: str | None
    cluster: str | None
    selector: str
    everywhere: bool
    order: Order | None
    labels: Sequence[str]
    """Labels that are columns."""

    def selected(self, jobs: list[Obj], now: datetime) -> list[Obj]:
        """Returns the jobs that are listed, in order."""
        return shown_all(FOURNOS_JOB, jobs, lambda readable: self._selected(readable, now))

    def _selected(self, jobs: list[Obj], now: datetime) -> list[Obj]:
        found = newest_first(
            job for job in jobs if matches(job, phases=self.phases, owner=self.owner, cluster=self.cluster)
        )
        order = self.order
        return sorted(found, key=lambda job: _rank(JobRow.of(job), order, now)) if order else found


async def list_jobs(
    cli: Cli,
    phase: PhaseOption = None,
    owner: OwnerOption = None,
    cluster: ClusterOption = None,
    selector: LabelsOption = "",
    everywhere: JobsEverywhereOption = False,
    all_time: AllTimeOption = False,
    limit: LimitOption = 50,
    order: OrderOption = None,
    label_columns: LabelColumnsOption = None,
    follow: FollowOption = False,
) -> None:
    """List jobs, newest first.

    \b
    fournos list                          all jobs of the namespace
    fournos list --phase active           what has not ended
    fournos list --phase Pending,Running --cluster cluster-1
    fournos list -A --owner perf-team -o wide
    fournos list -l fournos.dev/matrix=sweep -L team --sort-by ran
    fournos list -o name --phase Failed | xargs fournos delete --yes
    fournos list --all-time --owner perf-team
    fournos list --phase active -w        and go on as they change
    """
    labels = [name for given in label_columns or () for name in given.split(",") if name]
    asked = AskedList(wanted_phases(phase or ()), owner, cluster, selector, everywhere, order, labels)
    if not all_time:
        await _live(cli, asked, follow=follow)
        return
    if follow:
        raise Fail("--watch shows jobs that exist, not the history", fix="leave out --all-time")
    await _all_time(cli, asked, limit=limit)


async def _live(cli: Cli, asked: AskedList, *, follow: bool) -> None:
    """Prints the jobs that exist; `follow`: then each that changes."""

    def lines(jobs: Sequence[Obj]) -> list[Text]:
        return view(
            jobs,
            now=cli.world.now(),
            wide=cli.output.form is Format.WIDE,
            labels=asked.labels,
            namespaces=asked.everywhere,
            width=cli.output.width,
        )

    async with cli.session() as session:
        namespace = "" if asked.everywhere else session.namespace
        listed = (await session.api.list(FOURNOS_JOB, namespace=namespace, selector=asked.selector)).items
        jobs = asked.selected(listed, cli.world.now())
        if cli.output.objects(FOURNOS_JOB, jobs):
            pass
        elif jobs:
            cli.output.lines(lines(jobs))
        else:
            where = "any namespace" if asked.everywhere else f"namespace {namespace}"
            cli.output.hint(f"{'No such jobs' if listed else 'No jobs'} in {where}.")
        if not follow:
            return
        async with ObjectCaches(session.api, {FOURNOS_JOB: namespace}) as caches:
            changes = _changes(caches, namespace, asked, jobs, cli.output.warn, cli.world.now)
            async for now_selected, changed in changes:
                if not cli.output.objects(FOURNOS_JOB, changed):
                    rows = zip(now_selected, lines(now_selected)[1:], strict=True)
                    cli.output.lines([line for job, line in rows if job in changed])


async def _changes(
    caches: ObjectCaches,
    namespace: str,
    asked: AskedList,
    shown: Sequence[Obj],
    warn: Callable[[str], None],
    now: Callable[[], datetime],
) -> AsyncIterator[tuple[list[Obj], list[Obj]]]:
    """Yields all selected jobs and those whose row has changed, at each change; `shown` are known already."""
    before, is_broken = {uid_of(job): JobRow.of(job) for job in shown}, False
    while True:
        if (caches.watch_error is not None) is not is_broken:
            is_broken = not is_broken
            warn(connection_text(caches.watch_error))
        listed = await caches.list(FOURNOS_JOB, namespace=namespace, selector=asked.selector)
        jobs = asked.selected(listed.items, now())
        rows = {uid_of(job): JobRow.of(job) for job in jobs}
        if changed := [job for job in jobs if before.get(uid_of(job)) != rows[uid_of(job)]]:
            yield jobs, changed
        before = rows
        await caches.change()


async def _all_time(cli: Cli, asked: AskedList, *, limit: int) -> None:
    """Prints the jobs of the history, at most `limit`."""
    async with cli.session() as session:
        runs = [
            run
            async for run in session.history.runs(
                everywhere=asked.everywhere,
                kind="FournosJob",
                phase=tuple(asked.phases),
                owner=asked.owner or (),
                cluster=asked.cluster or (),
                labels=wanted_labels(asked.selector),
                limit=limit,
            )
        ]
    now = cli.world.now()
    if order := asked.order:
        runs.sort(key=lambda run: _rank(recorded_row(JobRow, run), order, now))
    if cli.output.structured:
        cli.output.data([api_data(run) for run in runs])
    elif not runs:
        cli.output.hint("The history has no such jobs.")
    else:
        rows = [recorded_row(JobRow, run) for run in runs]
        cli.output.lines(
            _table(rows, now=now, labels=asked.labels, namespaces=asked.everywhere, width=cli.output.width)
        )
        if len(runs) == limit:
            cli.output.hint(f"The newest {limit}; more with --limit.")


def _rank(row: JobRow, order: Order, now: datetime) -> Any:
    """Returns the sort key of a row."""
    if order is Order.RAN:
        started, ended = moment(row.started), moment(row.ended) or now
        return -(ended - started).total_seconds() if started else 0.0
    return getattr(row, order.value)


def view(
    jobs: Sequence[Obj],
    *,
    now: datetime,
    wide: bool,
    namespaces: bool,
    width: int | None,
    labels: Sequence[str] = (),
) -> list[Text]:
    def lines(readable: list[Obj]) -> list[Text]:
        rows, cells = [JobRow.of(job) for job in readable], [_wide(job) for job in readable if wide]
        return _table(rows, cells, now=now, labels=labels, namespaces=namespaces, width=width)

    return shown_all(FOURNOS_JOB, [*jobs], lines)


def _table(
    rows: Sequence[JobRow],
    wide: Sequence[Sequence[str]] = (),
    *,
    now: datetime,
    labels: Sequence[str],
    namespaces: bool,
    width: int | None,
) -> list[Text]:
    """The rows of a list; `wide` are the cells of each in the columns _WIDE, if they are wanted."""
    more = (*(_WIDE if wide else ()), *(label.rpartition("/")[2].upper() for label in labels))
    header = ("NAME", "PHASE", "CLUSTER", "GPUS", "OWNER", "AGE", "RAN", *more, "MESSAGE")
    cells: list[list[str | Text]] = [
        [
            row.namespace,
            row.name,
            phase_text(row.phase),
            row.cluster or "-",
            row.hardware or "-",
            row.owner or "-",
            since(row.submitted, now),
            between(row.started, row.ended, now),
            *wide_cells,
            *(row.labels.get(label) or "-" for label in labels),
            row.message,
        ]
        for row, wide_cells in zip(rows, wide or ((),) * len(rows), strict=True)
    ]
    first = 0 if namespaces else 1
    columns = ("NAMESPACE", *header)[first:]
    return table(columns, [line[first:] for line in cells], width=width, spare=_SPARE)


_SPARE: Final = ("GPUS", "RAN", "OWNER", "CLUSTER")
_WIDE: Final = ("PIPELINE", "EXCLUSIVE", "PRIORITY", "ATTEMPT", "DISPLAY NAME")


def _wide(job: Obj) -> tuple[str, ...]:
    spec = spec_of(job)
    return (
        str(spec.get("pipeline") or "-"),
        "yes" if spec.get("exclusive", True) else "no",
        str(spec.get("priority") or "-"),
        str(status_of(job).get("attempt") or "-"),
        display_name(job),
    )
