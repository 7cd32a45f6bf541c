"""A MiniCluster's life in the in-memory world: each story also runs through every crash, stale view, lost
event and failed write, and must end alike."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from fournos.api.conditions import condition, is_true
from fournos.kube.kinds import CONFIG_MAP, JOB, POD, SECRET
from fournos.kube.resource import Key, controller_of, uid_of
from fournos.miniclusters import names
from fournos.miniclusters.kinds import MINICLUSTER, SERVICE
from fournos.miniclusters.settings import MiniClusterSettings
from fournos.queueing.kinds import WORKLOAD
from tests.unit.miniclusters.actors import (
    NS,
    QUEUE,
    SETTINGS,
    Cluster,
    Kueue,
    change,
    flavors,
    get,
    submit,
    system,
)
from tests.world.harness import DISTURBED, Scenario, run
from tests.world.server import Server

Action = Callable[[Server], None]


def alive(server: Server) -> list[dict[str, Any]]:
    over = ("Succeeded", "Failed")
    return [pod for pod in server.list(POD) if (pod.get("status") or {}).get("phase") not in over]


def quota_covers_every_live_pod(server: Server) -> None:
    for one in server.list(MINICLUSTER):
        name = one["metadata"]["name"]
        mine = [pod for pod in alive(server) if pod["metadata"]["labels"][names.MINICLUSTER_LABEL] == name]
        if not mine or not (one["metadata"].get("labels") or {}):
            continue
        held = [
            found
            for found in server.list(WORKLOAD)
            if found["metadata"]["ownerReferences"][0]["name"] == name
            and is_true(found, "QuotaReserved")
            and not is_true(found, "Finished")
        ]
        assert held, f"{name} runs without quota"
        given = {
            one["name"]: one["count"] for one in (held[0].get("status") or {}).get("reclaimablePods") or ()
        }
        count = held[0]["spec"]["podSets"][0]["count"] - given.get("main", 0)
        main = [pod for pod in mine if names.COMPLETION_INDEX_LABEL in pod["metadata"]["labels"]]
        assert len(main) <= count, f"{name} has more pods than quota"


def one_certificate_a_job(server: Server) -> None:
    """Brokers with another certificate cannot join: it never changes under a Job."""
    for job in server.list(JOB):
        secret = server.find(SECRET, Key(NS, names.curve(job["metadata"]["name"])))
        if secret is not None:
            kept = job["metadata"].setdefault("uid", uid_of(job))
            assert _SEEN.setdefault(kept, uid_of(secret)) == uid_of(secret)


_SEEN: dict[str, str] = {}


def finished_means_over(server: Server) -> None:
    for one in server.list(MINICLUSTER):
        if (one.get("status") or {}).get("phase") == "Finished":
            name = one["metadata"]["name"]
            mine = [p for p in alive(server) if p["metadata"]["labels"][names.MINICLUSTER_LABEL] == name]
            assert not mine


def story(
    *script: Action,
    setup: Action = submit,
    world: Callable[[], Cluster] = Cluster,
    kueue: Callable[[], Kueue] = Kueue,
    settings: MiniClusterSettings = SETTINGS,
    **kwargs: Any,
) -> Scenario:
    def begin(server: Server) -> None:
        _SEEN.clear()
        flavors(server)
        setup(server)

    return Scenario(
        system=system(settings),
        setup=begin,
        cast=(kueue, world),
        script=script,
        invariants=(quota_covers_every_live_pod, one_certificate_a_job, finished_means_over),
        end=summary,
        lags=(1, 2, 3, 5, 8, 13, 21, 34),
        **kwargs,
    )


def summary(server: Server) -> Any:
    """What all runs must agree on."""
    return {
        "status": {
            one["metadata"]["name"]: {
                **{
                    key: value
                    for key, value in (one.get("status") or {}).items()
                    if key in ("phase", "size", "ready", "exitCode", "maximumSize", "message")
                },
                "conditions": [
                    (found["type"], found["status"], found["reason"])
                    for found in (one.get("status") or {}).get("conditions") or ()
                ],
                "suspend": one["spec"].get("suspend", False),
                "finalizers": one["metadata"].get("finalizers") or [],
            }
            for one in server.list(MINICLUSTER)
        },
        "objects": sorted(
            (str(resource), obj["metadata"]["name"])
            for resource, obj in server.everything()
            if resource != MINICLUSTER
        ),
        "jobs": [job["spec"]["parallelism"] for job in server.list(JOB)],
        "workloads": [
            (
                is_true(one, "QuotaReserved"),
                is_true(one, "Finished"),
                (one.get("status") or {}).get("reclaimablePods"),
            )
            for one in server.list(WORKLOAD)
        ],
    }


def anything(server: Server) -> None:
    """Where users' acts meet something else when an event is lost, something else comes of them."""


def ends_with(code: int, **more: Any) -> Callable[[], Cluster]:
    return lambda: Cluster(codes={"flux": code}, **more)


def with_queue(server: Server) -> None:
    submit(server, labels=QUEUE, maxSize=4)


