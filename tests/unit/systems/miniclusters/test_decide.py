"""The decision for a MiniCluster: its queue, its admission and its messages."""

from __future__ import annotations

from collections.abc import Iterator
from copy import deepcopy
from datetime import UTC, datetime
from typing import Any

import pytest

from fournos.api.kinds import MINICLUSTER
from fournos.engine.api.conditions import condition, is_true
from fournos.engine.kube.resource import EVENT, JOB, POD, Key, key_of, uid_of
from fournos.engine.queueing.job import QueueInputs
from fournos.engine.queueing.kinds import ADMISSION_CHECK, CLUSTER_QUEUE, LOCAL_QUEUE, WORKLOAD
from fournos.engine.runtime.decision import (
    Absent,
    Answer,
    Decision,
    Facts,
    LiveGet,
    NeededFacts,
    Present,
    Unknown,
    attempt,
)
from fournos.systems.miniclusters.decide import BINDING, POLICY, decide
from fournos.systems.miniclusters.settings import MiniClusterSettings
from fournos.systems.miniclusters.status import Observed, StatusDraft, summary_of
from tests.unit.systems.miniclusters.actors import (
    NS,
    QUEUE,
    Cluster,
    completed,
    container,
    ends_with,
    get,
    manifest,
    resized,
    set_status,
    status,
    story,
    submit,
    told,
    with_queue,
)
from tests.unit.systems.miniclusters.contexts import NOW
from tests.world.harness import run
from tests.world.kueue import Kueue, holding
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


# --- admission -----------------------------------------------------------------------------------------
# What a MiniCluster may ask of its pods, where no admission policy has refused it.

ASKED = LiveGet(BINDING, Key("", POLICY))


def made(time: str) -> Present:
    return Present({"metadata": {"creationTimestamp": f"2026-01-01T{time}Z"}})


OLDER, NEWER = made("10:00:00"), made("11:00:01")
SECRET: dict[str, Any] = {
    "containers": [{"image": "i", "volumes": {"s": {"path": "/s", "secretName": "s"}}}],
}


def decided(
    spec: dict[str, Any],
    answer: Answer | None = None,
    rights: Any = "policy",
    inputs: QueueInputs | None = None,
) -> Decision | NeededFacts:
    one = manifest(**spec)
    one["metadata"] |= {"uid": "mc", "resourceVersion": "1", "creationTimestamp": "2026-01-01T11:00:00Z"}
    observed = Observed(Key(NS, "flux"), one, {}, (), inputs or QueueInputs())
    facts = Facts({ASKED: answer} if answer else {})
    return attempt(decide, observed, facts, NOW, settings=MiniClusterSettings(pod_rights=rights))


def message(found: Decision | NeededFacts) -> str:
    assert isinstance(found, Decision) and found.status is not None and found.steps == ()
    assert found.status["phase"] == "Waiting"
    return str(found.status["message"])


def test_a_secret_takes_the_policy_that_checks_its_author() -> None:
    assert decided(SECRET) == NeededFacts((ASKED,))
    assert message(decided(SECRET, OLDER)) == "Waiting for the pods"
    for answer in (Absent(), NEWER):
        assert "It has containers.volumes.secretName, and no policy has checked" in message(
            decided(SECRET, answer)
        )
    assert "is not known: down" in message(decided(SECRET, Unknown("down")))


def test_an_administrator_refuses_it_to_all_or_to_none() -> None:
    assert "FOURNOS_MINICLUSTER_POD_RIGHTS refuses" in message(decided(SECRET, rights="refused"))
    assert message(decided(SECRET, rights="open")) == "Waiting for the pods"


@pytest.mark.parametrize("rights", ["policy", "refused", "open"])
def test_no_pod_runs_as_an_operator(rights: str) -> None:
    found = decided({"pod": {"serviceAccountName": "fournos"}}, OLDER, rights)
    assert message(found).startswith("ServiceAccount fournos is for an operator")


@pytest.mark.parametrize("rights", ["policy", "refused"])
def test_what_reaches_no_further_needs_no_policy(rights: str) -> None:
    assert message(decided({}, rights=rights)) == "Waiting for the pods"


@pytest.mark.parametrize("queue", [{}, QUEUE])
def test_what_another_cluster_is_to_run_is_refused_here(queue: dict[str, str]) -> None:
    """There the operator's own account makes it, and nobody asks for the author."""
    path = {"containers": [{"image": "i", "volumes": {"s": {"path": "/s", "hostPath": "/"}}}]}
    elsewhere = {**path, "managedBy": "kueue.x-k8s.io/multikueue", "suspend": True, "labels": queue}
    assert "no policy has checked" in message(decided(elsewhere, Absent()))
    allowed = decided(elsewhere, OLDER)
    assert isinstance(allowed, Decision) and allowed.status is None
    assert bool(allowed.steps) is bool(queue)


