"""What a MiniCluster's Job and pods come to, as tables: its end, its conditions, its quota, why it waits."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from fournos.kube.kinds import JOB, POD
from fournos.kube.resource import Key
from fournos.miniclusters import names, resize
from fournos.miniclusters.context import Context, Observed
from fournos.miniclusters.finish import End, end_of, finishing
from fournos.miniclusters.judge import broker_up, cause_of, failed_beside, survey
from fournos.miniclusters.settings import MiniClusterSettings
from fournos.miniclusters.start import claim
from fournos.queueing.surroundings import Surroundings
from fournos.runtime.decision import Facts, Present, Unknown
from tests.unit.miniclusters.actors import NS, manifest, submit
from tests.unit.miniclusters.stories import delete, story
from tests.world.harness import run

NOW = datetime(2026, 1, 1, 12, tzinfo=UTC)
SETTINGS = MiniClusterSettings(end_grace_sec=30)


def owner(kind: str, uid: str) -> list[dict[str, Any]]:
    return [{"kind": kind, "name": "flux", "uid": uid, "controller": True}]


def job(*conditions: tuple[str, str, str], size: int = 2, **spec: Any) -> dict[str, Any]:
    """Of the MiniCluster below; conditions as (type, reason, message)."""
    told = [{"type": t, "status": "True", "reason": r, "message": m} for t, r, m in conditions]
    return {
        "metadata": {
            "name": "flux",
            "namespace": NS,
            "uid": "job",
            "ownerReferences": owner("MiniCluster", "mc"),
        },
        "spec": {"parallelism": size, **spec},
        "status": {"conditions": told},
    }


def pod(index: int, **status: Any) -> dict[str, Any]:
    labels = {names.MINICLUSTER_LABEL: "flux", names.COMPLETION_INDEX_LABEL: str(index)}
    meta = {
        "name": f"flux-{index}",
        "namespace": NS,
        "labels": labels,
        "ownerReferences": owner("Job", "job"),
    }
    return {"metadata": meta, "status": status}


def ended(index: int, code: int, phase: str, message: str | None = None, *, ago: int = 0) -> dict[str, Any]:
    """A pod whose container has ended; `message`: what it wrote, by default the code."""
    at = (NOW - timedelta(seconds=ago)).strftime("%Y-%m-%dT%H:%M:%SZ")
    state = {"exitCode": code, "message": str(code) if message is None else message, "finishedAt": at}
    return pod(index, phase=phase, containerStatuses=[{"name": "flux", "state": {"terminated": state}}])


def runs(index: int) -> dict[str, Any]:
    container = {"name": "flux", "ready": True, "state": {"running": {"startedAt": "2026-01-01T11:00:00Z"}}}
    ready = [{"type": "Ready", "status": "True"}]
    return pod(index, phase="Running", containerStatuses=[container], conditions=ready)


def ctx(
    *pods: dict[str, Any],
    job: dict[str, Any] | None = None,
    status: dict[str, Any] | None = None,
    live: Any = None,
    around: Surroundings | None = None,
    **spec: Any,
) -> Context:
    """`live`: the answer to the question for its pods; its Job is as the cache has it."""
    one = manifest(**spec)
    one["metadata"]["uid"] = "mc"
    one["status"] = status or {}
    made = {} if job is None else {(JOB, "flux"): job}
    observed = Observed(Key(NS, "flux"), one, made, pods, around or Surroundings())
    found = Context(observed, Facts(), NOW, SETTINGS)
    answers = {found.job_question: Present(job) if job else Unknown("", "")} if live is not None else {}
    if live is not None:
        answers[found.pods_question] = live
    return Context(observed, Facts(answers), NOW, SETTINGS)


# --- its end ---------------------------------------------------------------------------------------------

COMPLETE = job(("Complete", "SuccessPolicy", ""))
FAILED = job(("Failed", "PodFailurePolicy", "exit code 3"))
LATE = job(("Failed", "DeadlineExceeded", "too long"))


@pytest.mark.parametrize(
    ("found", "of", "spec", "expected"),
    [
        (COMPLETE, (ended(0, 0, "Succeeded"),), {}, (0, "Succeeded")),
        (COMPLETE, (), {}, (0, "Succeeded")),
        (FAILED, (ended(0, 3, "Failed"),), {}, (3, "Failed")),
        (FAILED, (), {}, (None, "PodFailurePolicy")),
        (job(("Failed", "", "")), (), {}, (None, "Failed")),
        (LATE, (ended(0, 0, "Succeeded"),), {}, (None, "DeadlineExceeded")),
        (LATE, (ended(0, 143, "Failed"),), {}, (143, "DeadlineExceeded")),
        (job(), (ended(0, 3, "Running", ago=29),), {}, None),
        (job(), (ended(0, 3, "Failed", ago=99),), {}, None),
        (job(), (ended(0, 0, "Failed", ago=30),), {}, (0, "Succeeded")),
        (job(), (ended(0, 0, "Failed", ago=29),), {}, NOW + timedelta(seconds=1)),
        (job(), (ended(0, 0, "Succeeded", ago=99),), {}, None),
        (job(), (ended(0, 0, "Failed", ago=99),), {"backoffLimit": 1}, (0, "Succeeded")),
        (job(), (ended(0, 3, "Failed", ago=99),), {"backoffLimit": 1}, None),
    ],
)
def test_how_it_has_ended(found: Any, of: Any, spec: dict[str, Any], expected: Any) -> None:
    end = end_of(ctx(*of, job=found, **spec), found)
    assert (end.exit_code, end.reason) == expected if isinstance(end, End) else end == expected


@pytest.mark.parametrize(
    ("code", "again", "until"),
    [(0, None, True), (3, None, True), (3, 1, False)],
    ids=["well", "badly", "again"],
)
def test_a_container_beside_flux_keeps_the_pod_for_a_while(code: int, again: int | None, until: bool) -> None:
    lead = ended(0, code, "Running", ago=10)
    lead["status"]["containerStatuses"].append({"name": "side", "state": {"running": {}}})
    spec = {} if again is None else {"backoffLimit": again}
    end = end_of(ctx(lead, job=job(), **spec), job())
    assert end == (NOW + timedelta(seconds=20) if until else None)


def test_what_kept_flux_from_starting_is_in_the_end() -> None:
    one = ctx(ended(0, 127, "Failed", "the image has no flux"), job=FAILED)
    end = end_of(one, FAILED)
    assert isinstance(end, End)
    assert end.message == "The Job failed: PodFailurePolicy: exit code 3: the image has no flux"


@pytest.mark.parametrize(("code", "kind"), [(0, "Normal"), (1, "Warning"), (None, "Warning")])
def test_an_end_that_is_no_success_is_a_warning(code: int | None, kind: str) -> None:
    told = {"phase": "Running", "exitCode": code, "message": "over", "finishedAt": "2026-01-01T11:00:00Z"}
    one = ctx(job=COMPLETE, status=told, live=Present(()))
    (note,) = finishing(one).notes
    assert (note.reason, note.message, note.type) == ("Finished", "over", kind)
    assert one.draft.phase == "Finished"


# --- its conditions ----------------------------------------------------------------------------------------


def test_a_claim_says_what_is_yet_to_come() -> None:
    one = ctx(status={"conditions": []})
    claim(one)
    types = ("JobRequested", "JobWaitingForResources", "JobRunning", "JobMiniClusterReady", "JobFinished")
    assert {type_: (one.draft.is_true(type_), one.draft.reason_of(type_)) for type_ in types} == {
        "JobRequested": (True, "Created"),
        "JobWaitingForResources": (True, "Starting"),
        "JobRunning": (False, "Starting"),
        "JobMiniClusterReady": (False, "Starting"),
        "JobFinished": (False, "Starting"),
    }
    assert one.draft.maximum == 2


@pytest.mark.parametrize(
    ("pods", "phase", "told"),
    [
        ((), "Waiting", (True, True, False, False)),
        ((runs(1),), "Waiting", (True, True, False, False)),
        ((runs(0),), "Running", (True, True, True, False)),
        ((runs(0), runs(1)), "Ready", (True, False, True, True)),
    ],
)
def test_how_it_does(pods: Any, phase: str, told: tuple[bool, ...]) -> None:
    one = ctx(*pods, job=job())
    survey(one, job(), "")
    types = ("JobRequested", "JobWaitingForResources", "JobRunning", "JobMiniClusterReady")
    assert one.draft.phase == phase
    assert tuple(one.draft.is_true(type_) for type_ in types) == told


def test_a_pod_that_goes_is_not_up() -> None:
    going = runs(0)
    assert broker_up(going, "flux") is True
    going["metadata"]["deletionTimestamp"] = "2026-01-01T11:00:00Z"
    assert broker_up(going, "flux") is False


@pytest.mark.parametrize("state", [{"running": {}}, {"waiting": {"reason": "PodInitializing"}}, {}])
def test_a_failure_beside_flux_is_told_whatever_flux_does(state: dict[str, Any]) -> None:
    side = {"name": "side", "state": {"terminated": {"exitCode": 4}}}
    one = pod(1, containerStatuses=[{"name": "flux", "state": state}, side])
    told = "Failed beside Flux: container side of pod flux-1 with exit code 4"
    assert failed_beside(ctx(one, job=job())) == told


# --- why it waits ------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("status", "why"),
    [
        ({}, ""),
        ({"conditions": [{"type": "PodScheduled", "status": "False", "message": "no node"}]}, "no node"),
        ({"conditions": [{"type": "PodScheduled", "status": "True", "message": "bound"}]}, ""),
        ({"containerStatuses": [{"name": "flux", "state": {"waiting": {"reason": "Bad"}}}]}, "Bad: flux"),
        (
            {
                "initContainerStatuses": [
                    {"name": "v", "state": {"waiting": {"reason": "Bad", "message": "why"}}}
                ]
            },
            "Bad: why",
        ),
        (
            {"containerStatuses": [{"name": "flux", "state": {"waiting": {"reason": "ContainerCreating"}}}]},
            "",
        ),
    ],
)
def test_why_a_pod_waits(status: dict[str, Any], why: str) -> None:
    assert cause_of(pod(0, **status)) == why


@pytest.mark.parametrize(
    ("found", "message"),
    [
        (job(suspend=True), "The Job is suspended"),
        (job(("Suspended", "JobSuspended", "no quota"), suspend=True), "no quota"),
        (job(), "0 of 2 pods run, 0 are ready: no such volume"),
    ],
)
def test_why_it_waits(found: dict[str, Any], message: str) -> None:
    one = ctx(job=found)
    survey(one, found, "", "no such volume")
    assert one.draft.message == message


# --- its size ----------------------------------------------------------------------------------------------

BY_ITSELF = {"labels": {"kueue.x-k8s.io/queue-name": "lq"}}
RESERVED: dict[str, Any] = {"conditions": [{"type": "QuotaReserved", "status": "True"}]}
RECLAIMED = {**RESERVED, "reclaimablePods": [{"name": "main", "count": 2}]}


@pytest.mark.parametrize(
    ("asked", "now", "more", "quota", "size", "refused"),
    [
        (3, 2, {}, None, 3, ""),
        (9, 2, {}, None, 4, "size 9 is more than the 4 hosts that Flux began with"),
        (0, 2, {}, None, 1, ""),
        (4, 2, {}, RESERVED, 4, ""),
        (1, 2, {}, RECLAIMED, 1, ""),
        (2, 1, {}, RECLAIMED, 2, ""),
        (
            3,
            2,
            {},
            RECLAIMED,
            2,
            "size stays 2: the quota of 2 pods was given back when it shrank; suspend the MiniCluster to "
            "queue it for all of them again",
        ),
        (4, 3, {}, RECLAIMED, 3, "size stays 3: the quota of 2 pods was given back"),
        (3, 2, BY_ITSELF, None, 2, "size stays 2: the Job is queued by jobLabels, and Kueue would stop it;"),
        (2, 2, BY_ITSELF, None, 2, ""),
    ],
)
def test_which_size_it_may_have(
    asked: int, now: int, more: dict[str, Any], quota: Any, size: int, refused: str
) -> None:
    one = job(size=now)
    one["metadata"] |= more
    around = Surroundings(workloads=(_workload(quota),)) if quota else None
    found = resize.allowed(
        ctx(job=one, status={"maximumSize": 4, "size": now}, around=around, size=asked), one
    )
    assert found.size == size
    assert found.refused.startswith(refused) and bool(found.refused) is bool(refused)


def _workload(status: dict[str, Any]) -> dict[str, Any]:
    meta = {"name": "flux", "namespace": NS, "ownerReferences": owner("MiniCluster", "mc")}
    return {"metadata": meta, "status": status}


# --- its quota ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("size", "cached", "live", "given"),
    [
        (1, (runs(0),), Present((runs(0),)), 3),
        (1, (runs(0), runs(1)), Present((runs(0),)), 3),
        (1, (runs(0),), Present((runs(0), runs(1))), 0),
        (1, (runs(0),), Unknown("", ""), 0),
        (2, (runs(0), runs(1)), Present((runs(0), runs(1))), 0),
    ],
    ids=["gone", "the cache is late", "still there", "unknown", "not shrunk"],
)
def test_quota_is_given_back_once_pods_are_gone(size: int, cached: Any, live: Any, given: int) -> None:
    told = {"maximumSize": 4, "size": 2}
    around = Surroundings(workloads=(_workload(RESERVED),))
    one = ctx(*cached, job=job(size=size), status=told, live=live, around=around)
    assert resize.given_back(one) == given


async def test_a_services_pod_that_was_deleted_is_made_again() -> None:
    services = [{"name": "db", "image": "db:1"}]
    gone = delete(POD, "flux-services")
    server = (await run(story(gone, setup=lambda world: submit(world, services=services)))).server
    assert server.find(POD, Key(NS, "flux-services"))
