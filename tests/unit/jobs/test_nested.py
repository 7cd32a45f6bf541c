"""A FournosJob inside another queued job, as in an AppWrapper: its owner's quota, no Workload of its own."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from fournos.api.conditions import condition
from fournos.jobs.kinds import FOURNOS_JOB, PIPELINE_RUN
from fournos.kube.resource import Key, Resource, uid_of
from fournos.queueing.kinds import WORKLOAD
from tests.unit.jobs.actors import NS, job, phase, submit
from tests.unit.jobs.test_lifecycle import scenario
from tests.world.harness import DISTURBED, Scenario, run
from tests.world.server import Server

APPWRAPPER = Resource("workload.codeflare.dev", "v1beta2", "AppWrapper", "appwrappers")


def wrapped(*, admitted: bool = True, **spec: Any) -> Any:
    def setup(server: Server) -> None:
        owner = server.create(APPWRAPPER, {"metadata": {"name": "aw", "namespace": NS}})
        reference = {
            "apiVersion": APPWRAPPER.api_version,
            "kind": APPWRAPPER.kind,
            "name": "aw",
            "uid": uid_of(owner),
            "controller": True,
        }
        meta = {
            "name": "appwrapper-aw",
            "namespace": NS,
            "labels": {"kueue.x-k8s.io/job-uid": uid_of(owner)},
            "ownerReferences": [reference],
        }
        server.create(WORKLOAD, {"metadata": meta, "spec": {"podSets": [_POD_SET]}})
        status = "True" if admitted else "False"
        flags = [{"type": one, "status": status} for one in ("QuotaReserved", "Admitted")]
        body = {"status": {"conditions": flags, "admission": _ADMISSION}}
        server.patch(WORKLOAD, Key(NS, "appwrapper-aw"), body, subresource="status")
        submit(server, **spec)
        server.patch(FOURNOS_JOB, Key(NS, "job"), {"metadata": {"ownerReferences": [reference]}})

    return setup


_REQUESTS = {"requests": {"fournos/cluster-slot": "100"}}
_POD_SET = {"name": "aw-0", "count": 1, "template": {"spec": {"containers": [{"resources": _REQUESTS}]}}}
_ADMISSION = {
    "clusterQueue": "q",
    "podSetAssignments": [{"name": "aw-0", "flavors": {"fournos/cluster-slot": "cluster-1"}}],
}


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
    told = condition(server.get(FOURNOS_JOB, Key(NS, "job")), "WorkloadAdmitted")
    assert told is not None and told["reason"] == "OwnerNotAdmitted"


async def test_without_a_cluster_it_says_who_has_to_ask_for_one() -> None:
    server = (
        await run(story(cluster=None, exclusive=False, hardware={"gpuType": "a100", "gpuCount": 1}))
    ).server
    assert phase(server) == "Failed"
    assert "request fournos/cluster-slot" in job(server)["status"]["message"]
