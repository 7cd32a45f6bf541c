"""An AppWrapper's life in the in-memory world: each scenario also runs through every crash, stale view, lost
event and failed write, and must end alike."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from fournos.api.kinds import APPWRAPPER
from fournos.engine.api.conditions import condition, is_true
from fournos.engine.kube.resource import DEPLOYMENT, JOB, POD, PRIORITY_CLASS, Key
from fournos.engine.queueing.kinds import WORKLOAD
from fournos.systems.appwrappers.part import appwrappers_controller
from tests.unit.systems.appwrappers.actors import (
    KUEUE,
    NS,
    OWN,
    SERVICE,
    Controllers,
    deployment_template,
    get,
    job_template,
    phase,
    pod_template,
    pods_of,
    submit,
)
from tests.world.compare import snapshot
from tests.world.harness import DISTURBED, Scenario, run
from tests.world.kueue import Kueue, holding, one_workload_each
from tests.world.server import Server


def quota_covers_every_live_pod(server: Server) -> None:
    """A pod that has not ended implies a Workload that holds quota, as long as its AppWrapper is there."""
    for wrapper in server.list(APPWRAPPER):
        name = wrapper["metadata"]["name"]
        alive = [
            one
            for one in pods_of(server, name)
            if (one.get("status") or {}).get("phase") not in ("Succeeded", "Failed")
        ]
        if not alive or "kueue.x-k8s.io/queue-name" not in wrapper["metadata"]["labels"]:
            continue
        held = holding(server, name)
        assert held, f"{name} runs without quota"


def terminal_means_released(server: Server) -> None:
    for wrapper in server.list(APPWRAPPER):
        if (wrapper.get("status") or {}).get("phase") == "Succeeded":
            assert not is_true(wrapper, "QuotaReserved")


INVARIANTS = (quota_covers_every_live_pod, one_workload_each, terminal_means_released)


def scenario(
    setup: Callable[[Server], None],
    *,
    kueue: Callable[[], Kueue] = Kueue,
    world: Callable[[], Controllers] = Controllers,
    **kwargs: Any,
) -> Scenario:
    return Scenario(
        appwrappers_controller(kwargs.pop("settings", OWN)),
        setup,
        cast=(kueue, world),
        invariants=INVARIANTS,
        **{"end": settled, "end_unseen": outcome, **kwargs},
    )


def sample(server: Server) -> None:
    submit(server, pod_template("sample"))


def mixed(server: Server) -> None:
    submit(server, SERVICE, pod_template("one"), job_template("many", parallelism=2, completions=4))


def with_deployment(server: Server) -> None:
    submit(server, deployment_template("web", 2))


def deleted(server: Server) -> None:
    server.delete(APPWRAPPER, Key(NS, "aw"))


def workload_deleted(server: Server) -> None:
    for workload in server.list(WORKLOAD):
        server.delete(WORKLOAD, Key(NS, workload["metadata"]["name"]))


def unqueued(server: Server) -> None:
    submit(server, job_template("many"), queue=None)


def outcome(server: Server) -> Any:
    """What must be alike where users or Kueue act at another moment of the life."""
    wrappers = [
        (one["metadata"]["name"], (one.get("status") or {}).get("phase"), one["spec"].get("suspend"))
        for one in server.list(APPWRAPPER)
    ]
    held = sorted(
        is_true(one, "QuotaReserved") for one in server.list(WORKLOAD) if not is_true(one, "Finished")
    )
    pods = sorted((one.get("status") or {}).get("phase", "") for one in server.list(POD))
    return wrappers, held, pods


def settled(server: Server) -> Any:
    """Returns all objects without the fields that depend on the time of observation."""
    found = snapshot(server)
    for obj in found.values():
        status = obj.get("status") or {}
        status["conditions"] = [
            one
            for one in status.get("conditions") or ()
            if one["type"] not in ("PodsReady", "DeletingResources", "Unhealthy")
        ]
    return found


STORIES: dict[str, Scenario] = {
    "sample": scenario(sample),
    "mix": scenario(mixed),
    "deployment is deleted": scenario(
        with_deployment, script=[deleted], world=lambda: Controllers(endless={"web-0", "web-1"})
    ),
    "preempted and run again": scenario(
        with_deployment,
        kueue=lambda: Kueue(evict={"aw": "Preempted"}),
        world=lambda: Controllers(endless={"web-0", "web-1"}),
        end=outcome,
    ),
    "fails once": scenario(sample, world=lambda: Controllers(fails={"sample"}), end=outcome),
    "fails for good": scenario(
        lambda s: submit(s, pod_template("sample"), retryLimit="1"),
        world=lambda: Controllers(always_fails={"sample"}),
        end=outcome,
    ),
    "never scheduled": scenario(
        lambda s: submit(s, pod_template("sample"), retryLimit="0"),
        world=lambda: Controllers(stuck={"sample"}),
    ),
    "workload is deleted": scenario(
        with_deployment,
        script=[workload_deleted],
        world=lambda: Controllers(endless={"web-0", "web-1"}),
        end=outcome,
    ),
    "without a queue": scenario(unqueued),
    "with Kueue's own integration": scenario(
        lambda s: submit(s, job_template("many"), queue=None),
        settings=KUEUE,
        script=[deleted],
    ),
}


@pytest.mark.parametrize("disturbed", DISTURBED)
@pytest.mark.parametrize("story", STORIES)
async def test_survives(story: str, disturbed: str) -> None:
    assert await DISTURBED[disturbed](STORIES[story]) > 3


async def test_the_straight_way() -> None:
    done = await run(STORIES["sample"])
    wrapper = get(done.server)
    assert wrapper["status"]["phase"] == "Succeeded"
    assert condition(wrapper, "QuotaReserved")["reason"] == "Succeeded"  # type: ignore[index]
    assert is_true(wrapper, "ResourcesDeployed")
    (workload,) = done.server.list(WORKLOAD)
    assert workload["metadata"]["name"].startswith("appwrapper-aw-")
    assert condition(workload, "Finished")["message"] == "AppWrapper finished successfully"  # type: ignore[index]
    assert "finalizers" not in workload["metadata"]
    assert [one["name"] for one in workload["spec"]["podSets"]] == ["aw-0"]


async def test_the_priority_of_a_held_lock_is_refused_with_the_reason() -> None:
    def critical(server: Server) -> None:
        name = "system-cluster-critical"
        server.create(PRIORITY_CLASS, {"metadata": {"name": name}, "value": 2_000_000_000})
        template = pod_template("sample")
        submit(server, {**template, "spec": {**template["spec"], "priorityClassName": name}})

    server = (await run(scenario(critical))).server
    found = condition(get(server), "QuotaReserved")
    assert found is not None and (found["status"], found["reason"]) == ("False", "PriorityReserved")
    assert "for locks of clusters only; name another class" in found["message"]
    assert server.list(WORKLOAD) == []


async def test_pods_get_what_the_admission_has() -> None:
    done = await run(STORIES["mix"])
    job = done.server.get(JOB, Key(NS, "many"))
    template = job["spec"]["template"]
    assert template["spec"]["nodeSelector"] == {"pool": "a"}
    assert template["spec"]["tolerations"] == [{"key": "t", "operator": "Exists"}]
    labels = template["metadata"]["labels"]
    assert labels["workload.codeflare.dev/appwrapper"] == "aw"
    assert labels["kueue.x-k8s.io/podset"] == "aw-1"
    assert job["metadata"]["labels"] == {"workload.codeflare.dev/appwrapper": "aw"}
    assert job["metadata"]["ownerReferences"][0]["controller"] is True
    assert len(pods_of(done.server)) == 5  # one Pod, four of the Job: two at a time is not done after two


async def test_nothing_is_left_of_a_deleted_one() -> None:
    done = await run(STORIES["deployment is deleted"])
    for kind in (APPWRAPPER, DEPLOYMENT, POD, WORKLOAD):
        assert done.server.list(kind) == []


async def test_a_failed_one_is_reset_and_counted() -> None:
    done = await run(STORIES["fails once"])
    status = get(done.server)["status"]
    assert (status["phase"], status["resettingCount"]) == ("Succeeded", 1)
    assert not is_true(get(done.server), "Unhealthy")


async def test_a_failure_for_good_releases_everything() -> None:
    done = await run(STORIES["fails for good"])
    wrapper = get(done.server)
    assert (wrapper["status"]["phase"], wrapper["status"]["resettingCount"]) == ("Failed", 1)
    assert condition(wrapper, "Unhealthy")["reason"] == "FoundFailedPods"  # type: ignore[index]
    assert not is_true(wrapper, "QuotaReserved") and not is_true(wrapper, "ResourcesDeployed")
    assert pods_of(done.server) == []
    assert phase(done.server) == "Failed"
    (workload,) = done.server.list(WORKLOAD)
    assert condition(workload, "Finished")["reason"] == "Failed"  # type: ignore[index]
