"""A FournosJob's life in the in-memory world: each scenario also runs through every crash, stale view,
lost event and failed write, and must end alike.
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest

from fournos.api.kinds import FOURNOS_JOB, PIPELINE_RUN
from fournos.engine.api.conditions import is_true
from fournos.engine.api.values import format_time, parse_time
from fournos.engine.kube.resource import JOB, SECRET, Key, Resource, owner_reference
from fournos.engine.queueing.kinds import WORKLOAD
from fournos.systems.jobs import names
from fournos.systems.jobs.part import jobs_controller, orphans_controller
from tests.unit.systems.jobs import actors
from tests.unit.systems.jobs.actors import (
    NS,
    SETTINGS,
    Kueue,
    Resolver,
    Tekton,
    deleted,
    edit,
    environment,
    job,
    phase,
    submit,
)
from tests.world.harness import DISTURBED, Run, Scenario, in_order, run, run_to_quiescence
from tests.world.process import Process
from tests.world.server import Server, VirtualClock


def quota_covers_every_live_run(server: Server) -> None:
    """A run that is not over implies a Workload that holds quota."""
    for a_run in server.list(PIPELINE_RUN):
        over = (a_run.get("status") or {}).get("completionTime")
        if over or not a_run["metadata"]["annotations"]["fournos.dev/cluster"]:
            continue
        owner = a_run["metadata"]["ownerReferences"][0]["uid"]
        held = [
            w
            for w in server.list(WORKLOAD)
            if w["metadata"]["ownerReferences"][0]["uid"] == owner and is_true(w, "QuotaReserved")
        ]
        assert held, f"{a_run['metadata']['name']} runs without quota"


def one_live_run_a_job(server: Server) -> None:
    live: dict[str, int] = {}
    for a_run in server.list(PIPELINE_RUN):
        if not (a_run.get("status") or {}).get("completionTime"):
            owner = a_run["metadata"]["ownerReferences"][0]["uid"]
            live[owner] = live.get(owner, 0) + 1
    assert all(count == 1 for count in live.values()), live


def terminal_means_released(server: Server) -> None:
    for a_job in server.list(FOURNOS_JOB):
        if (a_job.get("status") or {}).get("phase") in ("Succeeded", "Failed", "Stopped"):
            uid = a_job["metadata"]["uid"]
            held = [w for w in server.list(WORKLOAD) if w["metadata"]["ownerReferences"][0]["uid"] == uid]
            assert not held, f"{a_job['metadata']['name']} is over and holds quota"


def not_queued_before_its_time(server: Server) -> None:
    for a_job in server.list(FOURNOS_JOB):
        start_at = a_job["spec"].get("scheduledStartTime")
        if start_at and server.clock.now() < parse_time(start_at):
            assert not server.list(WORKLOAD), f"{a_job['metadata']['name']} is queued before its time"


INVARIANTS = (
    quota_covers_every_live_run,
    one_live_run_a_job,
    terminal_means_released,
    not_queued_before_its_time,
)


def scenario(
    setup: Callable[[Server], None] = submit,
    *,
    resolver: Callable[[], Resolver] = Resolver,
    kueue: Callable[[], Kueue] = Kueue,
    tekton: Callable[[], Tekton] = Tekton,
    **kwargs: Any,
) -> Scenario:
    return Scenario(
        jobs_controller(kwargs.pop("settings", actors.SETTINGS), kwargs.pop("template", actors.TEMPLATE)),
        in_order(environment, setup),
        cast=(resolver, kueue, tekton),
        invariants=INVARIANTS,
        **{"end_unseen": outcome, **kwargs},
    )


def endless() -> Tekton:
    return Tekton(endless={"job", "job-r2"}, pods=True)


def shared_hardware(server: Server) -> None:
    hardware = {"gpuType": "a100", "gpuCount": 2}
    submit(server, cluster=None, exclusive=False, hardware=hardware, priority="nightly")


def at_a_time(server: Server) -> None:
    submit(server, scheduledStartTime=format_time(server.clock.now() + timedelta(seconds=30)))


def evictor() -> Kueue:
    return Kueue(evict=[("job", "Preempted")])


def outcome(server: Server) -> Any:
    """What must be alike where users or Kueue act at another moment of the job's life."""
    jobs = [
        (j["metadata"]["name"], phase(server), j["metadata"].get("finalizers"))
        for j in server.list(FOURNOS_JOB)
    ]
    live = [r for r in server.list(PIPELINE_RUN) if not (r.get("status") or {}).get("completionTime")]
    return jobs, server.list(WORKLOAD), live


