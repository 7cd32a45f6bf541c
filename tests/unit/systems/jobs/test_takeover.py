"""A status that differs from what is there, as tables: a live run that it denies, another operator's job."""

from __future__ import annotations

from typing import Any

import pytest

from fournos.api.kinds import FOURNOS_JOB
from fournos.engine.kube.resource import Obj
from fournos.engine.runtime.decision import Absent, Answer, Present, Unknown
from fournos.engine.runtime.steps import Patch
from fournos.systems.jobs import names
from tests.unit.systems.jobs.passes import (
    FAILED,
    GOING,
    KEY,
    RUN,
    SUCCEEDED,
    a_job,
    a_run,
    a_workload,
    ago,
    decided,
    written,
)

HELD = {"finalizers": [names.FINALIZER]}


def noted(run: Obj, **meta: Any) -> dict[str, Any]:
    return {**run, "metadata": {**run["metadata"], **meta}}


def corrected(job: Obj, *runs: Obj, answer: Answer | None = None, workloads: Any = None) -> list[str]:
    """Returns the messages of the events of a correction."""
    found = decided(
        job,
        runs=runs,
        workloads=(a_workload(),) if workloads is None else workloads,
        answers={RUN: answer or Present(runs[0])},
    )
    return [one.message for one in found.events if one.reason == "StatusCorrected"]


# --- a live run that the status denies -----------------------------------------------------------------


def test_the_status_is_restored_from_the_run() -> None:
    run = noted(a_run(), annotations={names.CLUSTER_ANNOTATION: "cluster-2"})
    ended = {"number": 1, "startedAt": ago(900), "outcome": "Failed", "finishedAt": ago(9), "message": "x"}
    later = {"number": 2, "outcome": "Lost"}
    status = {"attempt": 2, "attempts": [{"number": 0}, ended, later], "retryAt": ago(-60)}
    found = decided(a_job("Pending", meta=HELD, status=status), runs=(run,), answers={RUN: Present(run)})
    assert written(found, "phase", "message") == ("Running", "Pipeline running: job")
    assert written(found, "attempt", "cluster", "pipelineRun", "retryAt") == (1, "cluster-2", "job", None)
    entry = {"number": 1, "startedAt": ago(900), "pipelineRun": "job", "cluster": "cluster-2"}
    assert written(found, "attempts") == ([{"number": 0}, entry],)
    (event,) = found.events
    text = "PipelineRun job goes on, and the status said Pending (attempt 2): it was corrected"
    assert (event.type, event.reason, event.message) == ("Warning", "StatusCorrected", text)
    assert found.steps == ()


def test_a_run_without_a_cluster_is_clusterless_and_a_phase_that_holds_one_stays() -> None:
    status = {"attempt": 7, "attempts": None}
    job = a_job("Stopping", meta=HELD, status=status)
    found = decided(job, runs=(a_run(),), answers={RUN: Present(a_run())})
    assert written(found, "phase", "cluster", "attempt") == ("Stopping", "[clusterless]", 1)
    assert written(found, "attempts")[0][0]["startedAt"] == ago(0)


def test_a_status_without_a_phase_is_called_new() -> None:
    (message,) = corrected(a_job("", meta=HELD, status={"attempt": None}), a_run())
    assert message.endswith("the status said new (attempt 0): it was corrected")


@pytest.mark.parametrize(
    ("job", "run", "answer"),
    [
        (a_job("Running"), a_run(), None),
        (a_job("Succeeded"), a_run(), None),
        (a_job("Succeeded", meta=HELD), SUCCEEDED, None),
        (a_job("Succeeded", meta=HELD), FAILED, None),
        (a_job("Succeeded", meta=HELD), noted(a_run(), **GOING), None),
        (a_job("Succeeded", meta=HELD), a_run(), Absent()),
        (a_job("Succeeded", meta=HELD), a_run(), Unknown("timeout")),
        (a_job("Succeeded", meta=HELD), a_run(), Present(noted(a_run(), uid="r2"))),
        (a_job("Succeeded", meta=HELD), a_run(), Present(SUCCEEDED)),
        (a_job("Succeeded", meta=HELD), a_run(), Present(noted(a_run(), **GOING))),
        (a_job("Succeeded", meta=HELD), a_run(name="theirs"), None),
        (a_job("Succeeded", meta=HELD), noted(a_run(), labels={names.ATTEMPT_LABEL: "2"}), None),
        (a_job("Succeeded", meta=HELD), noted(a_run(), labels={names.ATTEMPT_LABEL: "one"}), None),
        (a_job("Succeeded", meta=HELD), noted(a_run(), labels={names.ATTEMPT_LABEL: "0000001"}), None),
        (a_job("Succeeded", meta=HELD), noted(a_run(), labels={names.ATTEMPT_LABEL: "¹"}), None),
    ],
    ids=[
        "it runs",
        "without the finalizer",
        "it has succeeded",
        "it has failed",
        "it is deleted",
        "gone",
        "unknown",
        "another of its name",
        "ended meanwhile",
        "deleted meanwhile",
        "another name",
        "another attempt",
        "no number",
        "too long a number",
        "no ASCII digit",
    ],
)
def test_nothing_else_contradicts_a_status(job: Obj, run: Obj, answer: Answer | None) -> None:
    assert corrected(job, run, answer=answer) == []


