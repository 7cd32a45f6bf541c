"""Estimates of the running process: from the caches that the recorder has anyway, and no further request."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import pytest

from fournos.api.fournosjob import FournosJobSpec
from fournos.api.kinds import FOURNOS_JOB
from fournos.engine.kube.resource import NAMESPACE, Resource
from fournos.engine.kube.store import Store
from fournos.engine.queueing.kinds import (
    CLUSTER_QUEUE,
    LOCAL_QUEUE,
    RESOURCE_FLAVOR,
    WORKLOAD,
    WORKLOAD_PRIORITY_CLASS,
)
from fournos.engine.runtime.clock import SystemClock
from fournos.engine.runtime.controller import Caches
from fournos.engine.runtime.manager import Manager
from fournos.engine.runtime.metrics import Metrics
from fournos.history.estimates.estimator import DEEPEST, Estimator, NotReadyError, read_objects
from fournos.history.estimates.live import Objects
from fournos.history.part import PART
from fournos.history.recorder.observe import watches
from fournos.history.records import Identity
from fournos.history.settings import HistorySettings
from tests.unit.history.estimates.live_objects import (
    CLASSES,
    FLAVORS,
    cluster_queue,
    job,
    local_queue,
    workload,
    world,
)
from tests.unit.history.estimates.live_objects import spec as job_spec
from tests.world.connection import Connection
from tests.world.server import Server, VirtualClock


def caches(**filled: Iterable[Any]) -> Caches:
    """The caches of the recorder of FournosJobs, with its own projections."""
    by_plural: dict[str, Iterable[Any]] = filled
    stores: dict[Resource, Store] = {}
    for watch in watches(HistorySettings(), FOURNOS_JOB):
        store = stores[watch.resource] = Store(project=watch.project, indexes=watch.indexes)
        found = [
            {**one, "metadata": {"resourceVersion": "1", "namespace": "", "uid": "", **one["metadata"]}}
            for one in by_plural.get(watch.resource.plural, ())
        ]
        store.replace(found, "1")
    return Caches(stores)


async def test_the_objects_are_those_of_the_recorders_caches() -> None:
    one, over = job("one"), job("over")
    finished = workload(over, on="c-1")
    finished["status"]["conditions"].append({"type": "Finished", "status": "True"})
    found = await read_objects(
        caches(
            **{
                WORKLOAD.plural: [workload(one), finished],
                FOURNOS_JOB.plural: [one, over],
                LOCAL_QUEUE.plural: [local_queue()],
                CLUSTER_QUEUE.plural: [cluster_queue()],
                RESOURCE_FLAVOR.plural: FLAVORS,
                WORKLOAD_PRIORITY_CLASS.plural: CLASSES,
                NAMESPACE.plural: [{"metadata": {"name": "perf", "uid": "uid-perf"}}],
            }
        )
    )
    assert [one["spec"]["podSets"] for one in found.workloads] == [workload(one)["spec"]["podSets"]]
    assert {uid: one["spec"] for uid, one in found.jobs.items()} == {"uid-one": job_spec()}
    assert found.namespaces == {"perf": "uid-perf"}
    counts = (found.local_queues, found.cluster_queues, found.flavors, found.priority_classes)
    assert list(map(len, counts)) == [1, 1, 2, 1]


async def test_before_the_caches_are_filled_there_is_no_estimate() -> None:
    found = Caches({resource: Store() for resource in (WORKLOAD, NAMESPACE)})
    with pytest.raises(NotReadyError):
        await read_objects(found)


async def test_the_part_reads_the_caches_of_its_manager(
    tmp_path: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("FOURNOS_HISTORY_DIRECTORY", str(tmp_path))
    seen: list[Any] = []
    monkeypatch.setattr(
        "fournos.history.estimates.predictor.live_estimator",
        lambda live, opened, clock, gpu_prefix: seen.append(live),
    )
    started = PART.start(HistorySettings(), SystemClock(), Metrics(), lambda name, key: None)
    manager = Manager(Connection(Server()), started.controllers, clock=VirtualClock())
    assert seen == [[]]
    started.started(manager)
    assert seen[0] == [manager.caches("history-fournosjobs")]
    assert WORKLOAD in seen[0][0]


def estimator(objects: Objects, reads: list[int] | None = None) -> tuple[Estimator, VirtualClock]:
    clock = VirtualClock()

    async def read() -> Objects:
        if reads is not None:
            reads.append(1)
        return objects

    async def past(_: Any) -> Any:
        return {}

    return Estimator(read, past, clock, gpu_prefix="fournos/gpu-"), clock


async def test_the_queues_are_read_once_for_many_questions() -> None:
    reads: list[int] = []
    one = job("one")
    found, clock = estimator(world((one, workload(one))), reads)
    for _ in range(3):
        assert await found.one("perf", "one")
        assert [each.name for each in await found.waiting("perf")] == ["one"]
    assert await found.waiting("other") == []
    assert len(reads) == 1
    clock.advance(6)
    await found.one("perf", "one")
    assert len(reads) == 2


async def test_predictions_have_the_identity_of_the_history() -> None:
    one = job("one")
    found, _ = estimator(world((one, workload(one))))
    ((identity, estimate),) = await found.predictions()
    assert identity == Identity("here", "perf", "uid-one")
    assert estimate.start
    unknown, _ = estimator(world((one, workload(one)), namespaces={}))
    assert await unknown.predictions() == [], "the identity of the cluster is not known"


async def test_of_several_gpus_those_count_that_are_free_first() -> None:
    busy = job("busy", hardware={"gpuType": "a100", "gpuCount": 6})
    found, _ = estimator(world((busy, workload(busy, on="c-1"))))

    async def starts_now(*alternatives: int) -> bool:
        choices = [{"gpuType": "a100", "gpuCount": number} for number in (4, *alternatives)]
        hardware = {**choices[0], "alternatives": choices[1:]}
        spec = FournosJobSpec.model_validate(job_spec(cluster="c-1", hardware=hardware))
        return (await found.would_start("perf", spec, "fournos-queue")).now

    assert [await starts_now(), await starts_now(3), await starts_now(3, 2)] == [False, False, True]


async def test_the_end_of_a_long_queue_is_not_played() -> None:
    pairs = [(one, workload(one, age=1000 - n)) for n in range(DEEPEST + 1) if (one := job(f"j{n:03}"))]
    found, _ = estimator(world(*pairs))
    last = await found.one("perf", f"j{DEEPEST:03}")
    assert last
    assert last.estimate.reason == f"more than {DEEPEST} jobs are before it"
    new = await found.would_start("perf", FournosJobSpec.model_validate(job_spec()), "fournos-queue")
    assert (new.now, new.estimate.reason) == (False, f"more than {DEEPEST} jobs are before it")
