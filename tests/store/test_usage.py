"""GPU-hours of a period, added up in both databases, and by whom they may be read."""

from __future__ import annotations

import random
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import Connection, text

from fournos.client.errors import NotAllowedError, RefusedError
from fournos.client.history import AsyncHistory
from fournos.engine.kube.auth import FixedIdentity, Proof
from fournos.engine.kube.client import Client
from fournos.engine.kube.credentials import Credentials
from fournos.history.artifacts import ArtifactLimits
from fournos.history.blobs import open_blobs
from fournos.history.records import ALL_RUNS, NO_RUNS, Ending, Identity, Record, Run, Scope
from fournos.history.store import HistoryStore
from fournos.history.store.usage import usage_statement, used
from fournos.history.usage import SHARED, Share, Sum, Usage, added
from tests.history import a_run, at
from tests.store.served import served
from tests.unit.history.api.service import Reviews

SINCE, UNTIL = at(10_000), at(20_000)


async def ran(
    store: HistoryStore, number: int, start: datetime | None, end: datetime | None, **fields: Any
) -> Run:
    over = {"phase": "Succeeded", "ending": Ending.OBSERVED} if end else {}
    found = {
        "owner": "ann",
        "target": "c",
        "pipeline": "a",
        "project": "p",
        "gpu_type": "a100",
        "gpu_count": 2,
        **fields,
    }
    run = a_run(number, started_at=start, ended_at=end, **over, **found)
    assert await store.record(Record(run))
    return run


def of(runs: list[Run]) -> Usage:
    """What the runs used, computed here."""
    sums = []
    for run in runs:
        start, end = max(run.started_at or UNTIL, SINCE), min(run.ended_at or UNTIL, UNTIL)
        if start < end:
            hours = run.gpu_count * (end - start).total_seconds() / 3600
            names = (run.owner, run.target, run.project, run.gpu_type)
            sums += [Sum(of, name, hours, 1) for of, name in zip(SHARED, names, strict=True)]
    return added(sums)


def rounded(found: Usage) -> Any:
    def shares(each: tuple[Share, ...]) -> Any:
        return sorted((one.name, round(one.hours, 6), one.runs) for one in each)

    parts = (found.owners, found.clusters, found.projects, found.gpu_types)
    return round(found.hours, 6), found.runs, [shares(one) for one in parts]


async def test_the_database_adds_up_what_the_runs_used(store: HistoryStore) -> None:
    chance = random.Random(5)
    runs = []
    for number in range(120):
        start = at(chance.uniform(0, 25_000))
        end = chance.choice([None, start, start + timedelta(seconds=chance.uniform(1, 9_000))])
        runs.append(
            await ran(
                store,
                number,
                chance.choice([start, start, None]),
                end,
                owner=chance.choice(["ann", "ben", ""]),
                target=chance.choice(["c", "d"]),
                project=chance.choice(["p", "q"]),
                gpu_count=chance.choice([0, 1, 8]),
            )
        )
    found = await used(store, SINCE, UNTIL, ALL_RUNS)
    assert rounded(found) == rounded(of(runs))
    assert 20 < found.runs < 120, "some lie outside of the period"


@pytest.mark.parametrize(
    ("start", "end", "hours"),
    [
        (at(0), at(10_000), None),
        (at(20_000), None, None),
        (at(15_000), at(15_000), None),
        (at(0), None, 2 * 10_000 / 3600),
        (at(19_000), at(99_000), 2 * 1_000 / 3600),
    ],
    ids=["ended before", "begins after", "no time", "runs", "ends after"],
)
async def test_the_edges_of_the_period(
    store: HistoryStore, start: datetime, end: datetime | None, hours: float | None
) -> None:
    await ran(store, 1, start, end)
    found = await used(store, SINCE, UNTIL, ALL_RUNS)
    assert (found.hours, found.runs) == (pytest.approx(hours or 0), int(hours is not None))


async def test_more_microseconds_than_64_bits_have(store: HistoryStore) -> None:
    for number in range(3):
        await ran(store, number, at(0), at(4_000_000_000), gpu_count=1_000)
    found = await used(store, at(0), at(4_000_000_000), ALL_RUNS)
    assert found.hours == pytest.approx(3 * 1_000 * 4e9 / 3600)


