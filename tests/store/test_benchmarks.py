"""How benchmarks stand, over the API, on both databases."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from fournos.client.errors import NotAllowedError
from fournos.client.history import AsyncHistory
from fournos.engine.kube.auth import FixedIdentity, Proof
from fournos.engine.kube.client import Client
from fournos.engine.kube.credentials import Credentials
from fournos.history.artifacts import ArtifactLimits
from fournos.history.blobs import open_blobs
from fournos.history.regressions.benchmark import BenchmarkState
from fournos.history.store import HistoryStore
from tests.store.served import served
from tests.store.test_review import history as twelve_runs
from tests.store.test_review import measured
from tests.unit.history.api.service import Reviews

EVER = 3650


@pytest.fixture
def reviews() -> Reviews:
    found = Reviews()
    found.may("ann", "list", namespace="bench", resource="benchmarks")
    found.may("ann", "get", namespace="bench", resource="runs/results")
    return found


@pytest.fixture
async def history(store: HistoryStore, tmp_path: Path, reviews: Reviews) -> AsyncIterator[AsyncHistory]:
    reviews.namespaces["bench"] = "77aa-namespace"
    async with served(store, open_blobs(str(tmp_path / "blobs")), reviews, ArtifactLimits()) as client:
        url = str(client.make_url("")).rstrip("/")
        async with Client(Credentials(url, FixedIdentity(Proof(token="t-ann")))) as connection:
            yield AsyncHistory(connection, "bench")


async def test_each_benchmark_is_one_row_the_failing_one_first(
    store: HistoryStore, history: AsyncHistory
) -> None:
    await twelve_runs(store, owner="ann")
    await measured(store, 20, 60, owner="ben")
    for number in range(30, 33):
        await measured(store, number, 5, fingerprint="new", owner="ann")
    await measured(store, 40, 5, fingerprint="", owner="ann")
    failing, new = await history.benchmarks(days=EVER)
    assert (failing.state, failing.run.name, failing.since_name) == (
        BenchmarkState.SUSPECTED,
        "job-20",
        "job-20",
    )
    assert (failing.before, failing.runs) == ("uid-11", 13)
    assert (new.state, new.run.name) == (BenchmarkState.NOT_JUDGED, "job-32")
    (mine,) = await history.benchmarks("ann", days=EVER)
    assert mine.run.name == "job-32", "the newest run of the other one is of somebody else"


async def test_it_agrees_with_the_trend(store: HistoryStore, history: AsyncHistory) -> None:
    await twelve_runs(store)
    await measured(store, 20, 60)
    (row,) = await history.benchmarks(days=EVER)
    trends = await history.trends("job-20")
    assert trends.regressed and row.state is BenchmarkState.SUSPECTED
    assert [kpi.text for kpi in row.kpis] == [trends.state_of(each) for each in trends.series]


async def test_benchmarks_that_are_over_are_left_out(store: HistoryStore, history: AsyncHistory) -> None:
    await twelve_runs(store)
    assert await history.benchmarks() == []


async def test_a_namespace_of_the_same_name_that_is_gone_is_another_one(
    store: HistoryStore, history: AsyncHistory
) -> None:
    await twelve_runs(store)
    await measured(store, 50, 1, namespace_uid="another")
    assert [row.run.name for row in await history.benchmarks(days=EVER)] == ["job-11"]


async def test_it_takes_a_right_of_its_own(history: AsyncHistory, reviews: Reviews) -> None:
    reviews.rights.discard(("ann", "list", "benchmarks", "bench"))
    with pytest.raises(NotAllowedError):
        await history.benchmarks(days=EVER)
