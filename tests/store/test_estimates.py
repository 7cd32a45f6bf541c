"""Estimates over the API, on both databases: durations from the store, rights, stored predictions."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterable
from dataclasses import dataclass
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from fournos.client import AsyncClient
from fournos.client.errors import ManifestError, MissingError, NotAllowedError, RefusedError
from fournos.client.history import AsyncHistory
from fournos.client.jobs import AsyncJob
from fournos.engine.kube.auth import FixedIdentity, Proof
from fournos.engine.kube.client import Client
from fournos.engine.kube.credentials import Credentials
from fournos.history.artifacts.rules import ArtifactLimits
from fournos.history.blobs import DirectoryBlobs
from fournos.history.estimates.durations import MIN_RUNS, WorkProfile
from fournos.history.estimates.estimator import Estimator, NotReadyError
from fournos.history.estimates.live import Objects, works_of
from fournos.history.estimates.predictor import predict
from fournos.history.records import Ending, Identity, Record
from fournos.history.store import HistoryStore
from fournos.history.store.durations import NEWEST, past_runs
from fournos.history.store.verdicts import Verdicts
from tests.history import a_run, ended
from tests.store.served import served
from tests.unit.history.api.service import Reviews
from tests.unit.history.estimates.live_objects import NOW, job, spec, workload, world

(WORK,) = works_of(spec(cluster="c-1"), {}, ["c-1"], {})


class Clock:
    """A clock that stands still; `monotonic` runs, so that nothing is kept."""

    def __init__(self) -> None:
        self.passed = 0.0

    def now(self) -> datetime:
        return NOW

    def monotonic(self) -> float:
        self.passed += 60
        return self.passed


@dataclass
class Stage:
    store: HistoryStore
    reviews: Reviews
    objects: list[Objects]
    estimator: Estimator
    url: str


async def ran(store: HistoryStore, number: int, *, seconds: float = 3600, **fields: Any) -> None:
    """A run of WORK that took so long."""
    run = a_run(
        number,
        **{
            "identity": Identity("here", "perf", f"past-{number}"),
            "namespace_uid": "uid-perf",
            "fingerprint": WORK.fingerprint,
            "pipeline": WORK.pipeline,
            "project": WORK.project,
            "gpu_type": WORK.gpu_type,
            "gpu_count": WORK.gpu_count,
            **fields,
        },
    )
    await store.record(Record(ended(run, seconds + 10, started_at=run.submitted_at + timedelta(seconds=10))))


async def both_ran(store: HistoryStore) -> None:
    """Enough runs of both namespaces."""
    for number in range(MIN_RUNS):
        await ran(store, number)
        other = Identity("here", "other", f"other-{number}")
        await ran(store, number, identity=other, namespace_uid="uid-other")


@pytest.fixture
async def stage(store: HistoryStore, tmp_path: Path) -> AsyncIterator[Stage]:
    reviews, objects = Reviews(), [world()]

    async def live() -> Objects:
        if not objects:
            raise NotReadyError("the queues are not read yet")
        return objects[-1]

    async def past(works: Iterable[tuple[str, WorkProfile]]) -> Any:
        return await past_runs(store, works)

    clock: Any = Clock()
    estimator = Estimator(live, past, clock, gpu_prefix="fournos/gpu-")
    blobs = DirectoryBlobs(tmp_path / "blobs")
    async with served(store, blobs, reviews, ArtifactLimits(), estimator=estimator) as client:
        yield Stage(store, reviews, objects, estimator, str(client.make_url("")).rstrip("/"))


@pytest.fixture
async def history(stage: Stage) -> AsyncIterator[AsyncHistory]:
    async with Client(Credentials(stage.url, FixedIdentity(Proof(token="t-ann")))) as connection:
        yield AsyncHistory(connection, "perf")


@pytest.fixture
async def stranger(stage: Stage) -> AsyncIterator[AsyncHistory]:
    """A caller without rights."""
    async with Client(Credentials(stage.url, FixedIdentity(Proof(token="t-root")))) as connection:
        yield AsyncHistory(connection, "perf")


def queue() -> Objects:
    """Two jobs run on c-1 since ten minutes, two wait: one of this namespace, before it one of another."""
    running = [job(name, status={"cluster": "c-1"}, cluster="c-1") for name in ("r1", "r2")]
    mine, theirs = job("mine", cluster="c-1"), job("secret", namespace="other", cluster="c-1")
    return world(
        *((one, workload(one, on="c-1", age=600)) for one in running),
        (theirs, workload(theirs, age=99)),
        (mine, workload(mine, age=10)),
    )


async def test_when_a_job_starts_and_ends(stage: Stage, history: AsyncHistory) -> None:
    stage.reviews.may("ann", "list", "get", "create", resource="estimates")
    stage.objects.append(queue())
    await both_ran(stage.store)
    (found,) = (await history.estimates()).jobs
    assert (found.name, found.position, found.estimate.basis) == ("mine", 2, "5 runs of the same fingerprint")
    assert found.estimate.start and found.estimate.start.median == NOW + timedelta(minutes=50)
    assert found.estimate.end and found.estimate.end.median == NOW + timedelta(minutes=110)
    assert (await history.estimate("mine")).estimate == found.estimate
    assert (await history.estimate("uid-mine")).estimate == found.estimate
    running = await history.estimate("r1")
    assert running.position == 0
    assert running.estimate.end and running.estimate.end.median == NOW + timedelta(minutes=50)
    with pytest.raises(MissingError, match="nothing is in no queue"):
        await history.estimate("nothing")


async def test_too_little_history(stage: Stage, history: AsyncHistory) -> None:
    stage.reviews.may("ann", "list", resource="estimates")
    stage.objects.append(queue())
    for number in range(MIN_RUNS - 1):
        await ran(stage.store, number)
    (found,) = (await history.estimates()).jobs
    assert found.estimate.start is None
    assert found.estimate.reason == "not enough history: nothing is known of the duration of 3 jobs before it"


async def test_the_namespace_of_others_is_neither_readable_nor_named(
    stage: Stage, history: AsyncHistory, stranger: AsyncHistory
) -> None:
    stage.objects.append(queue())
    with pytest.raises(NotAllowedError):
        await stranger.estimates()
    stage.reviews.may("ann", "list", "get", "create", resource="estimates")
    assert "secret" not in str(await history.estimates())
    with pytest.raises(MissingError):
        await history.estimate("secret")
    for call in (history.estimates(namespace="other"), history.estimate("secret", namespace="other")):
        with pytest.raises(NotAllowedError):
            await call


async def test_would_a_job_start_now(stage: Stage, history: AsyncHistory, stranger: AsyncHistory) -> None:
    wanted = spec(cluster="c-2")
    with pytest.raises(NotAllowedError):
        await stranger.would_start(wanted)
    stage.reviews.may("ann", "create", resource="estimates")
    stage.objects.append(queue())
    await both_ran(stage.store)
    found = await history.would_start(wanted)
    assert (found.now, found.flavor) == (True, "c-2")
    behind = await history.would_start(spec(cluster="c-1"))
    assert not behind.now
    assert behind.estimate.start and behind.estimate.start.median == NOW + timedelta(minutes=110)
    free = await history.would_start(spec(clusterless=True, hardware=None))
    assert (free.now, free.flavor) == (True, "")
    with pytest.raises(RefusedError, match="WorkloadPriorityClass 'x' not found"):
        await history.would_start(spec(priority="x"))
    with pytest.raises(RefusedError, match=r"spec\.exclusive"):
        await history.would_start(spec(exclusive={"a": 1}))


async def test_one_prediction_of_each_job_is_stored_and_scored(stage: Stage, history: AsyncHistory) -> None:
    stage.reviews.may("ann", "list", resource="estimates")
    stage.objects.append(queue())
    await both_ran(stage.store)
    verdicts, done = Verdicts(stage.store), {}  # type: ignore[var-annotated]
    clock: Any = Clock()
    await predict(stage.estimator, verdicts, clock, done)
    assert await verdicts.predictions(None) == [], "its run is not recorded yet"
    mine = a_run(99, identity=Identity("here", "perf", "uid-mine"), namespace_uid="uid-perf")
    await stage.store.record(Record(mine))
    for _ in range(2):
        await predict(stage.estimator, verdicts, clock, done)
    made = await verdicts.predictions(None)
    assert sorted(one.event for one in made) == ["end", "start"], "once"
    assert (await history.estimates()).accuracy == (), "too few have come true"
    for number in range(100, 112):
        run = a_run(number, identity=Identity("here", "perf", f"u{number}"), namespace_uid="uid-perf")
        await stage.store.record(Record(run))
        estimate = (await stage.estimator.one("perf", "mine")).estimate  # type: ignore[union-attr]
        await verdicts.predict(run.identity, estimate, NOW)
        start = NOW + timedelta(minutes=45)
        await stage.store.record(Record(ended(run, started_at=start, ended_at=NOW + timedelta(hours=3))))
    start_score, end_score = (await history.estimates()).accuracy
    assert (start_score.event, start_score.scored, start_score.median_error) == ("start", 12, 300.0)
    assert (end_score.event, end_score.before_p90) == ("end", 0.0)


async def test_a_process_without_caches_is_not_ready(stage: Stage, history: AsyncHistory) -> None:
    stage.reviews.may("ann", "list", resource="estimates")
    stage.objects.clear()
    with pytest.raises(Exception, match="the queues are not read yet"):
        await history.estimates()


async def test_the_durations_of_earlier_runs(store: HistoryStore) -> None:
    await ran(store, 1, seconds=60)
    await ran(store, 2, seconds=120)
    await ran(store, 3, namespace_uid="uid-other")
    await store.record(Record(a_run(4, fingerprint=WORK.fingerprint)))
    gone = ended(a_run(5, fingerprint=WORK.fingerprint), started_at=NOW, ending=Ending.DELETED)
    await store.record(Record(gone))
    found = await past_runs(store, [])
    assert {uid: [one.seconds for one in past] for uid, past in found.items()} == {
        "uid-perf": [120.0, 60.0],
        "uid-other": [3600.0],
    }
    assert {one.work for one in found["uid-perf"]} == {WORK}


async def test_runs_of_a_fingerprint_are_found_behind_the_newest(
    store: HistoryStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert NEWEST > 1
    monkeypatch.setattr("fournos.history.store.durations.NEWEST", 2)
    for number in range(MIN_RUNS):
        await ran(store, number, seconds=60)
    for number in range(10, 13):
        await ran(store, number, fingerprint="another")
    assert [one.work.fingerprint for one in (await past_runs(store, []))["uid-perf"]] == ["another"] * 2
    found = (await past_runs(store, [("uid-perf", WORK)]))["uid-perf"]
    assert [one.seconds for one in found if one.work == WORK] == [60.0] * MIN_RUNS


async def test_by_the_handle_of_a_job_and_by_the_client(stage: Stage) -> None:
    stage.reviews.may("ann", "get", "create", resource="estimates")
    stage.objects.append(queue())
    await both_ran(stage.store)
    async with (
        Client(Credentials(stage.url, FixedIdentity(Proof(token="t-ann")))) as connection,
        AsyncClient(api=connection, namespace="perf", owner="me") as client,
    ):
        found = await AsyncJob(client, job("mine")).estimate()
        assert found.estimate.start and found.estimate.start.median == NOW + timedelta(minutes=50)
        assert (await client.would_start(spec(cluster="c-2"))).flavor == "c-2"
        with pytest.raises(ManifestError):
            await client.would_start({"cluster": 7})
