"""Measures the history's store with 200,000 jobs and their documents, in SQLite and in PostgreSQL."""

from __future__ import annotations

import asyncio
import random
import tempfile
import time
from collections.abc import Awaitable, Callable, Iterator
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from functools import partial
from pathlib import Path
from statistics import median, quantiles
from typing import Any, Final

from sqlalchemy import Connection, Table, insert, text

from bench.report import MB, Result, Target
from devcluster.postgres import Postgres
from fournos.history.records import ALL_RUNS, Document, Ending, Identity, Query, Record, Run, RunFilter, Scope
from fournos.history.store import HistoryStore, rows, schema
from fournos.history.store.rows import pack
from fournos.history.store.usage import used

JOBS: Final = 200_000
_BATCH: Final = 2_000
_START: Final = datetime(2026, 1, 1, tzinfo=UTC)
CLUSTER: Final = "c0ffee00-0000-4000-8000-000000000000"
_DOCUMENT_BYTES: Final = 7_500
_MEASURED: Final = ("Throughput", "Latency")
_PHASES: Final = ("Succeeded",) * 85 + ("Failed",) * 12 + ("Stopped",) * 3
_LIVE: Final = 300
_READS: Final = 100
"""How often each page is read."""
_SUMS: Final = 5
"""How often the usage of a period is added up."""
_LIST: Final = Target("any list page, p95", "ms", 20)
_JOB: Final = Target("a job's page, p95", "ms", 20)


@dataclass(frozen=True, slots=True)
class Reads:
    """The times of one kind of read, in ms."""

    database: str
    what: str
    p50: float
    p95: float
    least: float
    """The time of the fastest: what else the machine does hardly shifts it."""
    cpu: float
    """CPU time of this process, p50: all of it in SQLite, without the server in PostgreSQL."""


@dataclass(frozen=True, slots=True)
class Filled:
    """One database after it was filled."""

    database: str
    jobs: int
    seconds: float
    mb: float
    record_ms: float
    """The median of one update of a job, with its document."""


@dataclass(frozen=True, slots=True)
class Histories(Result):
    filled: list[Filled]
    reads: list[Reads]

    def targets(self) -> list[tuple[Target, float]]:
        lists = [each for each in self.reads if not each.what.startswith(("a job", "usage"))]
        slowest = max(each.p95 for each in self.reads if each.what == "a job")
        return [(_LIST, max(each.p95 for each in lists)), (_JOB, slowest)]


def make_run(number: int, jobs: int) -> Run:
    """Returns one of the jobs: some owners, pipelines and clusters are much more frequent than others."""
    source = random.Random(number)  # noqa: S311 - the same jobs in each run
    live = number >= jobs - _LIVE
    submitted = _START + timedelta(seconds=number * 40 + source.randrange(40))
    end = None if live else submitted + timedelta(seconds=source.randrange(60, 20_000))
    namespace = f"team-{_skewed(source, 30)}"
    return Run(
        identity=Identity(CLUSTER, namespace, f"{number:08x}-0000-4000-8000-{source.randrange(2**48):012x}"),
        kind="FournosJob" if source.random() < 0.9 else "AppWrapper",
        name=f"{source.choice(('llama', 'granite', 'mixtral', 'smoke'))}-{number:06d}",
        namespace_uid=f"uid-of-{namespace}",
        submitted_at=submitted,
        observed_at=end or submitted,
        resource_version=number,
        phase=source.choice(("Pending", "Running")) if live else source.choice(_PHASES),
        message="PipelineRun completed: tasks completed: 5, skipped: 0",
        owner=f"owner-{_skewed(source, 200)}",
        display_name=f"{source.choice(_MEASURED)} of build {source.randrange(5000)} of a fleet",
        target=f"cluster-{_skewed(source, 40)}",
        pipeline=f"pipeline-{_skewed(source, 100)}",
        project=f"project-{_skewed(source, 20)}",
        gpu_type="h200",
        gpu_count=8,
        attempts=1,
        queued_at=submitted,
        started_at=submitted + timedelta(seconds=30),
        ended_at=end,
        ending=Ending.OPEN if live else Ending.OBSERVED,
        fingerprint=f"{_skewed(source, 4000):016x}",
        labels={"team": namespace, "build": f"{number // 200}"},
    )


def _skewed(source: random.Random, number: int) -> int:
    return int(number * source.random() ** 3)


