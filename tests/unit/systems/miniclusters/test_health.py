"""What a MiniCluster's Job and pods come to, as tables: its end, its conditions, why it waits."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest

from fournos.engine.kube.resource import POD, SERVICE, Key
from fournos.engine.runtime.decision import Absent, Decision, Facts, Present, SecretShape, Unknown
from fournos.systems.miniclusters import names
from fournos.systems.miniclusters.finish import End, end_of, finishing, held_pods
from fournos.systems.miniclusters.health import broker_up, cause_of, failed_sidecars, survey
from fournos.systems.miniclusters.start import claim, missing
from fournos.systems.miniclusters.status import Context
from tests.unit.systems.miniclusters.actors import NS, change, delete, story, submit
from tests.unit.systems.miniclusters.contexts import NOW, SETTINGS, ctx, ended, job, pod, runs
from tests.world.harness import run
from tests.world.server import Server

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


SIDE = {"name": "side", "state": {"running": {}}}


def beside(index: int, code: int, phase: str = "Running", message: str = "", **more: Any) -> Any:
    """A pod whose Flux has ended, and a container beside it has not."""
    found = ended(index, code, phase, message, **more)
    found["status"]["containerStatuses"].append(SIDE)
    return found


@pytest.mark.parametrize("code", [1, 127, 137, names.STOPPED])
@pytest.mark.parametrize("index", [0, 1])
def test_a_container_beside_flux_does_not_hide_its_failure(index: int, code: int) -> None:
    """Its pod would run for ever, and its Job would never see it."""
    early, late = (beside(index, code, message="no flux here", ago=age) for age in (29, 30))
    ((one, at),) = held_pods(ctx(early, job=job()))
    assert (one, at) == (early, NOW + timedelta(seconds=1))
    ((_, due),) = held_pods(ctx(late, job=job()))
    assert due == NOW


def test_what_the_kubelet_handles_is_left_alone() -> None:
    going = beside(1, 1, ago=99)
    going["metadata"]["deletionTimestamp"] = "2026-01-01T12:00:00Z"
    left = (beside(0, 0, ago=99), beside(1, 1, "Failed", ago=99), ended(1, 1, "Running", ago=99), going)
    assert held_pods(ctx(*left, job=job())) == ()
    assert held_pods(ctx(beside(1, 1, ago=99), job=job(), pod={"restartPolicy": "OnFailure"})) == ()


def test_the_message_says_what_flux_has_failed_with() -> None:
    one = ctx(beside(0, 127, message="the image has no flux", ago=3), job=job(size=1))
    survey(one, job(size=1), "")
    assert one.draft.message == "0 of 1 pods run, 0 are ready: the image has no flux"


def test_an_end_without_a_time_is_one_of_now() -> None:
    lead = ended(0, 0, "Failed")
    del lead["status"]["containerStatuses"][0]["state"]["terminated"]["finishedAt"]
    assert end_of(ctx(lead, job=job()), job()) == NOW + timedelta(seconds=30)


@pytest.mark.parametrize(
    ("reason", "message", "expected"),
    [
        ("", "", "The Job failed: Failed"),
        ("DeadlineExceeded", "too long", "The Job failed: DeadlineExceeded: too long"),
    ],
)
def test_the_words_of_the_job_are_those_of_the_end(reason: str, message: str, expected: str) -> None:
    failed = job(("Failed", reason, message))
    end = end_of(ctx(job=failed), failed)
    assert isinstance(end, End) and end.message == expected


def test_what_kept_flux_from_starting_is_in_the_end() -> None:
    one = ctx(ended(0, 127, "Failed", "the image has no flux"), job=FAILED)
    end = end_of(one, FAILED)
    assert isinstance(end, End)
    assert end.message == "The Job failed: PodFailurePolicy: exit code 3: the image has no flux"


@pytest.mark.parametrize(("code", "kind"), [(0, "Normal"), (1, "Warning"), (None, "Warning")])
def test_an_end_that_is_no_success_is_a_warning(code: int | None, kind: str) -> None:
    message = {"phase": "Running", "exitCode": code, "message": "over", "finishedAt": "2026-01-01T11:00:00Z"}
    one = ctx(job=COMPLETE, status=message, live=Present(()))
    (note,) = finishing(one).events
    assert (note.reason, note.message, note.type) == ("Finished", "over", kind)
    assert one.draft.phase == "Finished"


# --- its conditions ----------------------------------------------------------------------------------------


def test_a_claim_reports_what_is_yet_to_come() -> None:
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
    ("pods", "phase", "expected"),
    [
        ((), "Waiting", (True, True, False, False)),
        ((runs(1),), "Waiting", (True, True, False, False)),
        ((runs(0),), "Running", (True, True, True, False)),
        ((runs(0), runs(1)), "Ready", (True, False, True, True)),
    ],
)
def test_how_it_does(pods: Any, phase: str, expected: tuple[bool, ...]) -> None:
    one = ctx(*pods, job=job())
    survey(one, job(), "")
    types = ("JobRequested", "JobWaitingForResources", "JobRunning", "JobMiniClusterReady")
    assert one.draft.phase == phase
    assert tuple(one.draft.is_true(type_) for type_ in types) == expected


def test_a_pod_that_goes_is_not_up() -> None:
    going = runs(0)
    assert broker_up(going, "flux") is True
    going["metadata"]["deletionTimestamp"] = "2026-01-01T11:00:00Z"
    assert broker_up(going, "flux") is False


@pytest.mark.parametrize("state", [{"running": {}}, {"waiting": {"reason": "PodInitializing"}}, {}])
def test_a_failed_sidecar_is_reported_whatever_flux_does(state: dict[str, Any]) -> None:
    side = {"name": "side", "state": {"terminated": {"exitCode": 4}}}
    one = pod(1, containerStatuses=[{"name": "flux", "state": state}, side])
    expected = "Failed beside Flux: container side of pod flux-1 with exit code 4"
    assert failed_sidecars(ctx(one, job=job())) == expected


def test_a_certificate_that_cannot_be_looked_for_is_not_made_again() -> None:
    one = ctx(job=job(), status={"maximumSize": 2})
    question = SecretShape(Key(NS, names.curve("flux")))
    unknown = Context(one.observed, Facts({question: Unknown("")}), NOW, SETTINGS)
    assert missing(unknown) == Decision(retry=True)
    known = ctx(job=job(), live=Present(())).facts.answers
    lost = Context(one.observed, Facts({question: Absent(), **known}), NOW, SETTINGS)
    assert isinstance(missing(lost), Decision) and lost.draft.phase == "Waiting"
    assert lost.draft.message.endswith("the MiniCluster starts again with a new one")


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


async def test_a_services_pod_that_was_deleted_is_made_again() -> None:
    services = [{"name": "db", "image": "db:1"}]
    gone = delete(POD, "flux-services")
    server = (await run(story(gone, setup=lambda world: submit(world, services=services)))).server
    assert server.find(POD, Key(NS, "flux-services"))


async def test_who_uses_the_headless_service_owns_it_again() -> None:
    """Without it the Service would go with the others that use it."""

    def setup(server: Server) -> None:
        submit(server, "flux")
        submit(server, "other")

    def stripped(server: Server) -> None:
        found = server.get(SERVICE, Key(NS, "flux-service"))["metadata"]["ownerReferences"]
        kept = [one for one in found if one["name"] != "flux"]
        assert len(kept) == len(found) - 1
        server.patch(SERVICE, Key(NS, "flux-service"), {"metadata": {"ownerReferences": kept}})
        change(server, deadlineSeconds=9000)

    server = (await run(story(stripped, setup=setup))).server
    owners = server.get(SERVICE, Key(NS, "flux-service"))["metadata"]["ownerReferences"]
    assert {one["name"] for one in owners} == {"flux", "other"}
