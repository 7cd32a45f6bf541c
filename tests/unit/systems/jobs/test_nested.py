"""A FournosJob inside another queued job, as in an AppWrapper: its owner's quota, no Workload of its own."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import Any

import pytest

from fournos.api.kinds import FOURNOS_JOB, PIPELINE_RUN
from fournos.engine.api.conditions import condition
from fournos.engine.kube.resource import Key, Resource, uid_of
from fournos.engine.queueing.kinds import WORKLOAD
from tests.unit.systems.jobs import actors
from tests.unit.systems.jobs.actors import NS, Tekton, job, phase, submit
from tests.unit.systems.jobs.test_lifecycle import scenario
from tests.world.harness import DISTURBED, Scenario, run
from tests.world.server import Server

APPWRAPPER = Resource("workload.codeflare.dev", "v1beta2", "AppWrapper", "appwrappers")


SLOT = "fournos/cluster-slot"
WHOLE = {SLOT: "100"}


def owner_of(server: Server, kind: Resource, name: str) -> dict[str, Any]:
    owner = server.create(kind, {"metadata": {"name": name, "namespace": NS}})
    reference = {"apiVersion": kind.api_version, "kind": kind.kind, "name": name, "uid": uid_of(owner)}
    return {**reference, "controller": True}


def queued_owner(
    server: Server,
    owner: dict[str, Any],
    pod_sets: dict[str, dict[str, str]],
    *,
    admitted: bool = True,
    cluster: str = "cluster-1",
) -> None:
    """The Workload of a queued owner, with what each pod set of a component is charged for."""
    name = f"{owner['kind'].lower()}-{owner['name']}"
    labels = {"kueue.x-k8s.io/job-uid": owner["uid"]}
    meta = {"name": name, "namespace": NS, "labels": labels, "ownerReferences": [owner]}
    body = [
        {
            "name": f"p-{number}",
            "count": 1,
            "template": {
                "metadata": {"annotations": {"fournos.dev/component": component}},
                "spec": {"containers": [{"resources": {"requests": amounts}}]},
            },
        }
        for number, (component, amounts) in enumerate(pod_sets.items())
    ]
    server.create(WORKLOAD, {"metadata": meta, "spec": {"podSets": body}})
    assigned = [
        {
            "name": f"p-{number}",
            "flavors": {one: cluster if one.startswith("fournos/") else "default" for one in amounts},
            "resourceUsage": amounts,
        }
        for number, amounts in enumerate(pod_sets.values())
    ]
    flags = [
        {"type": one, "status": "True" if admitted else "False"} for one in ("QuotaReserved", "Admitted")
    ]
    status = {"conditions": flags, "admission": {"clusterQueue": "q", "podSetAssignments": assigned}}
    server.patch(WORKLOAD, Key(NS, name), {"status": status}, subresource="status")


def component(name: str = "job") -> str:
    return f"fournos.dev/v1/FournosJob/{name}"


def wrapped(*, admitted: bool = True, amounts: dict[str, str] = WHOLE, **spec: Any) -> Any:
    def setup(server: Server) -> None:
        owner = owner_of(server, APPWRAPPER, "aw")
        queued_owner(server, owner, {component(): amounts}, admitted=admitted)
        submit(server, **spec)
        server.patch(FOURNOS_JOB, Key(NS, "job"), {"metadata": {"ownerReferences": [owner]}})

    return setup


def story(**kwargs: Any) -> Scenario:
    return replace(scenario(wrapped(**kwargs)), invariants=())


async def test_it_runs_on_the_quota_of_its_owner() -> None:
    server = (await run(story())).server
    assert phase(server) == "Succeeded"
    assert [one["metadata"]["name"] for one in server.list(WORKLOAD)] == ["appwrapper-aw"]
    (attempt,) = job(server)["status"]["attempts"]
    assert (attempt["cluster"], attempt["workload"]) == ("cluster-1", "appwrapper-aw")


@pytest.mark.parametrize("disturbed", DISTURBED)
async def test_survives(disturbed: str) -> None:
    assert await DISTURBED[disturbed](story()) > 0


async def test_it_waits_for_the_admission_of_its_owner() -> None:
    server = (await run(replace(story(admitted=False), end=lambda one: phase(one) == "Pending"))).server
    assert server.list(PIPELINE_RUN) == []
    shown = condition(server.get(FOURNOS_JOB, Key(NS, "job")), "WorkloadAdmitted")
    assert shown is not None and shown["reason"] == "OwnerNotAdmitted"


SHARED: dict[str, Any] = {"exclusive": False, "hardware": {"gpuType": "a100", "gpuCount": 8}}


@pytest.mark.parametrize(
    ("amounts", "spec", "expected"),
    [
        ({"cpu": "1m"}, {}, "request fournos/cluster-slot"),
        ({"cpu": "1m"}, {"cluster": None, **SHARED}, "request fournos/cluster-slot"),
        ({SLOT: "1"}, {}, "which has 1 of fournos/cluster-slot: request 100 there"),
        ({SLOT: "0"}, SHARED, "which has 0 of fournos/cluster-slot: request 1 there"),
        ({SLOT: "1", "fournos/gpu-a100": "1"}, SHARED, "which has 1 of fournos/gpu-a100: request 8 there"),
        ({SLOT: "1"}, SHARED, "which has no fournos/gpu-a100 of cluster cluster-1: request 8 there"),
        (WHOLE, {"cluster": "cluster-2"}, "admitted on cluster cluster-1, and spec.cluster is cluster-2"),
    ],
)
async def test_it_gets_no_more_than_its_owner_was_granted(
    amounts: dict[str, str], spec: dict[str, Any], expected: str
) -> None:
    server = (await run(attacked(wrapped(amounts=amounts, **spec)))).server
    assert phase(server) == "Failed"
    assert expected in job(server)["status"]["message"]
    assert server.list(PIPELINE_RUN) == []


JOBSET = Resource("jobset.x-k8s.io", "v1alpha2", "JobSet", "jobsets")


@pytest.mark.parametrize(
    ("kind", "components"),
    [
        (APPWRAPPER, {component("another"): WHOLE}),
        (APPWRAPPER, {"batch/v1/Job/job": WHOLE}),
        (APPWRAPPER, {}),
        (JOBSET, {component(): WHOLE}),
    ],
)
async def test_a_reference_to_an_owner_that_does_not_name_it_is_worth_nothing(
    kind: Resource, components: dict[str, dict[str, str]]
) -> None:
    """The cluster is held alone by another job: the one with the forged reference waits in the queue."""

    def victim(server: Server) -> None:
        submit(server, "victim")

    def forge(server: Server) -> None:
        owner = owner_of(server, kind, "aw")
        queued_owner(server, owner, components)
        submit(server, "thief")
        server.patch(FOURNOS_JOB, Key(NS, "thief"), {"metadata": {"ownerReferences": [owner]}})

    server = (await run(replace(attacked(victim), script=(forge,)))).server
    assert (phase(server, "victim"), phase(server, "thief")) == ("Running", "Pending")
    assert [one["metadata"]["name"] for one in server.list(PIPELINE_RUN)] == ["victim"]
    assert server.find(WORKLOAD, Key(NS, "thief")) is not None


def attacked(setup: Any) -> Scenario:
    """Runs do not end by themselves, and Kueue leaves the owner's Workload alone."""

    class Kueue(actors.Kueue):
        def __call__(self, server: Server) -> None:
            every = server.list
            listed = partial(_without_owners, every)
            server.list = listed  # type: ignore[method-assign]
            try:
                super().__call__(server)
            finally:
                server.list = every  # type: ignore[method-assign]

    tekton = partial(Tekton, endless={"victim", "thief", "job"})
    return replace(scenario(setup, kueue=Kueue, tekton=tekton), invariants=())


def _without_owners(every: Any, resource: Resource, **kwargs: Any) -> Any:
    found = every(resource, **kwargs)
    return [one for one in found if resource != WORKLOAD or not one["metadata"]["name"].endswith("-aw")]


async def test_a_job_whose_owner_loses_its_quota_is_stopped() -> None:
    def lose(server: Server) -> None:
        flags = [{"type": one, "status": "False"} for one in ("QuotaReserved", "Admitted")]
        body = {"status": {"conditions": flags, "admission": None}}
        server.patch(WORKLOAD, Key(NS, "appwrapper-aw"), body, subresource="status")
        server.patch(FOURNOS_JOB, Key(NS, "job"), {"metadata": {"labels": {"looked": "again"}}})

    server = (await run(replace(attacked(wrapped()), script=(lose,)))).server
    assert phase(server) == "Pending"
    (one,) = server.list(PIPELINE_RUN)
    assert one["status"]["completionTime"]