def delete(resource: Any, name: str) -> Action:
    def act(server: Server) -> None:
        if server.find(resource, Key(NS, name)):
            server.delete(resource, Key(NS, name))

    return act


def resized(size: int) -> Action:
    return lambda server: change(server, size=size)


def suspend(value: bool) -> Action:
    return lambda server: change(server, suspend=value)


STORIES: dict[str, Scenario] = {
    "hello": story(world=ends_with(0)),
    "failure": story(world=ends_with(3)),
    "sidecar": story(world=ends_with(0, beside=True), settings=MiniClusterSettings(end_grace_sec=10)),
    "cleanup": story(setup=lambda server: submit(server, cleanup=True), world=ends_with(0)),
    "resize": story(resized(4), resized(1), setup=lambda server: submit(server, maxSize=4)),
    "services": story(
        setup=lambda server: submit(server, services=[{"name": "db", "image": "db:1"}]), world=ends_with(0)
    ),
    "suspended": story(suspend(True), suspend(False)),
    "recreated": story(
        delete(JOB, "flux"),
        delete(SERVICE, "flux-service"),
        delete(CONFIG_MAP, "flux-entrypoint"),
        delete(SECRET, "flux-curve"),
        delete(POD, "flux-0"),
        end_unseen=anything,
    ),
    "queued": story(setup=with_queue, world=ends_with(0)),
    "evicted": story(setup=with_queue, kueue=lambda: Kueue(evict={"flux"})),
    "shrunk": story(resized(4), resized(1), resized(3), setup=with_queue, end_unseen=anything),
    "deleted": story(delete(MINICLUSTER, "flux"), setup=with_queue),
    "waiting": story(setup=with_queue, kueue=lambda: Kueue(slots=0)),
}


@pytest.mark.parametrize("disturbed", DISTURBED)
@pytest.mark.parametrize("story", STORIES)
async def test_survives(story: str, disturbed: str) -> None:
    assert await DISTURBED[disturbed](STORIES[story]) > 2


# --- what the stories come to ---------------------------------------------------------------------------


async def told(name: str) -> Server:
    return (await run(STORIES[name])).server


async def test_a_command_that_ends_well() -> None:
    status = get(await told("hello"))["status"]
    assert (status["phase"], status["exitCode"], status["maximumSize"]) == ("Finished", 0, 2)
    assert is_true({"status": status}, "JobFinished") and not is_true({"status": status}, "JobRunning")
    assert status["startedAt"] and status["finishedAt"] and status["jobid"]


async def test_the_exit_code_of_the_lead_is_the_result_and_the_job_stays_for_its_logs() -> None:
    server = await told("failure")
    status = get(server)["status"]
    assert (status["phase"], status["exitCode"]) == ("Finished", 3)
    finished = condition({"status": status}, "JobFinished") or {}
    assert (finished["status"], finished["reason"]) == ("True", "Failed")
    assert "exit code 3" in finished["message"]
    assert server.list(JOB) and [pod["metadata"]["name"] for pod in server.list(POD)] == ["flux-0"]


async def test_a_container_beside_flux_does_not_keep_it_from_ending() -> None:
    server = await told("sidecar")
    assert get(server)["status"]["exitCode"] == 0
    assert not server.list(JOB) and not server.list(POD)


async def test_a_kubelet_that_is_late_costs_no_logs() -> None:
    world = ends_with(0, late=True)
    server = (await run(story(world=world, settings=MiniClusterSettings(end_grace_sec=10)))).server
    assert server.list(JOB) and len(server.list(POD)) == 2
    assert "exitCode" not in get(server)["status"]


async def test_cleanup_leaves_nothing() -> None:
    server = await told("cleanup")
    left = [str(resource) for resource, _ in server.everything()]
    assert left == ["resourceflavors.kueue.x-k8s.io"]


async def test_it_grows_and_shrinks_within_its_maximum() -> None:
    server = await told("resize")
    assert get(server)["status"]["size"] == 1
    assert [pod["metadata"]["name"] for pod in server.list(POD)] == ["flux-0"]
    assert server.list(POD)[0]["metadata"]["labels"]["job-index"] == "0"
    (job,) = server.list(JOB)
    assert (job["spec"]["parallelism"], job["spec"]["completions"]) == (1, 1)


async def test_ready_when_all_brokers_are_up_and_waiting_says_why() -> None:
    server = (await run(story(world=lambda: Cluster(stuck={"flux-1"})))).server
    status = get(server)["status"]
    assert status["phase"] == "Running"
    assert "1 of 2 pods run" in status["message"]
    assert not is_true({"status": status}, "JobMiniClusterReady")
    assert get((await run(story())).server)["status"]["phase"] == "Ready"


async def test_the_services_pod_goes_when_the_command_has_ended() -> None:
    server = await told("services")
    assert [pod["metadata"]["name"] for pod in server.list(POD)] == ["flux-0"]


