"""Which policy a job gets, as tables: retried failures, specs that cannot be used, quota of other objects."""

from __future__ import annotations

from typing import Any

import pytest

from fournos.api.kinds import FOURNOS_JOB
from fournos.engine.kube.resource import Obj
from fournos.engine.queueing.workload import WORKLOAD
from fournos.engine.runtime.decision import Create, Decision, EventRecord, Patch, Present, StepFailure
from tests.unit.systems.jobs.passes import (
    KEY,
    OWN_WORKLOAD,
    a_job,
    a_run,
    a_workload,
    condition_of,
    decided,
    true,
    written,
)

MULTIKUEUE = "kueue.x-k8s.io/multikueue"
PATCH = Patch(FOURNOS_JOB, KEY, {})


def failing(
    count: int, error: str = "ServerError", *, transient: bool = True, message: str = "down"
) -> StepFailure:
    return StepFailure(PATCH, error, message, transient=transient, count=count)


# --- a step that fails for a time ----------------------------------------------------------------------


def test_a_failure_is_retried_silently_at_first_and_reported_once() -> None:
    job = a_job("Running")
    short = decided(job, failure=failing(2))
    assert short == Decision(retry=True)
    text = "Patch failed 3 times in a row, retrying: down"
    lasting = decided(job, failure=failing(3))
    assert condition_of(lasting, "Retrying") == ("True", "ServerError", text)
    assert lasting.events == (EventRecord("Warning", "ServerError", text),) and lasting.retry
    assert written(lasting, "phase") == ("Running",) and lasting.steps == ()


def retrying(reason: str, **job: Any) -> Obj:
    return a_job("Running", status={"conditions": [true("Retrying", reason, "before")]}, **job)


def test_the_same_failure_is_not_reported_again_and_another_one_is() -> None:
    same = decided(retrying("ServerError"), failure=failing(9))
    assert same.events == () and condition_of(same, "Retrying")[2] == "before"
    other = decided(retrying("ConnectionLostError"), failure=failing(9))
    assert [one.reason for one in other.events] == ["ServerError"]


def test_a_webhook_of_kueue_that_cannot_read_the_kind_is_named() -> None:
    message = "failed calling webhook mworkload.kb.io of kueue-webhook-service"
    (event,) = decided(a_job("Pending"), failure=failing(3, message=message)).events
    assert "Kueue needs the right to read fournosjobs" in event.message


# --- a spec that cannot be used ------------------------------------------------------------------------


def test_a_new_job_that_breaks_rules_fails_with_all_of_them() -> None:
    found = decided(a_job("", lockOnly=True, cluster=None, exclusive=False, status={"resolved": None}))
    text = (
        "lockOnly: true needs the cluster to lock: write cluster: <name>; "
        "lockOnly: true always locks the whole cluster: leave exclusive out or write exclusive: true"
    )
    assert written(found, "phase", "message") == ("Failed", text)
    assert condition_of(found, "Resolved") == ("False", "Invalid", text)


def test_a_spec_that_cannot_be_read_fails_a_new_job_and_makes_another_wait() -> None:
    text = "The spec cannot be read: spec.ttl is no time"
    new = decided(a_job("", status={"resolved": None}), problem="spec.ttl is no time")
    assert written(new, "phase", "message") == ("Failed", text)
    assert condition_of(new, "Resolved") == ("False", "Invalid", text)
    running = decided(
        a_job("Running"), problem="spec.ttl is no time", workloads=(a_workload(),), runs=(a_run(),)
    )
    assert written(running, "phase", "message") == ("Running", text)
    assert condition_of(running, "Resolved") == ("False", "Invalid", text)
    assert running.retry and running.steps == ()


def test_a_pending_job_that_was_never_resolved_begins() -> None:
    """It was suspended at creation: its rules have not been checked."""
    found = decided(a_job("Pending", lockOnly=True, cluster=None, status={"resolved": None}))
    assert written(found, "phase") == ("Failed",)


# --- jobs of other controllers and clusters ------------------------------------------------------------


