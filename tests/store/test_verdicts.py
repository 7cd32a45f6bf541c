"""Baselines and acknowledgements over the API, on both databases."""

from __future__ import annotations

from collections.abc import AsyncIterator
from datetime import timedelta
from pathlib import Path

import pytest
from sqlalchemy import event, text
from sqlalchemy.ext.asyncio import AsyncEngine

from fournos.client.errors import FournosError, MissingError, NotAllowedError, RefusedError
from fournos.engine.kube.auth import FixedIdentity, Proof
from fournos.engine.kube.client import Client
from fournos.engine.kube.credentials import Credentials
from fournos.history.artifacts import ArtifactLimits
from fournos.history.blobs import Blobs, open_blobs
from fournos.history.records import ALL_RUNS
from fournos.history.store import HistoryStore
from fournos.history.store.results import Results
from fournos.history.store.retention import RetentionLimits, erase, expire
from tests.history import at
from tests.store.served import served
from tests.store.test_comparisons import Stage
from tests.unit.history.api.service import Reviews

RIGHTS = {
    "runs": ("get", "list"),
    "runs/results": ("get", "create"),
    "runs/baseline": ("update", "delete"),
    "runs/acknowledgements": ("get", "create", "delete"),
    "runs/keep": ("update", "delete"),
    "baselines": ("list",),
}
EVERYTHING = RetentionLimits(age=timedelta(0))
LATER = at(10_000)


@pytest.fixture
async def reviews() -> Reviews:
    found = Reviews()
    for resource, verbs in RIGHTS.items():
        found.may("ann", *verbs, resource=resource)
    return found


@pytest.fixture
def blobs(tmp_path: Path) -> Blobs:
    return open_blobs(str(tmp_path / "blobs"))


@pytest.fixture
async def stage(store: HistoryStore, blobs: Blobs, reviews: Reviews) -> AsyncIterator[Stage]:
    from fournos.client.history import AsyncHistory

    async with served(store, blobs, reviews, ArtifactLimits()) as client:
        url = str(client.make_url("")).rstrip("/")
        async with Client(Credentials(url, FixedIdentity(Proof(token="t-ann")))) as connection:
            yield Stage(store, AsyncHistory(connection, "perf"))


async def step_at(stage: Stage, number: int, *, of: int, before: float = 100, after: float = 70) -> None:
    """Runs whose throughput drops at one of them."""
    for each in range(of):
        await stage.run(each, (before if each < number else after) + each % 3)


async def names(stage: Stage) -> list[str]:
    return [run.name async for run in stage.history.runs()]


async def test_a_baseline_is_pinned_listed_replaced_and_unpinned(stage: Stage) -> None:
    for number in (1, 2):
        await stage.run(number, 100)
    await stage.run(3, 50, gpus=8)
    history = stage.history
    first, second, other = [(await history.run(f"job-{number}")).run for number in (1, 2, 3)]
    await history.pin(first, reason="release 1")
    await history.pin(other)
    await history.pin(second, reason="release 2")
    assert [(one.run.name, one.by, one.reason) for one in await history.baselines()] == [
        ("job-2", "ann", "release 2"),
        ("job-3", "ann", ""),
    ]
    assert len(await history.baselines(everywhere=True)) == 2
    await history.unpin(second)
    with pytest.raises(MissingError, match="job-2 is not a baseline"):
        await history.unpin(second)
    with pytest.raises(MissingError, match="job-1 is not a baseline"):
        await history.unpin(first)
    assert [one.run.name for one in await history.baselines()] == ["job-3"]


async def test_a_baseline_never_expires_even_without_its_mark(stage: Stage, blobs: Blobs) -> None:
    await stage.run(1, 100)
    await stage.run(2, 100)
    run = (await stage.history.run("job-1")).run
    await stage.history.pin(run)
    await stage.history.release(run)
    assert await stage.store.kept([run.identity]) == {run.identity}
    await expire(stage.store, blobs, EVERYTHING, LATER)
    assert await names(stage) == ["job-1"]
    await stage.history.unpin(run)
    await expire(stage.store, blobs, EVERYTHING, LATER)
    assert await names(stage) == []


