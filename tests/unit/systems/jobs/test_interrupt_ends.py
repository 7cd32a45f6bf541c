"""The end of an interruption, as tables: until when quota stays, and what is written then."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest

from fournos.engine.kube.resource import POD, Key, Obj
from fournos.engine.queueing.report import release_quota
from fournos.engine.runtime.decision import Decision, Delete, Patch, Present, Unknown
from tests.unit.systems.jobs.actors import NS, SETTINGS
from tests.unit.systems.jobs.interruptions import ASKED, EVICTED, stopped
from tests.unit.systems.jobs.passes import (
    FAILED,
    GOING,
    GONE,
    NOW,
    PODS,
    RUN,
    SUCCEEDED,
    a_job,
    a_pod,
    a_run,
    a_workload,
    ago,
    condition_of,
    decided,
    true,
    written,
)

# --- quota stays while anything of the run is left -----------------------------------------------------


@pytest.mark.parametrize(
    ("answer", "message"),
    [
        (Present(a_run()), "waiting to see the PipelineRun"),
        (Unknown("timeout"), "waiting to see the PipelineRun"),
    ],
    ids=["there", "unknown"],
)
def test_a_run_that_only_the_cache_misses_is_waited_for(answer: Any, message: str) -> None:
    job = a_job("Stopping", status=ASKED, shutdown="Stop")
    found = decided(job, workloads=(a_workload(),), answers={RUN: answer})
    assert found.steps == () and found.retry
    assert written(found, "message") == (f"Stopping, waiting for cleanup: {message}",)


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
