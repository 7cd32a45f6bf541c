"""Jobs that the published operator has under way when this one takes over: none is lost or runs twice."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from fournos.api.kinds import FOURNOS_JOB, PIPELINE_RUN
from fournos.engine.api.conditions import Condition
from fournos.engine.kube.kinds import JOB, SECRET
from fournos.engine.kube.resource import Key, Resource, uid_of
from fournos.engine.queueing.kinds import WORKLOAD
from fournos.systems.jobs.controller import jobs_controller
from tests.unit.systems.jobs.actors import (
    NS,
    SETTINGS,
    TEMPLATE,
    Kueue,
    Resolver,
    Tekton,
    environment,
    job,
    phase,
    submit,
)
from tests.world.harness import DISTURBED, Scenario, in_order, run
from tests.world.kueue import ADMITTED
from tests.world.server import Server
from tests.world.status import set_conditions

KEY = Key(NS, "job")
KOPF = "kopf.zalando.org/"
LABELS = {"app.kubernetes.io/managed-by": "fournos", "fournos.dev/job-name": "job"}


def old_job(server: Server, phase: str, *, cluster: str | None = None, **spec: Any) -> None:
    """As it is stored: kopf's finalizer and annotation, and a status without attempts."""
    submit(server, **spec)
    meta: dict[str, Any] = {"annotations": {f"{KOPF}last-handled-configuration": "{}"}}
    if phase not in ("Succeeded", "Failed", "Stopped"):
        meta["finalizers"] = [f"{KOPF}KopfFinalizerMarker"]
    server.patch(FOURNOS_JOB, KEY, {"metadata": meta})
    status = {"phase": phase, "message": "of the published operator", "cluster": cluster}
    if phase in ("Running", "Stopping"):
        status["pipelineRun"] = "job"
    server.patch(FOURNOS_JOB, KEY, {"status": status}, subresource="status")


def owned(server: Server, resource: Resource, name: str, *, controller: bool = True, **body: Any) -> Any:
    owner = {
        "apiVersion": "fournos.dev/v1",
        "kind": "FournosJob",
        "name": "job",
        "uid": uid_of(job(server)),
        "controller": controller,
        "blockOwnerDeletion": True,
    }
    meta = {"name": name, "namespace": NS, "labels": LABELS, "ownerReferences": [owner]}
    return server.create(resource, {"metadata": {**meta, **body.pop("metadata", {})}, **body})


def workload(server: Server, *, admitted: bool) -> None:
    container = {
        "name": "placeholder",
        "image": "registry.k8s.io/pause:3.9",
        "resources": {"requests": {"fournos/cluster-slot": "100"}},
    }
    pod = {
        "containers": [container],
        "restartPolicy": "Never",
        "nodeSelector": {"fournos.dev/cluster": "cluster-1"},
    }
    pod_sets = [{"name": "launcher", "count": 1, "template": {"spec": pod}}]
    made = owned(server, WORKLOAD, "job", spec={"queueName": "fournos-queue", "podSets": pod_sets})
    if admitted:
        flavors = {"fournos/cluster-slot": "cluster-1"}
        admission = {"podSetAssignments": [{"name": "launcher", "flavors": flavors}]}
        set_conditions(server, WORKLOAD, made, *ADMITTED, admission=admission)


def pipeline_run(server: Server, **spec: Any) -> None:
    annotations = {"fournos.dev/cluster": "cluster-1"}
    made = owned(
        server, PIPELINE_RUN, "job", metadata={"annotations": annotations}, spec={**spec, "old": True}
    )
    shown = Condition("Succeeded", "Unknown", "Running", "Tasks Completed: 0, Incomplete: 1")
    set_conditions(server, PIPELINE_RUN, made, shown, startTime="2030-01-01T00:00:00Z")


def resolving(server: Server) -> None:
    old_job(server, "Resolving")
    owned(server, JOB, "job-resolve", spec={"old": True})


def pending(server: Server) -> None:
    old_job(server, "Pending")
    owned(
        server,
        JOB,
        "job-resolve",
        spec={"old": True},
        status={"conditions": [{"type": "Complete", "status": "True"}]},
    )
    workload(server, admitted=False)


def admitted(server: Server) -> None:
    old_job(server, "Admitted", cluster="cluster-1", secretRefs=["my-creds"])
    workload(server, admitted=True)
    owned(server, SECRET, "job-kubeconfig", controller=False, data={"kubeconfig": "b2xk"})
    owned(server, SECRET, "job-vault-my-creds", controller=False, data={"username": "b2xk"})


def running(server: Server) -> None:
    old_job(server, "Running", cluster="cluster-1")
    workload(server, admitted=True)
    pipeline_run(server)