async def test_rights_of_their_own(stage: Stage, reviews: Reviews) -> None:
    await stage.run(1, 100)
    run = (await stage.history.run("job-1")).run
    reviews.rights -= {one for one in reviews.rights if "/" in one[2] or one[2] == "baselines"}
    for call in (
        stage.history.pin(run),
        stage.history.unpin(run),
        stage.history.baselines(),
        stage.history.acknowledge("job-1", "x"),
        stage.history.acknowledgements("job-1"),
        stage.history.withdraw("job-1"),
    ):
        with pytest.raises(NotAllowedError):
            await call


async def test_an_acknowledged_drop_is_no_regression_until_it_is_withdrawn(stage: Stage) -> None:
    await step_at(stage, 20, of=24)
    history = stage.history
    found = await history.trends("job-3")
    assert found.summary[0].endswith(" since job-20")
    (made,) = await history.acknowledge("job-21", "new tokenizer")
    assert (made.run, made.kpi_id, made.rises, made.by) == ("job-20", "tput", False, "ann")
    found = await history.trends("job-3")
    assert found.summary[0].endswith("since job-20; acknowledged by ann: new tokenizer")
    assert [one.reason for one in found.acknowledged.values()] == ["new tokenizer"]
    assert [one.run for one in await history.acknowledgements("job-1")] == ["job-20"]
    assert await history.acknowledgements("job-1", kpi="other") == ()
    with pytest.raises(MissingError, match="no change is acknowledged of job-20"):
        await history.withdraw("job-20", kpi="other")
    await history.withdraw("job-20")
    assert not (await history.trends("job-3")).acknowledged
    with pytest.raises(MissingError, match="no change is acknowledged of job-20"):
        await history.withdraw("job-20")


async def test_a_suspicion_stays_acknowledged_when_it_becomes_a_change_point(stage: Stage) -> None:
    await step_at(stage, 20, of=21)
    assert (await stage.history.trends("job-1")).regressed
    await stage.history.acknowledge("job-20", "wanted", kpi="tput")
    assert not (await stage.history.trends("job-1")).regressed
    for number in range(21, 30):
        await stage.run(number, 70 + number % 3)
    found = await stage.history.trends("job-1")
    assert [str(one.basis) for one in found.report.findings] == ["change point"]
    assert len(found.acknowledged) == 1


async def test_what_did_not_change_is_not_acknowledged(stage: Stage) -> None:
    await step_at(stage, 20, of=24)
    with pytest.raises(RefusedError, match="began with job-5; changes began with job-20"):
        await stage.history.acknowledge("job-5", "why")
    with pytest.raises(RefusedError, match="reason"):
        await stage.history.acknowledge("job-20", "  ")
    with pytest.raises(MissingError):
        await stage.history.acknowledge("job-99", "why")


async def test_an_acknowledgement_of_a_run_that_is_gone(stage: Stage, blobs: Blobs) -> None:
    await step_at(stage, 20, of=30)
    uid = "00000000-0000-0000-0000-000000000020"
    await stage.history.acknowledge(uid, "wanted")
    gone = (await stage.history.run(uid)).run.identity
    await erase(stage.store, blobs, [gone], at(0))
    (made,) = await stage.history.acknowledgements("job-1")
    assert made.run == uid
    assert (await stage.history.trends("job-1")).acknowledged
    await stage.history.withdraw(uid)
    assert await stage.history.acknowledgements("job-1") == ()


async def test_a_slow_change_from_the_baseline_is_found_and_acknowledged_for_good(stage: Stage) -> None:
    async def run(number: int) -> None:
        await stage.run(number, 100 - number * 0.4 + number % 3)

    for number in range(40):
        await run(number)
    assert not [
        one for one in (await stage.history.trends("job-1")).report.findings if one.basis == "baseline"
    ]
    await stage.history.pin((await stage.history.run("job-1")).run)
    found = await stage.history.trends("job-1")
    assert found.baseline and found.baseline.run.name == "job-1"
    (drift,) = [one for one in found.report.findings if one.basis == "baseline"]
    await stage.history.acknowledge("job-39", "cheaper hardware")
    for number in range(40, 48):
        await run(number)
    found = await stage.history.trends("job-1")
    (later,) = [one for one in found.report.findings if one.basis == "baseline"]
    assert later.run != drift.run and later.id in found.acknowledged


