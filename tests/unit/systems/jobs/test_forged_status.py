"""A job's status written by another client ends no run, releases no cluster and grants no quota."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from fournos.api.kinds import FOURNOS_JOB, PIPELINE, PIPELINE_RUN
from fournos.engine.kube.errors import ForbiddenError, KubeError
from fournos.engine.kube.resource import SECRET, Key, Obj, Resource, uid_of
from fournos.engine.queueing.kinds import WORKLOAD
from tests.unit.systems.jobs.actors import NS, Kueue, Tekton, job, phase, submit
from tests.unit.systems.jobs.test_lifecycle import INVARIANTS, one_live_run_a_job, scenario
from tests.world.harness import Scenario, run
from tests.world.server import Server


def forged(status: Obj, name: str = "victim") -> Callable[[Server], None]:
    def write(server: Server) -> None:
        server.patch(FOURNOS_JOB, Key(NS, name), {"status": status}, subresource="status")

    return write


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
        server.patch(FOURNOS_JOB, Key(NS, "thief"), {"spec": {"suspend": False}})

    server = (await run(replace(attacked(), script=(created, declare)))).server
    assert (phase(server, "victim"), phase(server, "thief")) == ("Running", "Pending")
    assert live_runs(server) == ["victim"]


def unlaunched(server: Server) -> None:
    """Admitted, while the PipelineRun cannot be made."""

    def refuse(verb: str, resource: Resource, obj: Obj) -> KubeError | None:
        forbidden = (verb, resource) == ("create", PIPELINE_RUN)
        return ForbiddenError("pipelineruns is forbidden", status=403) if forbidden else None

    server.refusals.append(refuse)
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
        own = {"apiVersion": FOURNOS_JOB.api_version, "kind": FOURNOS_JOB.kind, "name": "thief"}
        owner = {**own, "uid": uid_of(job(server, "thief")), "controller": True}
        pod = {"containers": [{"resources": {"requests": {"fournos/cluster-slot": "0"}}}]}
        server.create(
            WORKLOAD,
            {
                "metadata": {
                    "name": "cheap",
                    "namespace": NS,
                    "labels": {"app.kubernetes.io/managed-by": "fournos"},
                    "ownerReferences": [owner],
                },
                "spec": {
                    "queueName": "fournos-queue",
                    "podSets": [{"name": "launcher", "count": 1, "template": {"spec": pod}}],
                },
            },
        )

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
                pod_set = {"name": "launcher", "count": 1, "template": {"spec": pod}}
                other = server.get(PIPELINE, Key(NS, "fournos-full"))
                owner = {"apiVersion": "tekton.dev/v1", "kind": "Pipeline", "uid": uid_of(other)}
                owner["name"] = "fournos-full"
                meta: dict[str, Any] = {"name": "victim-r2", "namespace": NS}
                meta["ownerReferences"] = [{**owner, "controller": True}]
                server.create(kind, {"metadata": meta, "spec": {"podSets": [pod_set]}})
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