def _document() -> dict[str, Any]:
    """Returns a job's object of the usual size: half of it repeats itself, as manifests do."""
    words = [f"{random.getrandbits(64):016x}" for _ in range(_DOCUMENT_BYTES // 40)]
    return {"status": [{"name": word, "state": "Succeeded"} for word in words]}


def _only(**filters: Any) -> Query:
    return Query(ALL_RUNS, filters=RunFilter(**filters))


def queries(source: random.Random, jobs: int) -> dict[str, Query]:
    """Returns one query of each kind, for values that a run has."""
    run = make_run(source.randrange(jobs), jobs)
    day = run.submitted_at
    return {
        "newest": _only(),
        "owner": _only(owner=(run.owner,)),
        "phase": _only(phase=(run.phase,)),
        "cluster": _only(cluster=(run.target,)),
        "pipeline": _only(pipeline=(run.pipeline,)),
        "kind": _only(kind=(run.kind,)),
        "fingerprint": _only(fingerprint=(run.fingerprint,)),
        "label": _only(label=(f"build={run.labels['build']}",)),
        "time": _only(since=day - timedelta(days=1), until=day),
        "name": _only(name=run.name),
        "namespace": Query(Scope((run.namespace_uid,))),
        "text, some": _only(text=f"build {source.randrange(5000)}"),
        "text, none": _only(text="no such text"),
        "owner and phase": _only(owner=(run.owner,), phase=("Stopped",)),
        "pipeline and label": _only(pipeline=(run.pipeline,), label=(f"team={run.labels['team']}",)),
        "owner and text": _only(owner=(run.owner,), text=str(run.name[-4:])),
        "cluster, none there": _only(cluster=(run.target,), owner=("nobody",)),
        "two owners, two phases": _only(owner=(run.owner, "owner-0"), phase=("Failed", "Stopped")),
    }


async def measure(_name: str, *, jobs: int, directory: Path, keep: bool) -> Histories:
    """Fills and measures both databases; no cluster is made."""
    histories = Histories([], [])
    with tempfile.TemporaryDirectory(prefix="fournos-history-") as folder:
        await _measure(histories, "SQLite", f"sqlite:///{folder}/history.db", jobs)
    server = await asyncio.to_thread(Postgres)
    try:
        await _measure(histories, "PostgreSQL", await asyncio.to_thread(server.make_database), jobs)
    finally:
        await asyncio.to_thread(server.close)
    return histories


async def _measure(histories: Histories, name: str, url: str, jobs: int) -> None:
    began = time.perf_counter()
    async with await HistoryStore.open(url) as store:
        await fill(store, jobs)
        await store.database.tidy()
        seconds = time.perf_counter() - began
        recorded = await _record(store, jobs)
        histories.reads.extend([_reads(name, *each) for each in (await _taken(store, jobs)).items()])
        size = await store.database.size()
    histories.filled.append(Filled(name, jobs, seconds, size / MB, median(recorded)))


def end_of(jobs: int) -> datetime:
    """When the last of so many jobs has been submitted."""
    return _START + timedelta(seconds=jobs * 40)


async def fill(store: HistoryStore, jobs: int) -> None:
    """Inserts the rows as the store would write them, many together."""
    packed = [pack(_document()) for _ in range(50)]
    for start in range(0, jobs, _BATCH):
        numbers = range(start, min(start + _BATCH, jobs))
        made = {number + 1: make_run(number, jobs) for number in numbers}
        data = {number: packed[number % len(packed)] for number in made}
        documents = [
            {"run_id": number, "name": Document.OBJECT.value, "size": len(each), "data": each}
            for number, each in data.items()
        ]
        for table, many in (
            (schema.runs, [{"id": number, **rows.row_of(run)} for number, run in made.items()]),
            (schema.labels, list(_belonging(made, rows.label_rows))),
            (schema.documents, documents),
        ):
            await store.write(partial(_insert, table=table, many=many))
    if store.database.dialect == "postgresql":
        await store.execute(text(f"SELECT setval('runs_id_seq', {jobs})"))


def _insert(connection: Connection, table: Table, many: list[dict[str, Any]]) -> None:
    connection.execute(insert(table), many)


def _belonging(made: dict[int, Run], of: Callable[[Run], list[dict[str, Any]]]) -> Iterator[dict[str, Any]]:
    for number, run in made.items():
        yield from ({"run_id": number, **row} for row in of(run))


async def _record(store: HistoryStore, jobs: int) -> list[float]:
    """Updates live jobs, as a recorder does."""
    taken = []
    for number in range(max(0, jobs - _LIVE), jobs):
        run = replace(make_run(number, jobs), phase="Running", resource_version=number + jobs)
        record = Record(run, {Document.OBJECT: _document()})
        taken.append((await _timed(store.record(record)))[0])
    return taken


async def _taken(store: HistoryStore, jobs: int) -> dict[str, list[_Times]]:
    """Reads each page, and returns the times by what it is."""
    source = random.Random(5)  # noqa: S311 - the same queries in each run
    taken: dict[str, list[_Times]] = {}
    for _ in range(_READS):
        for what, query in queries(source, jobs).items():
            taken.setdefault(what, []).append(await _timed(store.find(query)))
        run = make_run(source.randrange(jobs), jobs)
        taken.setdefault("a job", []).append(await _timed(_job_page(store, run.identity)))
    until = end_of(jobs)
    for days in (7, 90):
        for _ in range(_SUMS):
            period = until - timedelta(days=days), until
            sums = used(store, *period, ALL_RUNS, kinds=("FournosJob",))
            taken.setdefault(f"usage of {days} days", []).append(await _timed(sums))
    return taken


async def _job_page(store: HistoryStore, identity: Identity) -> None:
    assert await store.detail(Query(ALL_RUNS, uid=identity.uid), tuple(Document))


_Times = tuple[float, float]
"""Time and CPU time, in ms."""


async def _timed(work: Awaitable[Any]) -> _Times:
    cpu, began = time.process_time(), time.perf_counter()
    await work
    return (time.perf_counter() - began) * 1000, (time.process_time() - cpu) * 1000


def _reads(database: str, what: str, taken: list[_Times]) -> Reads:
    times, cpu = [one for one, _ in taken], [one for _, one in taken]
    return Reads(database, what, median(times), quantiles(times, n=20)[-1], min(times), median(cpu))
