"""Queued objects in company: on other clusters, inside other jobs, beside Kueue's pod integration."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from fournos.engine.api.conditions import Condition, condition, is_true
from fournos.engine.kube.resource import Resource, uid_of
from fournos.engine.queueing.kinds import WORKLOAD
from tests.unit.systems.frameworks.actors import (
    NS,
    RUN,
    ended,
    flavor,
    get,
    pipeline_run,
    submitted,
    tekton_refuses,
)
from tests.unit.systems.frameworks.test_lifecycle import endless, preempting, scenario
from tests.world.harness import DISTURBED, Scenario, run
from tests.world.kueue import Kueue
from tests.world.server import Server
from tests.world.status import set_conditions

REQUEST = {"tekton.dev/pipelineruns": "1"}
WRAPPER = Resource("workload.codeflare.dev", "v1beta2", "AppWrapper", "appwrappers")


def dispatched(name: str = "far") -> dict[str, Any]:
    one = pipeline_run(name)
    one["spec"]["managedBy"] = "kueue.x-k8s.io/multikueue"
    return one


def comes_back(server: Server) -> None:
    """Mirrors the worker's status, as MultiKueue does."""
    body = Condition("Succeeded", "True", "Done", "over there")
    set_conditions(server, RUN, get(server, "far"), body, startTime="2030-01-01T00:00:00Z")


def mirrors_status(server: Server) -> None:
    """Mirrors the end of the run, as MultiKueue does."""
    (workload,) = server.list(WORKLOAD)
    finished = Condition("Finished", "True", "Succeeded", "over there")
    set_conditions(server, WORKLOAD, workload, finished)


def is_stopped_there(server: Server) -> None:
    stopped = Condition("Succeeded", "False", "Cancelled", "stopped there")
    set_conditions(server, RUN, get(server, "far"), stopped, startTime="2030-01-01T00:00:00Z")


def on_manager(server: Server) -> None:
    submitted(dispatched())(server)


def container() -> dict[str, Any]:
    return {"name": "main", "image": "main", "resources": {"requests": REQUEST}}


def on_worker(server: Server) -> None:
    """MultiKueue makes the Workload, and the copy once it is admitted."""
    server.refusals.append(tekton_refuses)
    flavor(server)
    template = {"spec": {"containers": [container()], "restartPolicy": "Never"}}
    workload = {
        "metadata": {"name": "before", "namespace": NS, "labels": {"kueue.x-k8s.io/multikueue-origin": "m"}},
        "spec": {"queueName": "lq", "podSets": [{"name": "main", "count": 1, "template": template}]},
    }
    server.create(WORKLOAD, workload)
    copy = pipeline_run("copy")
    copy["metadata"]["labels"]["kueue.x-k8s.io/prebuilt-workload-name"] = "before"
    server.create(RUN, copy)


def in_wrapper(*, queued: bool) -> Callable[[Server], None]:
    """A run that an AppWrapper has made; with a queue the wrapper has its Workload."""

    def setup(server: Server) -> None:
        server.refusals.append(tekton_refuses)
        flavor(server)
        wrapper = server.create(WRAPPER, {"metadata": {"name": "aw", "namespace": NS}, "spec": {}})
        owner = {
            "apiVersion": WRAPPER.api_version,
            "kind": WRAPPER.kind,
            "name": "aw",
            "uid": uid_of(wrapper),
            "controller": True,
        }
        if queued:
            labels = {"kueue.x-k8s.io/job-uid": uid_of(wrapper)}
            named = {"annotations": {"fournos.dev/component": "tekton.dev/v1/PipelineRun/run"}}
            template = {"metadata": named, "spec": {"containers": [container()]}}
            pod_set = {"name": "aw-0", "count": 1, "template": template}
            meta = {"name": "aw", "namespace": NS, "ownerReferences": [owner], "labels": labels}
            server.create(WORKLOAD, {"metadata": meta, "spec": {"queueName": "lq", "podSets": [pod_set]}})
        one = pipeline_run()
        one["metadata"]["ownerReferences"] = [owner]
        server.create(RUN, one)

    return setup