async def test_what_is_refused_after_an_eviction_gives_its_quota_back() -> None:
    """Its policy has gone meanwhile, or is newer."""

    def setup(server: Server) -> None:
        policy(server)
        submit(server, labels=QUEUE, suspend=True, **SECRET)

    def policy(server: Server) -> None:
        server.create(BINDING, {"metadata": {"name": POLICY}})

    kueue = Kueue()

    def evicted(server: Server) -> None:
        assert holding(server, "flux") and get(server)["status"]["phase"] == "Ready"
        server.delete(BINDING, Key("", POLICY))
        kueue.evict["flux"] = "Preempted"

    server = (await run(story(evicted, setup=setup, kueue=lambda: kueue))).server
    assert "no policy has checked" in get(server)["status"]["message"]
    (workload,) = server.list(WORKLOAD)
    assert workload["spec"]["active"] is False and not holding(server, "flux")


EVERY_PART: dict[str, Any] = {
    "size": 2,
    "maxSize": 4,
    "backoffLimit": 1,
    "managedBy": "",
    "containers": [
        {
            "image": "x",
            "environment": {"A": "b"},
            "volumes": {"v": {"path": "/x", "items": {"a": "b"}}},
            "ports": [80],
            "resources": {"limits": {"cpu": "1"}},
            "commands": {"pre": "x"},
            "secrets": {"A": {"name": "s", "key": "k"}},
        }
    ],
    "services": [{"name": "s", "image": "i"}],
    "flux": {"container": {"image": "i"}, "environment": {"A": "b"}, "leadBroker": {"address": "1.2.3.4"}},
    "pod": {"labels": {"a": "b"}, "nodeAffinity": {"a": ["b"]}, "tolerations": [{"key": "k"}]},
    "network": {"headlessName": "h"},
    "jobLabels": {"a": "b"},
}