STORIES: dict[str, Scenario] = {
    "succeeds": scenario(resolver=lambda: Resolver({"secretRefs": ["my-creds"]})),
    "shared, with GPUs and a priority": scenario(shared_hardware),
    "has a start time": scenario(at_a_time),
    "fails": scenario(tekton=lambda: Tekton(fails={"job"}, pods=True)),
    "fails once, is retried": scenario(
        lambda s: submit(s, retry={"limit": 1}), tekton=lambda: Tekton(fails={"job"})
    ),
    "its runs are pruned": scenario(
        lambda s: submit(s, retry={"limit": 1}), tekton=lambda: Tekton(fails={"job"}, prunes=True)
    ),
    "is stopped": scenario(tekton=endless, script=[edit(shutdown="Stop")]),
    "is terminated": scenario(tekton=endless, script=[edit(shutdown="Terminate")]),
    "is deleted while it runs": scenario(tekton=endless, script=[deleted]),
    "is evicted and runs again": scenario(
        kueue=evictor, tekton=lambda: Tekton(endless={"job"}, pods=True), end=outcome
    ),
    "holds a lock": scenario(
        lambda s: submit(s, lockOnly=True, executionEngine=None), script=[edit(shutdown="Stop")]
    ),
    "clusterless": scenario(lambda s: submit(s, cluster=None, exclusive=False, clusterless=True)),
    "resolver fails": scenario(resolver=lambda: Resolver(fails=True)),
    "deaf run is forced": scenario(
        tekton=lambda: Tekton(deaf={"job"}, pods=True), script=[edit(shutdown="Terminate")]
    ),
}


@pytest.mark.parametrize("disturbed", DISTURBED)
@pytest.mark.parametrize("story", STORIES)
async def test_survives(story: str, disturbed: str) -> None:
    assert await DISTURBED[disturbed](STORIES[story]) > 3


async def test_the_straight_way() -> None:
    done = await run(STORIES["succeeds"])
    status = job(done.server)["status"]
    assert status["phase"] == "Succeeded"
    assert status["displayName"] == "job", "there is none in the spec"
    assert status["message"] == "Pipeline completed successfully"
    assert status["cluster"] == "cluster-1"
    assert status["pipelineRun"] == "job"
    assert status["resolved"]["secretRefs"] == ["my-creds"]
    assert [a["outcome"] for a in status["attempts"]] == ["Succeeded"]
    assert set(status["phaseTimes"]) == {"resolving", "pending", "admitted", "running", "finished"}
    for type_ in ("Resolved", "WorkloadAdmitted", "PipelineRunReady"):
        assert is_true(job(done.server), type_)
    assert "finalizers" not in job(done.server)["metadata"]
    assert job(done.server)["metadata"]["labels"]["fournos.dev/exclusive-cluster"] == "cluster-1"


async def test_the_run_that_is_made() -> None:
    done = await run(STORIES["succeeds"])
    spec = done.server.get(PIPELINE_RUN, Key(NS, "job"))["spec"]
    assert {p["name"]: p["value"] for p in spec["params"]} == {
        "fjob-name": "job",
        "fournos-namespace": NS,
        "fournos-workload-namespace": NS,
        "kubeconfig-secret": "job-kubeconfig",
    }
    assert spec["timeouts"] == {"pipeline": "25h0m0s", "tasks": "24h0m0s", "finally": "1h0m0s"}
    assert spec["taskRunSpecs"] == [
        {"pipelineTaskName": "run", "timeout": "24h0m0s"},
        {"pipelineTaskName": "cleanup", "timeout": "1h0m0s"},
    ]
    (volume,) = spec["taskRunTemplate"]["podTemplate"]["volumes"]
    assert volume["name"] == "vault-secrets"
    assert volume["projected"]["sources"] == [
        {
            "secret": {
                "name": "job-vault-my-creds",
                "items": [
                    {"key": "password", "path": "my-creds/password"},
                    {"key": "username", "path": "my-creds/username"},
                ],
            }
        }
    ]
    copy = done.server.get(SECRET, Key(NS, "job-vault-my-creds"))
    assert copy["data"] == {"username": "YQ==", "password": "Yg=="}
    assert done.server.get(SECRET, Key(NS, "job-kubeconfig"))["data"] == {"kubeconfig": "bQ=="}


@pytest.mark.parametrize("lag", range(4))
async def test_deleting_a_running_job_logs_no_warning(lag: int, caplog: pytest.LogCaptureFixture) -> None:
    done = await Run(scenario(tekton=endless, script=[deleted]), lag=lag).finish()
    assert done.server.find(FOURNOS_JOB, Key(NS, "job")) is None
    assert [record.getMessage() for record in caplog.records if record.levelname == "WARNING"] == []