STORIES: dict[str, Scenario] = {
    "on the manager": scenario(on_manager, script=[comes_back, mirrors_status]),
    "stopped on the worker": scenario(on_manager, script=[is_stopped_there]),
    "evicted on the manager": scenario(
        on_manager, kueue=lambda: Kueue(evict={"far": "Preempted"}, when_ready=False)
    ),
    "on the worker": scenario(on_worker),
    "evicted on the worker": scenario(on_worker, kueue=preempting("copy"), world=endless("copy")),
    "inside a queued AppWrapper": scenario(in_wrapper(queued=True)),
    "inside one without a queue": scenario(in_wrapper(queued=False)),
}


@pytest.mark.parametrize("disturbed", DISTURBED)
@pytest.mark.parametrize("story", STORIES)
async def test_survives(story: str, disturbed: str) -> None:
    assert await DISTURBED[disturbed](STORIES[story]) > 0


async def test_on_the_manager_it_has_its_workload_and_is_left_alone() -> None:
    server = (await run(STORIES["on the manager"])).server
    (workload,) = server.list(WORKLOAD)
    found = condition(workload, "Finished")
    assert found is not None and (found["reason"], found["message"]) == ("Succeeded", "over there")
    assert "finalizers" not in workload["metadata"]
    wanted = dispatched()
    assert get(server, "far")["spec"] == wanted["spec"]
    assert get(server, "far")["metadata"]["annotations"] == wanted["metadata"]["annotations"]


async def test_what_was_stopped_on_a_worker_is_not_over() -> None:
    server = (await run(STORIES["stopped on the worker"])).server
    (workload,) = server.list(WORKLOAD)
    assert is_true(workload, "Admitted") and not is_true(workload, "Finished")


async def test_evicted_on_the_manager_it_gives_its_place_back_and_waits_again() -> None:
    server = (await run(STORIES["evicted on the manager"])).server
    (workload,) = server.list(WORKLOAD)
    assert is_true(workload, "Admitted")  # a second time
    assert (condition(workload, "Requeued") or {})["reason"] == "Preempted"
    assert get(server, "far")["spec"] == dispatched()["spec"]


async def test_on_the_worker_it_takes_the_workload_that_was_made_for_it() -> None:
    server = (await run(STORIES["on the worker"])).server
    (workload,) = server.list(WORKLOAD)
    assert workload["metadata"]["name"] == "before"
    assert workload["metadata"]["ownerReferences"][0]["controller"] is True
    assert ended(server, "copy") == ("True", "Done")
    assert (condition(workload, "Finished") or {})["reason"] == "Succeeded"


async def test_evicted_on_the_worker_it_ends_and_its_workload_goes_back() -> None:
    server = (await run(STORIES["evicted on the worker"])).server
    assert [one["metadata"]["name"] for one in server.list(RUN)] == ["copy"]
    assert ended(server, "copy") == ("False", "Cancelled")
    (workload,) = server.list(WORKLOAD)
    assert (condition(workload, "Evicted") or {})["reason"] == "Preempted"
    assert not is_true(workload, "QuotaReserved") and not is_true(workload, "Finished")
    assert workload["spec"]["active"] is False


async def test_inside_a_queued_job_it_runs_on_its_quota() -> None:
    server = (await run(STORIES["inside a queued AppWrapper"])).server
    assert [one["metadata"]["name"] for one in server.list(WORKLOAD)] == ["aw"]
    assert ended(server) == ("True", "Done")
    alone = (await run(STORIES["inside one without a queue"])).server
    (own,) = alone.list(WORKLOAD)
    assert is_true(own, "Finished") and own["metadata"]["name"].startswith("pipelinerun-run-")