def parts(value: Any, at: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """The way to each field below a value."""
    inner = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for name, child in inner:
        yield (*at, name)
        yield from parts(child, (*at, name))


@pytest.mark.parametrize("odd", [1, "x", None, True, [1], {"X": 1}, [None], -1, 2**70], ids=repr)
@pytest.mark.parametrize("begun", [False, True])
def test_a_field_of_another_type_is_a_message_and_raises_nothing(odd: Any, begun: bool) -> None:
    """The API server checks types; an older CRD, or one of another project, may not."""
    for way in parts(EVERY_PART):
        spec = deepcopy(EVERY_PART)
        part = spec
        for name in way[:-1]:
            part = part[name]
        part[way[-1]] = odd
        one = manifest(labels=QUEUE)
        one |= {"spec": spec, "status": {"phase": "Waiting", "maximumSize": 4} if begun else {}}
        one["metadata"] |= {"uid": "mc", "resourceVersion": "1", "creationTimestamp": "2026-01-01T11:00:00Z"}
        observed = Observed(Key(NS, "flux"), one, {}, (), QueueInputs())
        attempt(decide, observed, Facts({}), NOW, settings=MiniClusterSettings(pod_rights="open"))


def test_the_message_names_the_field() -> None:
    text = message(decided({"containers": [{"image": "i", "environment": {"X": 1}}]}))
    assert text == "spec.containers.0.environment.X: Input should be a valid string"


# --- messages ------------------------------------------------------------------------------------------
# What a MiniCluster shows of why its pods do not run, or have not joined.

# --- what only Events say --------------------------------------------------------------------------------


def warned(name: str, note: str, at: str, *, kind: Any = POD, uid: str = "") -> Any:
    """A warning about the object of this name; with `uid` about another that had the name."""

    def act(server: Server) -> None:
        meta = {"namespace": NS, "name": f"{name}.{note}"}
        regarding = {"name": name, "uid": uid or uid_of(server.get(kind, Key(NS, name)))}
        message = {"reason": "FailedMount", "note": note, "type": "Warning"}
        server.create(
            EVENT, {"metadata": meta, "regarding": regarding, "deprecatedLastTimestamp": at, **message}
        )

    return act


async def test_a_cause_that_only_events_have_is_in_the_message() -> None:
    stuck = Cluster(stuck={"flux-1"})
    old, new = warned("flux-1", "old", "2026-01-01"), warned("flux-1", "no such directory", "2026-01-02")
    other = warned("flux-0", "of another", "2026-01-03")
    earlier = warned("flux-1", "of an earlier one", "2026-01-04", uid="earlier")
    server = (await run(story(old, new, other, earlier, world=lambda: stuck))).server
    assert get(server)["status"]["message"].endswith(": FailedMount: no such directory")


async def test_only_events_of_the_job_explain_a_missing_pod() -> None:
    """An earlier Job and the MiniCluster have the same name."""

    def without_its_worker(server: Server) -> None:
        server.delete(POD, Key(NS, "flux-1"))

    class Refusing(Cluster):
        def _kept_up(self, server: Server, job: Any) -> bool:
            return not server.list(EVENT) and super()._kept_up(server, job)

    refused = warned("flux", "quota", "2026-01-01", kind=JOB)
    others = (
        warned("flux", "of an earlier Job", "2026-01-02", uid="earlier"),
        warned("flux", "of the MiniCluster", "2026-01-03", kind=MINICLUSTER),
    )
    server = (await run(story(refused, *others, without_its_worker, world=Refusing))).server
    assert get(server)["status"]["message"].endswith(": FailedMount: quota")


async def test_a_worker_that_has_completed_is_not_missed() -> None:
    """What failed before is no reason for its absence."""

    def completed(server: Server) -> None:
        job = server.list(JOB)[0]
        server.patch(JOB, key_of(job), {"status": {"completedIndexes": "1"}}, subresource="status")
        server.delete(POD, Key(NS, "flux-1"))

    def completing(server: Server) -> None:
        submit(server, flux={"completeWorkers": True})

    warning = warned("flux", "of a pod before", "2026-01-01", kind=JOB)
    server = (await run(story(warning, completed, setup=completing))).server
    assert get(server)["status"]["message"] == "1 of 2 pods run, 1 are ready"


async def test_the_events_of_its_start_do_not_explain_a_pod_that_has_started() -> None:
    """Its container has ended, and its pod is not over yet."""
    probed = warned("flux-0", "Startup probe failed", "2026-01-01")
    late = ends_with(0, late=True)
    server = (await run(story(probed, world=late))).server
    assert "Startup probe" not in str(get(server)["status"])


async def test_while_flux_shuts_down_nothing_is_waited_for() -> None:
    def ending(server: Server) -> None:
        server.clock.advance(60)
        completed(server, at=server.clock.now())

    found = get((await run(story(ending))).server)["status"]
    assert (found["phase"], found["message"]) == (
        "Running",
        "1 of 2 pods run, 1 are ready: Flux is shutting down",
    )


async def test_brokers_that_run_and_have_not_joined_are_not_ready() -> None:
    """Its certificate may be another one, or its configuration may name another lead."""
    alone = status("Running", container("flux", ready=False))
    server = (await run(story(set_status(1, alone)))).server
    found = get(server)["status"]
    assert (found["phase"], found["ready"]) == ("Running", 1)
    assert found["message"] == "2 of 2 pods run, 1 are ready: waiting for the brokers to join"


async def test_no_event_is_asked_for_where_pods_run() -> None:
    warning = warned("flux-1", "of its start", "2026-01-01")
    server = (await run(story(warning))).server
    assert "of its start" not in str(get(server)["status"])


# --- status --------------------------------------------------------------------------------------------
# The status of a MiniCluster, read by its types.

MOMENT = datetime(2030, 1, 1, tzinfo=UTC)


def draft(**status: Any) -> StatusDraft:
    return StatusDraft({"metadata": {"name": "mc"}, "status": status}, MOMENT)


def test_an_empty_status() -> None:
    found = draft()
    assert (found.begun, found.maximum, found.size, found.finished, found.ended) == (
        False,
        0,
        0,
        False,
        False,
    )
    assert (found.exit_code, found.started_at) == (None, None)
    assert summary_of({"metadata": {}}).phase is None


def test_from_the_claim_to_the_end() -> None:
    found = draft(exitCode=1, finishedAt="2029-12-31T00:00:00Z").claim(4, "a=b").put(size=3)
    assert (found.begun, found.maximum, found.size) == (True, 4, 3)
    assert (found.ended, found.exit_code) == (False, None), "the result of the start before this one is gone"
    found.put(startedAt="2029-12-31T23:00:00Z").end(0, "Succeeded", "done")
    assert found.started_at == datetime(2029, 12, 31, 23, tzinfo=UTC)
    assert (found.ended, found.exit_code, found.finished) == (True, 0, False)
    found.phased("Finished", "done").unclaim()
    assert (found.finished, found.begun, found.size, found.started_at) == (True, False, 0, None)


def test_an_odd_condition_does_not_hide_the_result() -> None:
    status = {"phase": "Finished", "exitCode": 3, "message": "m", "conditions": [{"type": 1}]}
    found = summary_of({"metadata": {}, "status": status})
    assert (found.phase, found.exit_code, found.message) == ("Finished", 3, "m")