async def test_only_what_may_be_read_and_what_is_wanted_counts(store: HistoryStore) -> None:
    await ran(store, 1, at(11_000), at(14_600))
    other = Identity("here", "other", "x")
    await ran(store, 2, at(11_000), at(14_600), identity=other, namespace_uid="another", kind="AppWrapper")
    uid = a_run(1).namespace_uid

    async def hours(scope: Scope, **given: Any) -> float:
        return round((await used(store, SINCE, UNTIL, scope, **given)).hours, 6)

    assert await hours(ALL_RUNS) == 4.0
    assert await hours(Scope((uid,))) == 2.0
    assert await hours(NO_RUNS) == 0.0
    assert await hours(ALL_RUNS, namespace="other") == 2.0
    assert await hours(Scope((uid,)), namespace="other") == 0.0
    assert await hours(ALL_RUNS, kinds=("FournosJob",)) == 2.0


@pytest.fixture
async def reviews() -> Reviews:
    return Reviews()


@pytest.fixture
async def api(store: HistoryStore, reviews: Reviews, tmp_path: Path) -> AsyncIterator[str]:
    async with served(store, open_blobs(str(tmp_path / "blobs")), reviews, ArtifactLimits()) as client:
        yield str(client.make_url("")).rstrip("/")


@asynccontextmanager
async def read_by(user: str, api: str) -> AsyncIterator[AsyncHistory]:
    async with Client(Credentials(api, FixedIdentity(Proof(token=f"t-{user}")))) as connection:
        yield AsyncHistory(connection, "perf")


@pytest.fixture
async def history(api: str, reviews: Reviews) -> AsyncIterator[AsyncHistory]:
    reviews.may("ann", "list", resource="usage")
    async with read_by("ann", api) as found:
        yield found


async def test_usage_has_a_right_of_its_own(api: str, reviews: Reviews) -> None:
    reviews.may("root", "list", resource="runs")
    async with read_by("root", api) as history:
        with pytest.raises(NotAllowedError, match='cannot list resource "usage"'):
            await history.usage()


async def test_the_route_and_the_client(store: HistoryStore, history: AsyncHistory) -> None:
    now = datetime.now(UTC)
    for number, namespace in enumerate(("perf", "other")):
        await ran(
            store,
            number,
            now - timedelta(hours=3),
            now - timedelta(hours=2),
            identity=Identity("here", namespace, f"uid-{number}"),
            namespace_uid=f"uid-{namespace}",
            owner=f"of-{namespace}",
        )
    found = await history.usage()
    assert (found.hours, found.runs, [one.name for one in found.owners]) == (2.0, 1, ["of-perf"])
    assert found.gpu_types == (Share("a100", 2.0, 1),)
    assert await history.usage(everywhere=True) == found, "of the namespaces that may be read"
    with pytest.raises(NotAllowedError):
        await history.usage(namespace="other")
    assert (await history.usage(since=now - timedelta(hours=2.5))).hours == pytest.approx(1.0)
    assert (await history.usage(until=now - timedelta(hours=2.5))).hours == pytest.approx(1.0)
    with pytest.raises(RefusedError, match="since: must be before until"):
        await history.usage(since=now + timedelta(hours=1))


@pytest.mark.parametrize("url", ["sqlite"], indirect=True)
async def test_sqlite_reads_the_runs_of_the_period(store: HistoryStore) -> None:
    """And not all runs of the kind, which are nearly all of the history."""
    statement = usage_statement(SINCE, UNTIL, ALL_RUNS, "", ("FournosJob",))

    def explain(connection: Connection) -> list[str]:
        sql = statement.compile(dialect=connection.dialect, compile_kwargs={"literal_binds": True})
        return [row[-1] for row in connection.execute(text(f"EXPLAIN QUERY PLAN {sql}"))]

    plan = await store.read(explain)
    searched = [step for step in plan if " runs " in step]
    assert searched, plan
    assert all("USING INDEX runs_ended" in step for step in searched), plan


async def test_what_a_lock_holds_is_in_no_other_sum(store: HistoryStore) -> None:
    await ran(store, 1, at(10_000), at(13_600))
    await ran(store, 2, at(10_000), at(13_600), owner="ben", pipeline="", gpu_type="", gpu_count=8)
    found = await used(store, SINCE, UNTIL, ALL_RUNS)
    assert (found.hours, found.runs, found.owners) == (2.0, 1, (Share("ann", 2.0, 1),))
    assert found.locks == (Share("ben", 8.0, 1),)
