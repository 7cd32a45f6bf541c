"""Fault tolerance: clocks, verdicts and bounds, in virtual time."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from fournos.api.kinds import APPWRAPPER
from fournos.engine.api.conditions import Condition, condition, is_true
from fournos.engine.kube.errors import ForbiddenError, InvalidError, KubeError
from fournos.engine.kube.resource import DEPLOYMENT, JOB, NODE, POD, Key, owner_reference
from tests.unit.systems.appwrappers.actors import (
    KUEUE,
    NS,
    Controllers,
    deployment_template,
    edit,
    get,
    job_template,
    phase,
    pod_template,
    pods_of,
    submit,
)
from tests.unit.systems.appwrappers.test_lifecycle import scenario
from tests.world.harness import Run, in_order, refusing, run
from tests.world.server import Server
from tests.world.status import set_conditions

SAMPLE = pod_template("sample")


def submitted(*templates: dict[str, Any], **annotations: str | None) -> Callable[[Server], None]:
    return lambda server: submit(server, *templates, **annotations)


class Watch(Controllers):
    """Also writes down when which phase was seen."""

    def __init__(self, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.seen: list[tuple[str, float]] = []

    def __call__(self, server: Server) -> None:
        now = phase(server)
        if not self.seen or self.seen[-1][0] != now:
            self.seen.append((now, server.clock.seconds))
        super().__call__(server)

    def times(self, wanted: str) -> list[float]:
        return [at for name, at in self.seen if name == wanted]


async def watched(setup: Callable[[Server], None], world: Watch, **kwargs: Any) -> tuple[Run, Watch]:
    return await run(scenario(setup, world=lambda: world, **kwargs)), world


async def test_every_failure_has_its_whole_grace() -> None:
    done, seen = await watched(
        submitted(SAMPLE, retryLimit="2", retryPausePeriodDuration="10m"),
        Watch(always_fails={"sample"}),
    )
    first, second = seen.times("Resetting")
    (failed,) = seen.times("Failed")
    # A minute of grace each time, and a pause of ten minutes from when the trouble began.
    assert (first, second - first, failed - second) == (60, 600, 600)
    assert get(done.server)["status"]["resettingCount"] == 2


async def test_a_terminal_exit_code_is_not_retried() -> None:
    for annotation in ({"terminalExitCodes": "2,3"}, {"retryableExitCodes": "1"}):
        done, seen = await watched(submitted(SAMPLE, **annotation), Watch(always_fails={"sample"}))
        assert phase(done.server) == "Failed" and seen.times("Failed") == [0]


async def test_the_debug_hold_is_bounded_and_ends_with_suspension() -> None:
    annotations = {"deletionOnFailureGracePeriodDuration": "20m", "retryLimit": "0"}
    done, _ = await watched(submitted(SAMPLE, **annotations), Watch(always_fails={"sample"}))
    assert phase(done.server) == "Failed" and pods_of(done.server) == []
    assert 1200 <= done.server.clock.seconds <= 1330
    assert not is_true(get(done.server), "QuotaReserved")

    def suspend(server: Server) -> None:
        assert pods_of(server)
        edit(suspend=True)(server)

    held = scenario(
        lambda server: submit(server, SAMPLE, queue=None, **annotations),
        settings=KUEUE,
        world=lambda: Controllers(always_fails={"sample"}),
        script=[suspend],
        horizon=300,
    )
    early = await run(held)
    assert pods_of(early.server) == [] and early.server.clock.seconds < 700


async def test_what_does_not_go_is_deleted_by_force_and_quota_waits_for_it() -> None:
    def stubborn(server: Server) -> None:
        submit(server, SAMPLE, forcefulDeletionGracePeriodDuration="5m")

    def hold(server: Server) -> None:
        server.patch(POD, Key(NS, "sample"), {"metadata": {"finalizers": ["x"]}})
        edit(suspend=True)(server)

    def quota_is_held(server: Server) -> None:
        assert is_true(get(server), "QuotaReserved")
        server.patch(POD, Key(NS, "sample"), {"metadata": {"finalizers": None}})

    done = await run(
        scenario(
            stubborn,
            world=lambda: Controllers(endless={"sample"}),
            script=[hold, quota_is_held],
            horizon=900,
        )
    )
    # Kueue admits it again at once: the Workload was never evicted.
    assert phase(done.server) == "Running"


async def test_readiness_lost_late_has_a_grace_of_its_own() -> None:
    pod = Key(NS, "web-0")

    def later(server: Server) -> None:
        server.clock.advance(3000)
        set_conditions(
            server, POD, server.get(POD, pod), Condition("Ready", "False", "", ""), phase="Pending"
        )

    def still_running(server: Server) -> None:
        assert phase(server) == "Running"
        set_conditions(server, POD, server.get(POD, pod), Condition("Ready", "True", "", ""), phase="Running")

    done = await run(
        scenario(
            submitted(deployment_template("web")),
            world=lambda: Controllers(endless={"web-0"}),
            script=[later, still_running],
            horizon=200,
        )
    )
    assert phase(done.server) == "Running" and is_true(get(done.server), "PodsReady")
    assert "resettingCount" not in get(done.server)["status"]


async def test_a_finished_job_may_go_and_one_that_is_lost_fails_at_once() -> None:
    def gone(server: Server) -> None:
        server.delete(JOB, Key(NS, "quick"))
        server.collect_garbage()

    finished = await run(
        scenario(
            submitted(job_template("quick"), SAMPLE),
            world=lambda: Controllers(endless={"sample"}),
            script=[gone],
        )
    )
    assert phase(finished.server) == "Running"
    lost = await run(
        scenario(
            submitted(job_template("quick"), SAMPLE),
            world=lambda: Controllers(endless={"sample", "quick-0"}),
            script=[gone],
        )
    )
    assert phase(lost.server) == "Failed"
    found = condition(get(lost.server), "Unhealthy")
    assert found is not None and found["reason"] == "MissingComponent" and "Job quick" in found["message"]


async def test_a_foreign_object_is_never_taken_or_deleted() -> None:
    def occupied(server: Server) -> None:
        spec = {"suspend": True, "components": []}
        server.create(APPWRAPPER, {"metadata": {"name": "other", "namespace": NS}, "spec": spec})
        owners = [owner_reference(APPWRAPPER, get(server, "other"))]
        meta = {"name": "web", "namespace": NS, "ownerReferences": owners}
        server.create(DEPLOYMENT, {"metadata": meta, "spec": {"replicas": 0}})
        submit(server, deployment_template("web"))

    done = await run(scenario(occupied))
    assert phase(done.server) == "Failed"
    assert done.server.find(DEPLOYMENT, Key(NS, "web")) is not None
    assert "belongs to AppWrapper other" in condition(get(done.server), "Unhealthy")["message"]  # type: ignore[index]


async def test_a_refused_creation_is_retried_within_the_grace_and_an_invalid_one_is_not() -> None:
    def refused(error: KubeError) -> Callable[[Server], None]:
        return in_order(refusing(POD, error), submitted(SAMPLE, retryLimit="0"))

    _, forbidden = await watched(refused(ForbiddenError("no", status=403)), Watch())
    assert 60 <= forbidden.times("Failed")[0] <= 120
    done, invalid = await watched(refused(InvalidError("bad", status=422)), Watch())
    assert invalid.times("Failed") == [0]
    assert condition(get(done.server), "Unhealthy")["reason"] == "CreateFailed"  # type: ignore[index]


async def test_what_the_operator_may_neither_make_nor_see_holds_up_nothing() -> None:
    """It was never made: neither the end nor the deletion of the AppWrapper waits for a right to see it."""

    def setup(server: Server) -> None:
        server.unreadable.add(JOB)
        refusing(JOB, ForbiddenError("no", status=403))(server)
        submit(server, SAMPLE, job_template("many"), retryLimit="0")

    def delete(server: Server) -> None:
        assert phase(server) == "Failed" and pods_of(server) == []
        server.delete(APPWRAPPER, Key(NS, "aw"))

    done = await run(scenario(setup, script=[delete], end=lambda server: None))
    assert done.server.find(APPWRAPPER, Key(NS, "aw")) is None


async def test_pods_move_away_from_a_node_marked_for_eviction() -> None:
    template = pod_template("sample")
    template["spec"]["containers"] = [
        {"name": "main", "image": "i", "resources": {"limits": {"nvidia.com/gpu": "1"}}}
    ]

    def setup(server: Server) -> None:
        server.create(NODE, {"metadata": {"name": "n1", "labels": {}}})
        submit(server, template)

    def marked(server: Server) -> None:
        pod = server.get(POD, Key(NS, "sample"))
        affinity = pod["spec"]["affinity"]["nodeAffinity"]
        assert "requiredDuringSchedulingIgnoredDuringExecution" in affinity
        server.patch(POD, Key(NS, "sample"), {"spec": {"nodeName": "n1"}})
        server.patch(NODE, Key("", "n1"), {"metadata": {"labels": {"autopilot.ibm.com/gpuhealth": "EVICT"}}})

    world = Watch(endless={"sample"})
    done, seen = await watched(setup, world, script=[marked])
    assert phase(done.server) == "Running" and len(seen.times("Resetting")) == 1
    assert "resettingCount" not in get(done.server)["status"]


async def test_resources_go_after_their_time_to_live() -> None:
    done = await run(scenario(submitted(SAMPLE, successTTLDuration="30m")))
    assert phase(done.server) == "Succeeded" and pods_of(done.server) == []
    assert not is_true(get(done.server), "ResourcesDeployed")


def managed_by(manager: str | None) -> Callable[[Server], None]:
    return in_order(submitted(SAMPLE, queue=None), edit(managedBy=manager))


@pytest.mark.parametrize("manager", ["kueue.x-k8s.io/multikueue", "example.com/mine", "no name of ours", " "])
async def test_another_controllers_object_is_left_alone(manager: str) -> None:
    done = await run(scenario(managed_by(manager)))
    assert "status" not in get(done.server) and pods_of(done.server) == []
    assert "finalizers" not in get(done.server)["metadata"]


@pytest.mark.parametrize("manager", [None, "", "workload.codeflare.dev/appwrapper-controller"])
async def test_an_object_of_ours_is_begun(manager: str | None) -> None:
    assert "status" in get((await run(scenario(managed_by(manager)))).server)
