"""MiniClusters in a queue of Kueue, in the in-memory world."""

from __future__ import annotations

import pytest

from fournos.api.kinds import MINICLUSTER
from fournos.engine.api.conditions import condition, is_true
from fournos.engine.kube.resource import JOB, POD
from fournos.engine.queueing.workload import ADMISSION_CHECK, CLUSTER_QUEUE, LOCAL_QUEUE, WORKLOAD
from fournos.systems.miniclusters.settings import MiniClusterSettings
from tests.unit.systems.miniclusters.actors import NS, QUEUE, get, submit
from tests.unit.systems.miniclusters.stories import resized, story, told, with_queue
from tests.world.harness import run
from tests.world.server import Server


async def test_queued_as_a_whole_for_its_largest_size() -> None:
    server = await told("queued")
    (workload,) = server.list(WORKLOAD)
    assert [(one["name"], one["count"]) for one in workload["spec"]["podSets"]] == [("main", 4)]
    assert is_true(workload, "Finished")
    assert (condition(workload, "Finished") or {})["reason"] == "Succeeded"


async def test_the_pods_go_where_the_admission_assigns() -> None:
    server = (await run(story(setup=with_queue))).server
    (job,) = server.list(JOB)
    assert job["spec"]["template"]["spec"]["nodeSelector"] == {"pool": "hpc"}
    assert "kueue.x-k8s.io/queue-name" not in job["metadata"]["labels"]


async def test_an_evicted_one_gives_its_quota_back_and_begins_again() -> None:
    server = await told("evicted")
    assert get(server)["status"]["phase"] == "Ready"
    (workload,) = server.list(WORKLOAD)
    assert is_true(workload, "Admitted") and not is_true(workload, "Evicted")


async def test_what_a_shrink_gave_back_is_not_taken_again() -> None:
    """4 hosts, all held; grown to 4, shrunk to 1: 3 pods are given back, and growing to 3 is refused."""
    server = await told("shrunk")
    (workload,) = server.list(WORKLOAD)
    assert workload["status"]["reclaimablePods"] == [{"name": "main", "count": 3}]
    status = get(server)["status"]
    assert (status["phase"], status["size"]) == ("Ready", 1)
    assert "the quota of 3 pods was given back" in status["message"]


async def test_quota_may_be_kept_for_growing_again() -> None:
    kept = story(
        resized(4), resized(1), resized(3), setup=with_queue, settings=MiniClusterSettings(give_back=False)
    )
    server = (await run(kept)).server
    assert get(server)["status"]["size"] == 3
    assert "reclaimablePods" not in server.list(WORKLOAD)[0]["status"]


async def test_a_resize_never_ends_a_job_that_kueue_queues_by_itself() -> None:
    def setup(server: Server) -> None:
        submit(server, maxSize=4, jobLabels=QUEUE)

    server = (await run(story(resized(3), setup=setup))).server
    (job,) = server.list(JOB)
    assert job["spec"]["parallelism"] == 2 and not server.list(WORKLOAD)
    assert "queued by jobLabels" in get(server)["status"]["message"]


async def test_its_deletion_takes_everything_and_frees_the_quota() -> None:
    server = await told("deleted")
    assert not server.list(WORKLOAD) and not server.list(POD) and not server.list(MINICLUSTER)


@pytest.mark.parametrize(
    ("controller", "elsewhere"),
    [("kueue.x-k8s.io/multikueue", True), ("kueue.x-k8s.io/provisioning-request", False), ("", False)],
)
async def test_a_queue_that_leads_to_other_clusters_sets_managed_by(controller: str, elsewhere: bool) -> None:
    def setup(server: Server) -> None:
        checks = {"admissionChecksStrategy": {"admissionChecks": [{"name": "check"}]}}
        meta = {"name": QUEUE["kueue.x-k8s.io/queue-name"], "namespace": NS}
        server.create(LOCAL_QUEUE, {"metadata": meta, "spec": {"clusterQueue": "cq"}})
        server.create(CLUSTER_QUEUE, {"metadata": {"name": "cq"}, "spec": checks if controller else {}})
        server.create(
            ADMISSION_CHECK, {"metadata": {"name": "check"}, "spec": {"controllerName": controller}}
        )
        with_queue(server)

    server = (await run(story(setup=setup))).server
    assert get(server)["spec"].get("managedBy") == ("kueue.x-k8s.io/multikueue" if elsewhere else None)
    assert (server.list(JOB) == []) is elsewhere
    assert len(server.list(WORKLOAD)) == 1
