"""A job's status written by another client ends no run, releases no cluster and grants no quota."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Any

import pytest

from fournos.api.kinds import FOURNOS_JOB, PIPELINE, PIPELINE_RUN
from fournos.engine.kube.errors import ForbiddenError
from fournos.engine.kube.resource import SECRET, Key, Obj, Resource, owner_reference
from fournos.engine.queueing.kinds import WORKLOAD
from tests.unit.systems.jobs import actors
from tests.unit.systems.jobs.actors import NS, Kueue, Tekton, edit, job, phase, submit
from tests.unit.systems.jobs.test_lifecycle import INVARIANTS, one_live_run_a_job, scenario
from tests.world.harness import Scenario, refusing, run
from tests.world.server import Server


def forged(status: Obj, name: str = "victim") -> Callable[[Server], None]:
    def write(server: Server) -> None:
        server.patch(FOURNOS_JOB, Key(NS, name), {"status": status}, subresource="status")

    return write


def launcher(pod: Obj) -> Obj:
    return {"name": "launcher", "count": 1, "template": {"spec": pod}}


def live_runs(server: Server) -> list[str]:
    runs = server.list(PIPELINE_RUN)
    return [one["metadata"]["name"] for one in runs if not (one.get("status") or {}).get("completionTime")]


def attacked(*script: Callable[[Server], None], **spec: Any) -> Scenario:
    """A run that does not end by itself, on the cluster that another job waits for."""

    def setup(server: Server) -> None:
        submit(server, "victim", **spec)

    def other(server: Server) -> None:
        submit(server, "thief")

    tekton = Tekton(endless={"victim", "thief"}, pods=True)
    return replace(scenario(setup, tekton=lambda: tekton), script=(other, *script))


async def test_a_declared_admission_is_no_quota() -> None:
    """Its own job declared Admitted, with a Workload that is another job's."""

    def created(server: Server) -> None:
        submit(server, "thief", suspend=True)

    def declare(server: Server) -> None:
        attempt = {"number": 1, "cluster": "cluster-1", "workload": "victim", "pipelineRun": "thief"}
        status = {"phase": "Admitted", "cluster": "cluster-1", "attempt": 1, "attempts": [attempt]}
        forged(status, "thief")(server)
        edit("thief", suspend=False)(server)

    server = (await run(replace(attacked(), script=(created, declare)))).server
    assert (phase(server, "victim"), phase(server, "thief")) == ("Running", "Pending")
    assert live_runs(server) == ["victim"]


def unlaunched(server: Server) -> None:
    """Admitted, while the PipelineRun cannot be made."""

    refusing(PIPELINE_RUN, ForbiddenError("pipelineruns is forbidden", status=403))(server)
    submit(server, "victim")


async def test_the_cluster_is_the_one_that_was_granted() -> None:
    def elsewhere(server: Server) -> None:
        forged({"cluster": "cluster-2"})(server)
        server.refusals.clear()

    story = scenario(unlaunched, tekton=lambda: Tekton(endless={"victim"}))
    server = (await run(replace(story, script=(elsewhere,)))).server
    (one,) = server.list(PIPELINE_RUN)
    assert one["metadata"]["annotations"]["fournos.dev/cluster"] == "cluster-1"
    assert job(server, "victim")["status"]["cluster"] == "cluster-1"
    assert server.find(SECRET, Key(NS, "victim-kubeconfig")) is not None


