"""Interruptions, as tables: which one counts, and how and within which time the run is stopped."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest

from fournos.api.kinds import PIPELINE_RUN
from fournos.engine.kube.resource import POD, Key, Obj
from fournos.engine.queueing.report import release_quota
from fournos.engine.runtime.decision import Absent, Decision, Delete, EventRecord, Patch, Present, Unknown
from tests.unit.systems.jobs.actors import NS, SETTINGS
from tests.unit.systems.jobs.passes import (
    ASKED,
    EVICTED,
    FAILED,
    GOING,
    GONE,
    KEY,
    NOW,
    OWN_WORKLOAD,
    PODS,
    RUN,
    SUCCEEDED,
    a_job,
    a_pod,
    a_run,
    a_workload,
    ago,
    cancelled,
    condition_of,
    decided,
    stopped,
    true,
    written,
)

# --- the claim: when the stop began is on record before the run is touched -----------------------------

CLEANUP, BEGUN = ", waiting for PipelineRun cleanup", ". Stopping the run"


@pytest.mark.parametrize(
    ("job", "workload", "cause", "doing", "reason"),
    [
        (a_job("Running", shutdown="Stop"), a_workload(), "Shutdown (Stop) requested", CLEANUP, "Stopping"),
        (
            a_job("Running", shutdown="Terminate"),
            a_workload(),
            "Shutdown (Terminate) requested",
            ", waiting for PipelineRun to stop",
            "Stopping",
        ),
        (
            a_job("Running", meta=GOING),
            a_workload(),
            "Deletion requested",
            ", waiting for the run to stop",
            "Stopping",
        ),
        (a_job("Running"), EVICTED, "Evicted by Kueue (Preempted): make room", BEGUN, "Evicted"),
        (a_job("Running"), None, "Its Workload was deleted, so its quota is gone", BEGUN, "WorkloadLost"),
        (a_job("Running", suspend=True), a_workload(), "Suspended by spec.suspend", BEGUN, "Suspended"),
    ],
    ids=["stopped", "terminated", "deleted", "evicted", "lost", "suspended"],
)
def test_a_stop_is_on_record_before_the_run_is_cancelled(
    job: Obj, workload: Obj | None, cause: str, doing: str, reason: str
) -> None:
    found = decided(job, workloads=(workload,) if workload else (), runs=(a_run(),))
    phase = "Stopping" if "shutdown" in job["spec"] else "Running"
    assert stopped(found) == (phase, f"{cause}{doing}", "2030-01-01T12:00:00Z", "cluster-1")
    noted = f"{cause}, stopping the run first" if "deletionTimestamp" in job["metadata"] else cause
    type_ = "Normal" if reason == "Stopping" else "Warning"
    assert found.steps == () and found.events == (EventRecord(type_, reason, noted),)


@pytest.mark.parametrize(("shutdown", "graceful"), [("Stop", True), ("Terminate", False)])
def test_the_condition_names_how_the_run_is_stopped(shutdown: str, graceful: bool) -> None:
    found = decided(a_job("Running", shutdown=shutdown), workloads=(a_workload(),), runs=(a_run(),))
    text = f"PipelineRun cancellation requested (graceful={graceful})"
    assert condition_of(found, "PipelineRunReady") == ("False", "Stopping", text)


# --- which one counts ----------------------------------------------------------------------------------


def test_a_deletion_counts_before_a_shutdown_and_keeps_how_it_stops() -> None:
    both = a_job("Running", meta=GOING, status=ASKED, shutdown="Terminate")
    assert decided(both, workloads=(a_workload(),), runs=(a_run(),)).steps == (cancelled("Cancelled"),)
    deleted = a_job("Running", meta=GOING, status=ASKED)
    steps = decided(deleted, workloads=(a_workload(),), runs=(a_run(),)).steps
    assert steps == (cancelled("CancelledRunFinally"),)


def test_a_shutdown_counts_before_an_eviction() -> None:
    job = a_job("Running", status=ASKED, shutdown="Stop")
    found = decided(job, workloads=(EVICTED,), runs=(a_run(),))
    assert written(found, "phase", "message") == (
        "Stopping",
        "Stopping, waiting for cleanup: Tasks Completed: 1",
    )


def test_an_eviction_counts_before_a_suspension() -> None:
    found = decided(a_job("Running", suspend=True), workloads=(EVICTED,), runs=(a_run(),))
    assert [one.reason for one in found.events] == ["Evicted"]


@pytest.mark.parametrize("run", [SUCCEEDED, FAILED], ids=["succeeded", "failed"])
def test_the_result_of_a_run_that_has_ended_counts_before_an_eviction(run: Obj) -> None:
    found = decided(a_job("Running"), workloads=(EVICTED,), runs=(run,))
    assert written(found, "stopRequestedAt") == (None,)
    assert written(found, "phase")[0] in ("Succeeded", "Failed")


def test_a_stop_that_has_begun_goes_on_when_its_cause_is_gone() -> None:
    """The run is cancelled already: the job is queued again instead of failing with that run."""
    job = a_job("Running", status=ASKED)
    found = decided(job, workloads=(a_workload(),), runs=(a_run(),))
    assert found.steps == (cancelled("CancelledRunFinally"),)
    assert written(found, "message") == ("Interrupted. Stopping the run: Tasks Completed: 1",)
    over = decided(job, workloads=(a_workload(),), runs=(FAILED,))
    assert stopped(over) == ("Pending", "Interrupted. Waiting to be admitted again", None, None)


def test_the_cluster_is_that_of_the_admission() -> None:
    found = decided(a_job("Running"), workloads=(a_workload(cluster="cluster-2"),), runs=(a_run(),))
    cluster, attempts = written(found, "cluster", "attempts")
    assert (cluster, attempts[-1]["cluster"]) == ("cluster-2", "cluster-2")


@pytest.mark.parametrize(
    "answer",
    [Present(a_workload()), Unknown("timeout"), Absent(no_kind=True)],
    ids=["there", "unknown", "no kind"],
)
def test_quota_is_lost_only_when_a_live_read_misses_the_workload(answer: Any) -> None:
    found = decided(a_job("Running"), runs=(a_run(),), answers={OWN_WORKLOAD: answer})
    assert written(found, "stopRequestedAt") == (None,) and found.events == ()


def test_a_clusterless_job_holds_no_quota_that_it_could_lose() -> None:
    found = decided(a_job("Running", cluster=None, clusterless=True), runs=(a_run(),))
    assert written(found, "stopRequestedAt") == (None,)


# --- the time limits -----------------------------------------------------------------------------------


GRACE = {
    "Stop": SETTINGS.stop_grace_sec,
    "deletion": SETTINGS.deletion_grace_sec,
    "eviction": SETTINGS.eviction_grace_sec,
    "suspension": SETTINGS.stop_grace_sec,
    "lost": SETTINGS.eviction_grace_sec,
}


@pytest.mark.parametrize("cause", GRACE)
def test_a_graceful_stop_becomes_immediate_after_its_time(cause: str) -> None:
    spec: dict[str, Any] = {"Stop": {"shutdown": "Stop"}, "suspension": {"suspend": True}}.get(cause, {})
    workloads = {"eviction": (EVICTED,), "lost": ()}.get(cause, (a_workload(),))
    meta = GOING if cause == "deletion" else {}

    def after(seconds: float) -> Decision:
        job = a_job("Running", meta=meta, status={"stopRequestedAt": ago(seconds)}, **spec)
        return decided(job, workloads=workloads, runs=(a_run(age=9999),))

    before = after(GRACE[cause] - 1)
    assert before.steps == (cancelled("CancelledRunFinally"),)
    assert before.wake_at == NOW + timedelta(seconds=1)
    due = after(GRACE[cause])
    assert due.steps == (cancelled("Cancelled"),)
    assert due.wake_at == NOW + timedelta(seconds=SETTINGS.terminate_grace_sec)
    last = after(GRACE[cause] + SETTINGS.terminate_grace_sec)
    assert last.steps == (Delete(PIPELINE_RUN, KEY, "r-job"),) and last.retry
    assert cause == "deletion" or "PipelineRun job did not stop in time" in written(last, "message")[0]


def test_a_stop_that_is_raised_gets_a_new_time_limit_once() -> None:
    job = a_job("Stopping", status={"stopRequestedAt": ago(3000)}, shutdown="Terminate")
    raised = decided(job, workloads=(a_workload(),), runs=(a_run(cancelled="CancelledRunFinally"),))
    assert raised.steps == (cancelled("Cancelled"),)
    assert written(raised, "stopRequestedAt") == ("2030-01-01T12:00:00Z",)
    assert raised.wake_at == NOW + timedelta(seconds=SETTINGS.terminate_grace_sec)
    later = decided(job, workloads=(a_workload(),), runs=(a_run(cancelled="Cancelled"),))
    assert later.steps == (Delete(PIPELINE_RUN, KEY, "r-job"),)
    assert written(later, "stopRequestedAt") == (ago(3000),)


@pytest.mark.parametrize("how", ["CancelledRunFinally", "Cancelled"])
def test_a_run_is_cancelled_once(how: str) -> None:
    job = a_job("Stopping", status=ASKED, shutdown="Stop" if how != "Cancelled" else "Terminate")
    found = decided(job, workloads=(a_workload(),), runs=(a_run(cancelled=how),))
    grace = SETTINGS.terminate_grace_sec if how == "Cancelled" else SETTINGS.stop_grace_sec
    assert found.steps == () and found.wake_at == NOW + timedelta(seconds=grace - 10)


def test_an_immediate_cancellation_is_not_taken_back() -> None:
    """Stop after Terminate: the run is being cancelled at once already."""
    job = a_job("Stopping", status=ASKED, shutdown="Stop")
    found = decided(job, workloads=(a_workload(),), runs=(a_run(cancelled="Cancelled"),))
    grace = SETTINGS.stop_grace_sec + SETTINGS.terminate_grace_sec
    assert found.steps == () and found.wake_at == NOW + timedelta(seconds=grace - 10)


SILENT = {"type": "Succeeded", "status": "Unknown"}


def test_a_run_without_a_status_is_cancelled_five_seconds_after_its_creation() -> None:
    job = a_job("Stopping", status={"stopRequestedAt": ago(1)}, shutdown="Stop")

    def of_age(age: float) -> Decision:
        return decided(job, workloads=(a_workload(),), runs=({**a_run(age=age), "status": {}},))

    waits = of_age(4)
    assert waits.steps == () and waits.wake_at == NOW + timedelta(seconds=1)
    text = "Stopping, waiting for cleanup: waiting for Tekton to take up PipelineRun job"
    assert written(waits, "message") == (text,)
    assert of_age(5).steps == (cancelled("CancelledRunFinally"),)
    taken_up = decided(job, workloads=(a_workload(),), runs=(a_run(age=4),))
    assert taken_up.steps == (cancelled("CancelledRunFinally"),)


@pytest.mark.parametrize(
    ("job", "run", "message"),
    [
        (a_job("Stopping", status=ASKED, shutdown="Stop"), a_run(SILENT), f"Stopping{CLEANUP}"),
        (
            a_job("Stopping", status=ASKED, shutdown="Terminate"),
            a_run(cancelled="Cancelled"),
            "Terminating: Tasks Completed: 1",
        ),
        (
            a_job("Stopping", status=ASKED, shutdown="Terminate"),
            a_run(SILENT, cancelled="Cancelled"),
            "Terminating, waiting for PipelineRun to stop",
        ),
        (
            a_job("Running", status=ASKED, suspend=True),
            a_run(SILENT),
            f"Suspended by spec.suspend{BEGUN}: waiting for PipelineRun cleanup",
        ),
        (a_job("Running", meta=GOING, status={**ASKED, "message": "before"}), a_run(), "before"),
    ],
    ids=["stopping", "terminating", "terminating, silent", "suspended", "deleted"],
)
def test_the_message_while_the_run_stops(job: Obj, run: Obj, message: str) -> None:
    assert written(decided(job, workloads=(a_workload(),), runs=(run,)), "message") == (message,)


# --- interrupt ends ------------------------------------------------------------------------------------
# The end of an interruption, as tables: until when quota stays, and what is written then.

# --- quota stays while anything of the run is left -----------------------------------------------------


@pytest.mark.parametrize("answer", [Present(a_run()), Unknown("timeout")], ids=["there", "unknown"])
def test_a_run_that_only_the_cache_misses_is_waited_for(answer: Any) -> None:
    job = a_job("Stopping", status=ASKED, shutdown="Stop")
    found = decided(job, workloads=(a_workload(),), answers={RUN: answer})
    assert found.steps == () and found.retry
    assert written(found, "message") == ("Stopping, waiting for cleanup: waiting to see the PipelineRun",)


def test_quota_stays_until_no_pod_of_the_run_is_left() -> None:
    job = a_job("Stopping", status=ASKED, shutdown="Terminate")

    def with_pods(*pods: Obj) -> Decision:
        return decided(job, workloads=(a_workload(),), runs=(FAILED,), answers={PODS: Present(pods)})

    found = with_pods(*(a_pod(name) for name in "dbca"), a_pod("over", phase="Failed"))
    assert found.steps == () and found.retry
    assert written(found, "message") == ("Terminating: waiting for 4 pod(s) to end: a, b, c",)
    assert found.wake_at == NOW + timedelta(seconds=SETTINGS.terminate_grace_sec - 10)
    for over in ("Succeeded", "Failed"):
        assert with_pods(a_pod(phase=over)).steps == (GONE,)
    assert with_pods(a_pod(job="another")).steps == (GONE,), "a pod of a run of another job"
    unlabelled = {**a_pod(), "metadata": {"name": "x", "namespace": NS, "uid": "x"}}
    assert with_pods(unlabelled).steps == (), "it may be ours"
    hidden = decided(job, workloads=(a_workload(),), runs=(FAILED,), answers={PODS: Unknown("timeout")})
    assert hidden.steps == () and hidden.retry
    assert written(hidden, "message") == ("Terminating: cannot see the run's pods: timeout",)


def test_pods_that_outlive_the_time_limit_are_deleted_by_force() -> None:
    """Their run has ended by itself, or gracefully before Terminate: it is not marked as cancelled."""
    since = {"stopRequestedAt": ago(SETTINGS.terminate_grace_sec)}
    job = a_job("Stopping", status=since, shutdown="Terminate")
    found = decided(job, workloads=(a_workload(),), runs=(FAILED,), answers={PODS: Present((a_pod(),))})
    assert found.steps == (Delete(POD, Key(NS, "pod"), "p-pod", propagation="Background", grace_seconds=0),)
    assert found.retry and found.wake_at is None


# --- the end -------------------------------------------------------------------------------------------


def test_a_stopped_job_gives_its_quota_back_with_its_end() -> None:
    job = a_job("Stopping", status=ASKED, shutdown="Stop")
    found = decided(job, workloads=(a_workload(),), runs=(FAILED,))
    assert found.steps == (GONE,)
    assert written(found, "phase", "message", "stopRequestedAt") == ("Stopped", "Job stopped by user", None)
    assert condition_of(found, "WorkloadAdmitted") == ("False", "Stopped", "Job stopped by user")
    assert condition_of(found, "PipelineRunReady") == ("False", "Stopped", "Job stopped by user")
    (attempts,) = written(found, "attempts")
    assert attempts[-1]["outcome"] == "Stopped"


def test_a_job_that_is_stopped_before_it_ran_has_no_condition_of_a_run() -> None:
    found = decided(a_job("Pending", shutdown="Stop"), workloads=(a_workload(true("QuotaReserved")),))
    assert found.steps == (GONE,) and written(found, "phase") == ("Stopped",)
    assert found.status is not None
    assert [one["type"] for one in found.status["conditions"]] == ["WorkloadAdmitted"]


def test_a_lock_is_stopped_without_a_run() -> None:
    job = a_job("Admitted", shutdown="Stop", lockOnly=True, status={"attempts": None})
    found = decided(job, workloads=(a_workload(),))
    assert found.steps == (GONE,) and written(found, "phase") == ("Stopped",)
    assert found.status is not None
    assert [one["type"] for one in found.status["conditions"]] == ["WorkloadAdmitted"]


@pytest.mark.parametrize(
    "job",
    [
        a_job("Stopping", status=ASKED, shutdown="Stop"),
        a_job("Running", status=ASKED),
        a_job("Running", status=ASKED, suspend=True),
    ],
    ids=["stopped", "evicted", "suspended"],
)
def test_a_run_that_succeeds_in_spite_of_the_stop_counts(job: Obj) -> None:
    workload = a_workload() if job["spec"].get("shutdown") or job["spec"].get("suspend") else EVICTED
    found = decided(job, workloads=(workload,), runs=(SUCCEEDED,))
    message = "Pipeline completed successfully"
    assert written(found, "phase", "message") == ("Succeeded", message)
    assert condition_of(found, "PipelineRunReady") == ("True", "Succeeded", message)
    (attempts,) = written(found, "attempts")
    assert attempts[-1]["outcome"] == "Succeeded" and found.steps == (GONE,)


def test_a_deleted_job_lets_go_of_its_quota_and_its_finalizer() -> None:
    job = a_job("Running", meta={**GOING, "finalizers": ["fournos.dev/run"]}, status=ASKED)
    found = decided(job, workloads=(a_workload(),), runs=(SUCCEEDED,))
    assert found.status is None
    assert found.steps[0] == GONE
    last = found.steps[-1]
    assert isinstance(last, Patch) and last.body["metadata"]["finalizers"] in (None, [])


def test_an_evicted_job_returns_the_same_workload_to_the_queue() -> None:
    found = decided(a_job("Running", status=ASKED), workloads=(EVICTED,), runs=(FAILED,))
    text = "Evicted by Kueue (Preempted): make room"
    assert found.steps == (release_quota(EVICTED, NOW),)
    assert stopped(found) == ("Pending", f"{text}. Waiting to be admitted again", None, None)
    assert condition_of(found, "WorkloadAdmitted") == ("False", "Evicted", text)
    (attempts,) = written(found, "attempts")
    assert (attempts[-1]["outcome"], attempts[-1]["message"]) == ("Evicted", text)


def test_a_workload_whose_quota_is_released_is_not_released_again() -> None:
    released = a_workload(true("Evicted", "Preempted", "make room"))
    assert decided(a_job("Running", status=ASKED), workloads=(released,), runs=(FAILED,)).steps == ()


def test_a_job_that_lost_its_workload_is_queued_again() -> None:
    found = decided(a_job("Running", status=ASKED), runs=(FAILED,))
    text = "Its Workload was deleted, so its quota is gone"
    assert stopped(found) == ("Pending", f"{text}. Waiting to be admitted again", None, None)
    (attempts,) = written(found, "attempts")
    assert (attempts[-1]["outcome"], attempts[-1]["message"]) == ("Lost", text) and found.steps == ()


def test_a_suspended_job_leaves_the_queue() -> None:
    found = decided(a_job("Running", status=ASKED, suspend=True), workloads=(a_workload(),), runs=(FAILED,))
    text = "Suspended: set spec.suspend to false to queue the job"
    assert found.steps == (GONE,)
    assert stopped(found) == ("Pending", text, None, None)
    assert condition_of(found, "Suspended") == ("True", "Suspended", text)
    assert condition_of(found, "WorkloadAdmitted") == ("False", "Suspended", text)
    (attempts,) = written(found, "attempts")
    assert (attempts[-1]["outcome"], attempts[-1]["message"]) == ("Stopped", "Suspended by spec.suspend")