@pytest.mark.parametrize("ours", [None, "", "fournos.dev/fournos"])
def test_a_job_is_ours_unless_it_names_another_controller(ours: str | None) -> None:
    job = a_job("Running", managedBy=ours)
    assert decided(job, workloads=(a_workload(),), runs=(a_run(),)).status is not None
    foreign = a_job("Running", managedBy="example.com/other", shutdown="Stop", meta={"finalizers": []})
    assert decided(foreign, workloads=(a_workload(),)) == Decision()


def test_a_failed_step_for_a_job_of_a_worker_is_retried() -> None:
    job = a_job("", managedBy=MULTIKUEUE)
    assert decided(job, failure=failing(1)) == Decision(retry=True)
    assert decided(job, failure=failing(1, "InvalidError", transient=False)) == Decision(retry=True)


@pytest.mark.parametrize("spec", [{"suspend": True}, {"shutdown": "Stop"}], ids=["suspended", "stopped"])
def test_a_job_of_a_worker_that_must_not_start_gets_no_workload(spec: Any) -> None:
    job = a_job("", managedBy=MULTIKUEUE, **spec)
    assert decided(job) == Decision()


def test_a_job_of_a_worker_gets_its_workload_and_nothing_else() -> None:
    found = decided(a_job("", managedBy=MULTIKUEUE))
    assert [(type(one), one.resource) for one in found.steps] == [(Create, WORKLOAD)]  # type: ignore[union-attr]
    assert found.status is None
    gone = decided(a_job("", managedBy=MULTIKUEUE, meta={"deletionTimestamp": "2030-01-01T12:00:00Z"}))
    assert gone == Decision(), "Kubernetes deletes the Workload with its owner"


def test_a_job_without_quota_cannot_be_dispatched() -> None:
    found = decided(a_job("", cluster=None, clusterless=True, managedBy=MULTIKUEUE))
    (event,) = found.events
    assert (event.type, event.reason) == ("Warning", "CannotDispatch")
    assert event.message.startswith("a job without quota (clusterless) has no Workload to dispatch")
    assert found.steps == ()


# --- quota of another object's Workload ----------------------------------------------------------------

PARENT = {
    "apiVersion": "workload.codeflare.dev/v1beta2",
    "kind": "AppWrapper",
    "name": "aw",
    "uid": "aw1",
    "controller": True,
}


def test_a_workload_of_another_owner_is_no_quota() -> None:
    entry = {"number": 1, "cluster": "cluster-1", "workload": "appwrapper-aw", "pipelineRun": "job"}
    job = a_job("Running", meta={"ownerReferences": [PARENT]}, status={"attempts": [entry]})
    live = type(OWN_WORKLOAD)(WORKLOAD, KEY._replace(name="appwrapper-aw"))
    theirs = a_workload(name="appwrapper-aw")
    theirs = {**theirs, "metadata": {**theirs["metadata"], "ownerReferences": [PARENT]}}
    found = decided(job, runs=(a_run(),), answers={live: Present(theirs)})
    assert [one.message for one in found.events] == ["Workload 'appwrapper-aw' is not its own"]
    assert written(found, "stopRequestedAt") == ("2030-01-01T12:00:00Z",)


def test_a_workload_that_is_not_on_record_has_the_name_of_its_attempt() -> None:
    entry = {"number": 2, "cluster": "cluster-1", "pipelineRun": "job-r2"}
    job = a_job("Running", status={"attempt": 2, "attempts": [entry]})
    live = type(OWN_WORKLOAD)(WORKLOAD, KEY._replace(name="job-r2"))
    run = a_run(name="job-r2")
    found = decided(job, runs=(run,), answers={live: Present(a_workload(name="job-r2"))})
    assert found.events == () and written(found, "phase") == ("Running",)


def test_a_resolved_pending_job_does_not_begin_again() -> None:
    found = decided(a_job("Pending", lockOnly=True, cluster=None), workloads=())
    assert written(found, "phase") != ("Failed",)