@pytest.mark.parametrize("labels", [{names.ATTEMPT_LABEL: "1"}, {names.ATTEMPT_LABEL: "000001"}, {}, None])
def test_a_run_is_of_the_attempt_of_its_label_and_the_first_without_one(labels: Any) -> None:
    """The published operator labels no attempts."""
    run = noted(a_run(), labels=labels)
    assert len(corrected(a_job("Succeeded", meta=HELD), run)) == 1


def test_a_second_live_run_of_a_job_that_runs_is_not_taken_for_it() -> None:
    assert corrected(a_job("Running"), a_run(), a_run(name="job-r2")) == []


# --- a job of the published operator -------------------------------------------------------------------

KOPF = "kopf.zalando.org/KopfFinalizerMarker"
OLD = {"attempt": None, "attempts": None, "cluster": "cluster-1", "resolved": None}


def test_a_run_in_progress_becomes_the_first_attempt() -> None:
    job = a_job("Running", meta={"finalizers": [KOPF, "other"]}, status=OLD, secretRefs=["a"])
    found = decided(job, runs=(a_run(),))
    entry = {
        "number": 1,
        "cluster": "cluster-1",
        "startedAt": ago(0),
        "workload": "job",
        "pipelineRun": "job",
    }
    assert written(found, "attempt", "attempts", "resolved") == (1, [entry], {"secretRefs": ["a"]})
    (step,) = found.steps
    assert isinstance(step, Patch) and (step.resource, step.key) == (FOURNOS_JOB, KEY)
    assert step.body["metadata"]["finalizers"] == ["other", names.FINALIZER]


def test_its_hardware_is_taken_over_and_an_incomplete_one_is_not() -> None:
    gpus = {"gpuType": "a100", "gpuCount": 2}
    whole = decided(a_job("Running", status=OLD, hardware=gpus), runs=(a_run(),))
    assert written(whole, "resolved") == ({"secretRefs": [], "hardware": gpus},)
    part = decided(a_job("Running", status=OLD, hardware={"gpuType": "a100"}), runs=(a_run(),))
    assert written(part, "resolved") == ({"secretRefs": []},)


@pytest.mark.parametrize(
    ("spec", "missing"),
    [({"lockOnly": True}, "pipelineRun"), ({"cluster": None, "clusterless": True}, "workload")],
)
def test_a_lock_has_no_run_and_a_clusterless_job_no_workload(spec: Any, missing: str) -> None:
    ((entry,),) = written(decided(a_job("Admitted", status=OLD, **spec)), "attempts")
    assert {"workload", "pipelineRun"} - set(entry) == {missing}


@pytest.mark.parametrize(
    ("phase", "finalizers", "spec", "expected"),
    [
        ("Running", [KOPF], {}, [names.FINALIZER]),
        ("Admitted", [KOPF], {"lockOnly": True}, None),
        ("Pending", [KOPF], {}, None),
        ("Pending", [KOPF, names.FINALIZER], {}, [names.FINALIZER]),
        ("Succeeded", [KOPF, "other"], {}, ["other"]),
    ],
    ids=["runs", "a lock", "waits", "is ours, too", "has ended"],
)
def test_its_finalizer_is_replaced_in_one_write(
    phase: str, finalizers: list[str], spec: Any, expected: list[str] | None
) -> None:
    """A job whose run is live is never without one."""
    notes = {"kopf.zalando.org/last-handled-configuration": "{}", "kept": "x"}
    job = a_job(phase, meta={"finalizers": finalizers, "annotations": notes}, status=OLD, **spec)
    (step,) = decided(job, runs=(a_run(),) if phase == "Running" else ()).steps
    assert isinstance(step, Patch)
    meta = step.body["metadata"]
    assert (meta["finalizers"] or None) == expected
    assert meta["annotations"] == {"kopf.zalando.org/last-handled-configuration": None}
    assert meta["resourceVersion"] == "7"


def test_a_job_of_this_operator_is_not_taken_over() -> None:
    found = decided(a_job("Running"), runs=(a_run(),), workloads=(a_workload(),))
    assert written(found, "attempt") == (1,) and found.steps == ()