async def test_an_empty_priority_is_none() -> None:
    """Also after the Workload is created: it equals what the job requests."""
    full = Kueue(slots={"cluster-1": 0})
    done = await run(scenario(lambda s: submit(s, priority=""), kueue=lambda: full))
    assert phase(done.server) == "Pending"
    (workload,) = done.server.list(WORKLOAD)
    assert "priorityClassRef" not in workload["spec"]
    assert [write for write in done.process.api.writes if "workloads" in write] == [
        f"create workloads.kueue.x-k8s.io {NS}/job"
    ]


# --- garbage collection --------------------------------------------------------------------------------
# Garbage collection: what lost its owner goes, and nothing else.

LABELS = {"app.kubernetes.io/managed-by": "fournos", "fournos.dev/job-name": "gone"}
CHILDREN = (WORKLOAD, PIPELINE_RUN, JOB)


def child(server: Server, resource: Resource, **metadata: Any) -> None:
    meta = {"name": "gone", "namespace": NS, "labels": LABELS, **metadata}
    server.create(resource, {"metadata": meta, "spec": {}})


async def left(setup: Callable[[Server], Any], *, after: float = 120.0) -> Server:
    def begin(server: Server) -> None:
        setup(server)
        server.clock.advance(after)

    return (await run(Scenario(orphans_controller(SETTINGS), begin))).server


@pytest.mark.parametrize("resource", CHILDREN)
async def test_what_lost_its_owner_is_deleted(resource: Resource) -> None:
    server = await left(lambda s: child(s, resource))
    assert server.list(resource) == []


def mislabelled(server: Server) -> None:
    submit(server, "other")
    child(server, WORKLOAD, ownerReferences=[owner_reference(FOURNOS_JOB, job(server, "other"))])


SPARED: dict[str, Callable[[Server], Any]] = {
    "its job exists": lambda s: (submit(s, "gone"), child(s, WORKLOAD)),
    "it is nobody's that we know": lambda s: child(s, WORKLOAD, labels={"fournos.dev/job-name": "gone"}),
    "it names no job": lambda s: child(s, WORKLOAD, labels={"app.kubernetes.io/managed-by": "fournos"}),
    "it belongs to another job than its label says": mislabelled,
}


@pytest.mark.parametrize("why", SPARED)
async def test_the_rest_is_spared(why: str) -> None:
    server = await left(SPARED[why])
    assert len(server.list(WORKLOAD)) == 1


@pytest.mark.parametrize("successor", [False, True], ids=["no job", "a new job"])
async def test_a_run_does_not_stay_for_a_job_whose_finalizer_somebody_has_taken_off(successor: bool) -> None:
    def begin(server: Server) -> None:
        submit(server, "gone")
        owner = [owner_reference(FOURNOS_JOB, job(server, "gone"))]
        child(server, PIPELINE_RUN, ownerReferences=owner, finalizers=[names.RUN_FINALIZER])
        server.delete(FOURNOS_JOB, Key(NS, "gone"))
        if successor:
            submit(server, "gone")
        server.collect_garbage()
        assert len(server.list(PIPELINE_RUN)) == 1

    assert (await left(begin)).list(PIPELINE_RUN) == []


async def test_what_was_made_a_moment_ago_is_spared_at_first_and_gone_within_half_a_minute() -> None:
    server = Server(VirtualClock())
    child(server, WORKLOAD)
    process = Process(server, orphans_controller(SETTINGS))
    await run_to_quiescence(process, horizon=10.0)
    assert len(server.list(WORKLOAD)) == 1
    await run_to_quiescence(process, horizon=20.0)
    assert server.list(WORKLOAD) == []


async def test_the_api_server_s_word_counts_not_the_cache_s() -> None:
    """The job is newer than the cache; and while live reads are forbidden, nothing is deleted."""
    server = Server(VirtualClock())
    child(server, WORKLOAD)
    server.clock.advance(120.0)
    submit(server, "gone")
    process = Process(server, orphans_controller(SETTINGS), lag=1)
    await process.step()
    assert len(server.list(WORKLOAD)) == 1


async def test_nothing_is_deleted_while_the_crd_is_away() -> None:
    def setup(server: Server) -> None:
        child(server, WORKLOAD)
        server.unserved.add(FOURNOS_JOB)

    assert len((await left(setup)).list(WORKLOAD)) == 1