async def test_a_suspended_one_runs_nothing_and_comes_back() -> None:
    stopped = (await run(story(suspend(True)))).server
    assert not stopped.list(JOB) and not stopped.list(POD)
    status = get(stopped)["status"]
    assert status["phase"] == "Waiting" and "maximumSize" not in status and status["size"] == 0
    assert get(await told("suspended"))["status"]["phase"] == "Ready"


async def test_what_is_deleted_is_made_again() -> None:
    server = await told("recreated")
    assert get(server)["status"]["phase"] == "Ready"
    assert server.find(SECRET, Key(NS, "flux-curve")) and server.find(SERVICE, Key(NS, "flux-service"))


async def test_a_killed_lead_whose_workers_have_ended_begins_again_with_all() -> None:
    """The Job controller never runs an index again that has succeeded."""
    seen: list[str] = []

    def killed(server: Server) -> None:
        seen.append(uid_of(server.list(JOB)[0]))
        at = server.clock.now().strftime("%Y-%m-%dT%H:%M:%SZ")
        state = {"terminated": {"exitCode": 0, "finishedAt": at}}
        ended = {"phase": "Succeeded", "containerStatuses": [{"name": "flux", "state": state}]}
        server.patch(POD, Key(NS, "flux-1"), {"status": ended}, subresource="status")
        server.delete(POD, Key(NS, "flux-0"))

    server = (await run(story(killed))).server
    assert get(server)["status"]["phase"] == "Ready"
    assert uid_of(server.list(JOB)[0]) not in seen
    assert all(pod["status"]["phase"] == "Running" for pod in server.list(POD))
    complete = {"completeWorkers": True}
    kept = (await run(story(killed, setup=lambda server: submit(server, flux=complete)))).server
    assert uid_of(kept.list(JOB)[0]) in seen


async def test_queued_as_a_whole_for_its_largest_size() -> None:
    server = await told("queued")
    (workload,) = server.list(WORKLOAD)
    assert [(one["name"], one["count"]) for one in workload["spec"]["podSets"]] == [("main", 4)]
    assert is_true(workload, "Finished")
    assert (condition(workload, "Finished") or {})["reason"] == "Succeeded"


async def test_the_pods_go_where_the_admission_says() -> None:
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


async def test_two_share_the_headless_service_and_each_may_go() -> None:
    def setup(server: Server) -> None:
        submit(server, "flux")
        submit(server, "other")

    server = (await run(story(delete(MINICLUSTER, "flux"), setup=setup))).server
    service = server.get(SERVICE, Key(NS, "flux-service"))
    assert uid_of(get(server, "other")) in {one["uid"] for one in service["metadata"]["ownerReferences"]}
    assert get(server, "other")["status"]["phase"] == "Ready"


@pytest.mark.parametrize(
    ("resource", "name"),
    [(JOB, "flux"), (CONFIG_MAP, "flux-entrypoint"), (SECRET, "flux-curve"), (SERVICE, "flux-service")],
)
async def test_what_others_have_made_is_left_alone_and_named(resource: Any, name: str) -> None:
    """It waits and says for what; when the name is free it goes on by itself."""

    def setup(server: Server) -> None:
        server.create(resource, {"metadata": {"namespace": NS, "name": name}, "spec": {"mine": True}})
        submit(server)

    def look(server: Server) -> None:
        found = server.get(resource, Key(NS, name))
        assert found["spec"] == {"mine": True} and controller_of(found) is None
        status = get(server)["status"]
        assert status["phase"] == "Waiting" and name in status["message"]
        assert not is_true({"status": status}, "JobRequested")

    freed = story(look, delete(resource, name), setup=setup, horizon=600.0)
    server = (await run(freed)).server
    assert get(server)["status"]["phase"] == "Ready"


async def test_foreign_pods_are_not_labelled() -> None:
    def setup(server: Server) -> None:
        labels = {names.MINICLUSTER_LABEL: "flux", names.COMPLETION_INDEX_LABEL: "0"}
        meta = {"namespace": NS, "name": "stranger", "labels": labels}
        server.create(POD, {"metadata": meta, "spec": {}, "status": {}})
        submit(server)

    server = (await run(story(setup=setup))).server
    assert "job-index" not in server.get(POD, Key(NS, "stranger"))["metadata"]["labels"]


async def test_a_spec_that_cannot_work_says_so() -> None:
    server = (await run(story(setup=lambda server: submit(server, size=0)))).server
    status = get(server)["status"]
    assert status["phase"] == "Waiting" and "write at least 1" in status["message"]
    assert not server.list(JOB)


async def test_what_another_cluster_runs_has_a_workload_and_nothing_else() -> None:
    def setup(server: Server) -> None:
        submit(server, labels=QUEUE, managedBy="kueue.x-k8s.io/multikueue", suspend=True)

    server = (await run(story(setup=setup))).server
    assert len(server.list(WORKLOAD)) == 1 and not server.list(JOB)
    assert "status" not in get(server)


async def test_what_another_controller_runs_is_left_alone() -> None:
    server = (await run(story(setup=lambda server: submit(server, managedBy="example.com/mine")))).server
    assert "status" not in get(server) and not server.list(JOB)