def stopping(server: Server) -> None:
    old_job(server, "Stopping", cluster="cluster-1", shutdown="Stop")
    workload(server, admitted=True)
    pipeline_run(server, status="CancelledRunFinally")


def clusterless(server: Server) -> None:
    old_job(server, "Running", cluster="[clusterless]", clusterless=True, exclusive=False)
    pipeline_run(server)


def locked(server: Server) -> None:
    old_job(server, "Admitted", cluster="cluster-1", lockOnly=True, executionEngine=None)
    workload(server, admitted=True)


PHASES: dict[str, tuple[Callable[[Server], None], str]] = {
    "Resolving": (resolving, "Succeeded"),
    "Pending": (pending, "Succeeded"),
    "Admitted": (admitted, "Succeeded"),
    "Running": (running, "Succeeded"),
    "Stopping": (stopping, "Stopped"),
    "clusterless": (clusterless, "Succeeded"),
    "lock": (locked, "Admitted"),
}


def scenario(setup: Callable[[Server], None], **rest: Any) -> Scenario:
    rest = {"cast": [Resolver, Kueue, Tekton], "horizon": 60, **rest}
    return Scenario(jobs_controller(SETTINGS, TEMPLATE), in_order(environment, setup), **rest)


@pytest.mark.parametrize("what", PHASES)
async def test_it_goes_on_to_its_end(what: str) -> None:
    setup, end = PHASES[what]
    server = (await run(scenario(setup))).server
    assert phase(server) == end
    meta = job(server)["metadata"]
    assert KOPF not in str(meta)
    for made in server.list(PIPELINE_RUN) + server.list(JOB):
        assert made["spec"].get("old") or what in ("Resolving", "Pending", "Admitted")
    assert len(server.list(PIPELINE_RUN)) == (what != "lock")
    assert len(server.list(JOB)) <= 1
    assert len(server.list(WORKLOAD)) == (what == "lock")


@pytest.mark.parametrize("disturbed", DISTURBED)
async def test_taking_over_survives(disturbed: str) -> None:
    """The oldest view is from after the admission: it is older than the moment of the takeover."""
    assert await DISTURBED[disturbed](scenario(running, lags=range(1, 4))) > 0


@pytest.mark.parametrize("shutdown", ["Stop", "Terminate", None])
async def test_a_run_that_was_taken_over_is_stopped_before_its_quota_goes(shutdown: str | None) -> None:
    """By spec.shutdown, and by deleting the job."""

    def end(server: Server) -> None:
        if shutdown is None:
            server.delete(FOURNOS_JOB, KEY)
        else:
            server.patch(FOURNOS_JOB, KEY, {"spec": {"shutdown": shutdown}})

    def held(server: Server) -> None:
        live = [
            one for one in server.list(PIPELINE_RUN) if not (one.get("status") or {}).get("completionTime")
        ]
        assert not live or server.list(WORKLOAD), "runs without quota"

    tekton = Tekton(endless={"job"})
    server = (
        await run(scenario(running, cast=(), actors=[Kueue(), tekton], script=[end], invariants=[held]))
    ).server
    if shutdown is None:
        assert server.find(FOURNOS_JOB, KEY) is None
    else:
        assert phase(server) == "Stopped"
        wanted = {"Stop": "CancelledRunFinally", "Terminate": "Cancelled"}[shutdown]
        assert server.get(PIPELINE_RUN, KEY)["spec"]["status"] == wanted


@pytest.mark.parametrize("what", PHASES)
async def test_a_job_that_is_being_deleted_when_it_is_taken_over_goes_once_its_run_has_stopped(
    what: str,
) -> None:
    """Kubernetes refuses a new finalizer then, so kopf's holds the job while its run is live."""
    setup, _ = PHASES[what]

    def deleted(server: Server) -> None:
        setup(server)
        server.delete(FOURNOS_JOB, KEY)
        assert server.find(FOURNOS_JOB, KEY) is not None

    def held(server: Server) -> None:
        runs = server.list(PIPELINE_RUN)
        live = [run for run in runs if not (run.get("status") or {}).get("completionTime")]
        assert not live or server.find(FOURNOS_JOB, KEY) is not None, "the run lost its job"
        assert not live or what == "clusterless" or server.list(WORKLOAD), "runs without quota"

    actors = [Kueue(), Tekton(endless={"job"})]
    server = (await run(scenario(deleted, cast=(), actors=actors, invariants=[held]))).server
    assert server.find(FOURNOS_JOB, KEY) is None
    assert server.list(WORKLOAD) == []


@pytest.mark.parametrize("end", ["Succeeded", "Failed", "Stopped"])
async def test_a_job_that_had_ended_is_left_as_it_is(end: str) -> None:
    server = (await run(scenario(lambda s: old_job(s, end)))).server
    assert job(server)["status"] == {"phase": end, "message": "of the published operator"}
