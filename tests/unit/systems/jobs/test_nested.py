"""A FournosJob that names a queued owner, such as an AppWrapper: it gets its own place in the queue."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import Any

import pytest

from fournos.api.kinds import FOURNOS_JOB, PIPELINE_RUN
from fournos.engine.kube.resource import Key, Resource, uid_of
from fournos.engine.queueing.kinds import WORKLOAD
from tests.unit.systems.jobs import actors
from tests.unit.systems.jobs.actors import NS, Tekton, phase, submit
from tests.unit.systems.jobs.test_lifecycle import scenario
from tests.world.harness import Scenario, run
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


JOBSET = Resource("jobset.x-k8s.io", "v1alpha2", "JobSet", "jobsets")


@pytest.mark.parametrize(
    ("kind", "components"),
    [
        (APPWRAPPER, {component(): WHOLE}),
        (APPWRAPPER, {component("another"): WHOLE}),
        (APPWRAPPER, {"batch/v1/Job/job": WHOLE}),
        (APPWRAPPER, {}),
        (JOBSET, {component(): WHOLE}),
    ],
)
async def test_a_reference_to_a_queued_owner_is_worth_nothing(
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