async def test_a_comparison_with_the_baseline_and_with_labels(stage: Stage) -> None:
    for number in range(4):
        await stage.run(number, 100)
    await stage.run(7, 50, gpus=8)
    history = stage.history
    with pytest.raises(MissingError, match="no run is pinned as the baseline of job-2"):
        await history.select("@baseline", "job-2")
    await history.pin((await history.run("job-1")).run)
    assert [run.name for run in await history.select("@baseline", "job-2")] == ["job-1", "job-2"]
    assert [run.name for run in await history.select("@last", "job-2")] == ["job-7", "job-2"]
    with pytest.raises(MissingError, match="@last: the history has no such job of eve that succeeded"):
        await history.select("@last", owner="eve")
    with pytest.raises(MissingError, match="team=x: the history has no such job"):
        await history.select("team=x", owner="eve")
    with pytest.raises(FournosError, match="several things"):
        await history.select("job-2", "job-7", "@baseline")


async def test_series_are_one_query_whatever_their_number(store: HistoryStore, stage: Stage) -> None:
    for number in range(3):
        await stage.run(number, 100)
        kpis = ", ".join(f"{{kpi_id: k{each}, value: {each}}}" for each in range(20))
        await stage.history.push_results(f"kpis: [{kpis}]".encode(), name=f"job-{number}", filename="r.yaml")
    fingerprint = (await stage.history.run("job-1")).run.fingerprint
    asked: list[str] = []

    def note(_c: object, _cursor: object, statement: str, *_: object) -> None:
        asked.append(statement)

    engine = store.database._engine
    engine = engine.sync_engine if isinstance(engine, AsyncEngine) else engine
    event.listen(engine, "before_cursor_execute", note)
    found = await Results(store).series(fingerprint, ALL_RUNS)
    event.remove(engine, "before_cursor_execute", note)
    assert len(found) == 21 and all(len(one.points) == 3 for one in found)
    assert len([one for one in asked if "SELECT" in one]) == 1


async def test_series_and_acknowledgements_go_with_their_last_run(stage: Stage, blobs: Blobs) -> None:
    await step_at(stage, 20, of=24)
    await stage.run(30, 5, gpus=8)
    await stage.history.acknowledge("job-20", "wanted")

    async def rows(table: str) -> int:
        return len(await stage.store.rows(text(f"SELECT * FROM {table}")))

    last = (await stage.history.run("job-30")).run
    await stage.history.pin(last)
    assert (await rows("series"), await rows("acknowledgements")) == (2, 1)
    await expire(stage.store, blobs, EVERYTHING, LATER)
    assert (await rows("series"), await rows("acknowledgements")) == (1, 0)
    await erase(stage.store, blobs, [last.identity], LATER)
    assert await rows("series") == 0


async def test_results_count_for_the_size_of_a_run(stage: Stage, blobs: Blobs) -> None:
    async def size(name: str) -> int:
        (row,) = await stage.store.rows(text(f"SELECT bytes FROM runs WHERE name = '{name}'"))
        return int(row.bytes)

    await stage.run(1, 100)
    before = await size("job-1")
    points = ", ".join(f"[{x}, {x * 37 % 1009}]" for x in range(2000))
    content = f"tests: [{{run_id: c, kpis: [{{kpi_id: curve, values: [{points}]}}]}}]".encode()
    await stage.history.push_results(content, name="job-1", filename="r.yaml")
    with_curve = await size("job-1")
    assert with_curve > before + 2000
    await stage.history.push_results(content, name="job-1", filename="r.yaml")
    assert await size("job-1") == with_curve
    await stage.run(1, 100)
    assert await size("job-1") == with_curve, "what is written again counts once"
