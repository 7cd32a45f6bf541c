"""The decision by phase, the status that it writes, and what it sees."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest

from fournos.api.fournosjob import FournosJobSpec, Outcome
from fournos.api.kinds import FOURNOS_JOB
from fournos.engine.kube.resource import Key, Obj, Resource, owner_reference
from fournos.engine.kube.store import Store
from fournos.engine.queueing.kinds import WORKLOAD
from fournos.engine.runtime.controller import Caches
from fournos.engine.runtime.decision import Create, Decision, EventRecord, Patch, Present, StepFailure
from fournos.systems.jobs.observe import Observer, watches
from fournos.systems.jobs.settings import JobSettings
from fournos.systems.jobs.status import StatusDraft
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

PARENT = owner_reference(
    Resource("workload.codeflare.dev", "v1beta2", "AppWrapper", "appwrappers"),
    {"metadata": {"name": "aw", "uid": "aw1"}},
)


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


# --- status --------------------------------------------------------------------------------------------
# The status draft of a FournosJob.

NOW = datetime(2026, 3, 1, tzinfo=UTC)


def draft(**status: Any) -> StatusDraft:
    meta = {"name": "job", "generation": 3}
    return StatusDraft({"metadata": meta, "spec": {"displayName": "Job"}, "status": status}, NOW)


def test_a_status_is_rendered_with_generation_and_display_name() -> None:
    found = draft(phase="Pending")
    assert found.render() == {"phase": "Pending", "observedGeneration": 3, "displayName": "Job"}
    found.put(phase=None)
    assert found.render() == {}, "the rendered fields are not part of the draft"


def test_it_is_read_by_types() -> None:
    found = draft(
        cluster="c",
        attempt=2,
        attempts=[{"number": 1, "outcome": "Failed"}, {"number": 2, "pipelineRun": "job-r2", "new": 1}],
        phaseTimes={"pending": "2026-01-01T00:00:00Z"},
        retryAt="2026-01-02T00:00:00Z",
        resolved={},
        conditions="spoiled",
    )
    assert (found.cluster, found.attempt, found.is_resolved) == ("c", 2, True)
    assert [one.outcome for one in found.attempts] == [Outcome.FAILED, None]
    assert (found.last_attempt.number, found.last_attempt.pipeline_run) == (2, "job-r2")
    assert found.phase_times.pending == datetime(2026, 1, 1, tzinfo=UTC)
    assert found.retry_at == datetime(2026, 1, 2, tzinfo=UTC)
    assert found.stop_requested_at is None


def test_an_empty_status_is_read_by_types_too() -> None:
    found = draft()
    assert (found.cluster, found.attempt, found.attempts, found.is_resolved) == ("", 0, (), False)
    assert found.last_attempt.number == 0 and found.phase_times.pending is None and found.retry_at is None


def test_the_start_of_running_is_written_once() -> None:
    found = draft(phaseTimes={"pending": "2026-01-01T00:00:00Z"})
    found.started_running(NOW).started_running(datetime(2027, 1, 1, tzinfo=UTC))
    times = {"pending": "2026-01-01T00:00:00Z", "running": "2026-03-01T00:00:00Z"}
    assert found.render()["phaseTimes"] == times


def test_the_start_of_an_earlier_attempt_is_not_that_of_a_short_run() -> None:
    before, second = "2026-01-01T00:00:00Z", {"number": 2, "startedAt": "2026-02-01T00:00:00Z"}
    found = draft(attempt=2, attempts=[second], phaseTimes={"running": before}).started_running(NOW)
    assert found.render()["phaseTimes"] == {"running": "2026-03-01T00:00:00Z"}


def test_an_outcome_stands() -> None:
    found = draft(attempt=1, attempts=[{"number": 1}]).end_attempt("Evicted").end_attempt("Failed", "late")
    assert found.last_attempt.outcome is Outcome.EVICTED and found.last_attempt.message is None


def test_failed_attempts_are_kept_whatever_is_evicted_after_them() -> None:
    """`spec.retry` counts them."""
    found = draft()
    for number in range(1, 31):
        found.begin_attempt(cluster="c", workload=None, run=f"job-{number}")
        found.end_attempt("Failed" if number == 2 else "Evicted")
    assert [each.number for each in found.attempts] == [2, *range(12, 31)]


def test_nothing_is_rendered_of_an_empty_status() -> None:
    assert draft().render() == {}


# --- observe -------------------------------------------------------------------------------------------
# What a pass reads of a job, and what of it is kept for the next pass.

SETTINGS = JobSettings(namespace="bench")
JOB = Key(SETTINGS.namespace, "a")


def caches(*jobs: dict[str, Any]) -> Caches:
    stores = {
        watch.resource: Store(project=watch.project, indexes=watch.indexes) for watch in watches(SETTINGS)
    }
    stores[FOURNOS_JOB].replace(jobs, "1")
    return Caches(stores)


def job(owner: str, *, uid: str = "1", generation: int = 1) -> dict[str, Any]:
    metadata = {"namespace": JOB.namespace, "name": JOB.name, "uid": uid, "resourceVersion": "1"}
    return {"metadata": {**metadata, "generation": generation}, "spec": {"owner": owner}}


def test_a_spec_is_parsed_once_for_each_generation_of_each_job(monkeypatch: pytest.MonkeyPatch) -> None:
    parsed: list[str] = []
    parse = FournosJobSpec.model_validate

    def counting(spec: dict[str, Any]) -> FournosJobSpec:
        parsed.append(spec["owner"])
        return parse(spec)

    monkeypatch.setattr(FournosJobSpec, "model_validate", counting)
    observe = Observer(SETTINGS)
    for found in (
        caches(job("ann")),
        caches(job("ann")),
        caches(job("bob", generation=2)),
        caches(job("cid", uid="2")),
        caches(),
        caches(job("cid", uid="2")),
    ):
        observe(found, JOB)
    assert parsed == ["ann", "bob", "cid", "cid"], "of a job that is gone nothing is kept"


def test_a_job_that_was_pending_is_known_until_it_is_gone() -> None:
    def queued_before(caches: Caches) -> bool | None:
        observed = observe(caches, JOB)
        return observed and observed.queued_before

    observe, new = Observer(SETTINGS), job("ann")
    queued, other = {**new, "status": {"phase": "Pending"}}, job("ann", uid="2")
    lives = [caches(new), caches(queued), caches(queued), caches(other), caches(), caches(queued)]
    assert [queued_before(each) for each in lives] == [False, False, True, False, None, False]