async def test_a_foreign_workload_must_request_what_the_job_needs() -> None:
    """It names the job as its owner, was admitted, and holds one slot where the job takes all."""

    def make(server: Server) -> None:
        submit(server, "thief")
        pod = {"containers": [{"resources": {"requests": {"fournos/cluster-slot": "0"}}}]}
        spec = {"queueName": "fournos-queue", "podSets": [launcher(pod)]}
        labels = {"app.kubernetes.io/managed-by": "fournos"}
        owners = [owner_reference(FOURNOS_JOB, job(server, "thief"))]
        meta = {"name": "cheap", "namespace": NS, "labels": labels, "ownerReferences": owners}
        server.create(WORKLOAD, {"metadata": meta, "spec": spec})

    server = (await run(replace(attacked(), script=(make,), invariants=(one_live_run_a_job,)))).server
    assert (phase(server, "victim"), phase(server, "thief")) == ("Running", "Pending")
    assert live_runs(server) == ["victim"]
    assert server.find(WORKLOAD, Key(NS, "cheap")) is None


@pytest.mark.parametrize("taken", [(FOURNOS_JOB,), (WORKLOAD,), (PIPELINE_RUN,), (WORKLOAD, PIPELINE_RUN)])
async def test_a_retry_whose_name_is_taken_gets_another(taken: tuple[Resource, ...]) -> None:
    def take(server: Server) -> None:
        submit(server, "victim", retry={"limit": 1})
        for kind in taken:
            if kind is FOURNOS_JOB:
                submit(server, "victim-r2", cluster="cluster-2")
            elif kind is WORKLOAD:
                container = {"resources": {"requests": {"fournos/cluster-slot": "1"}}}
                pod = {"containers": [container], "nodeSelector": {"fournos.dev/cluster": "cluster-2"}}
                owners = [owner_reference(PIPELINE, server.get(PIPELINE, Key(NS, "fournos-full")))]
                meta: dict[str, Any] = {"name": "victim-r2", "namespace": NS, "ownerReferences": owners}
                server.create(kind, {"metadata": meta, "spec": {"podSets": [launcher(pod)]}})
            else:
                meta = {"name": "victim-r2", "namespace": NS, "labels": {"theirs": "yes"}}
                server.create(kind, {"metadata": meta, "spec": {"theirs": True}})

    tekton = Tekton(fails={"victim"}, pods=True)
    invariants = INVARIANTS if taken == (FOURNOS_JOB,) else ()
    story = replace(scenario(take, tekton=lambda: tekton, kueue=Kueue), invariants=invariants)
    server = (await run(story)).server
    status = job(server, "victim")["status"]
    assert status["phase"] == "Succeeded", status["message"]
    name = status["pipelineRun"]
    assert name.startswith("victim-r2-") and status["attempts"][-1]["pipelineRun"] == name
    (made,) = (one for one in server.list(PIPELINE_RUN) if one["metadata"]["name"] == name)
    assert made["metadata"]["labels"]["fournos.dev/attempt"] == "2"


# --- nested --------------------------------------------------------------------------------------------
# A FournosJob that names a queued owner, such as an AppWrapper: it gets its own place in the queue.

APPWRAPPER = Resource("workload.codeflare.dev", "v1beta2", "AppWrapper", "appwrappers")


SLOT = "fournos/cluster-slot"
WHOLE = {SLOT: "100"}


def owner_of(server: Server, kind: Resource, name: str) -> dict[str, Any]:
    owner = server.create(kind, {"metadata": {"name": name, "namespace": NS}})
    return owner_reference(kind, owner)


def queued_owner(server: Server, owner: dict[str, Any], pod_sets: dict[str, dict[str, str]]) -> None:
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
            "flavors": {one: "cluster-1" if one.startswith("fournos/") else "default" for one in amounts},
            "resourceUsage": amounts,
        }
        for number, amounts in enumerate(pod_sets.values())
    ]
    flags = [{"type": one, "status": "True"} for one in ("QuotaReserved", "Admitted")]
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

    server = (await run(replace(surrounded(victim), script=(forge,)))).server
    assert (phase(server, "victim"), phase(server, "thief")) == ("Running", "Pending")
    assert [one["metadata"]["name"] for one in server.list(PIPELINE_RUN)] == ["victim"]
    assert server.find(WORKLOAD, Key(NS, "thief")) is not None


def surrounded(setup: Any) -> Scenario:
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
