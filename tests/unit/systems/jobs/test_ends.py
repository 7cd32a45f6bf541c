"""The end of a job or an attempt, as tables: what is given back, what is tried again, when the job goes."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest

from fournos.api.kinds import FOURNOS_JOB, PIPELINE_RUN
from fournos.engine.kube.resource import JOB, POD, SECRET, Key, Obj
from fournos.engine.queueing.workload import WORKLOAD
from fournos.engine.runtime.decision import (
    Absent,
    Answer,
    Delete,
    EventRecord,
    LiveGet,
    Patch,
    Present,
    Question,
    SecretFacts,
    SecretShape,
    Step,
    Unknown,
)
from fournos.systems.jobs import names
from tests.unit.systems.jobs.actors import NS, SETTINGS
from tests.unit.systems.jobs.passes import (
    FAILED,
    GONE,
    KEY,
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
    written,
)

# --- a run that ends -----------------------------------------------------------------------------------


def test_a_run_that_succeeds_ends_the_job_and_gives_its_quota_back() -> None:
    found = decided(a_job("Running"), workloads=(a_workload(),), runs=(SUCCEEDED,))
    assert found.steps == (GONE,)
    text = "Pipeline completed successfully"
    assert written(found, "phase", "message", "pipelineRun") == ("Succeeded", text, "job")
    assert condition_of(found, "PipelineRunReady") == ("True", "Succeeded", "Tasks Completed: 3")
    assert found.events == (EventRecord("Normal", "Succeeded", text),)
    times, attempts = written(found, "phaseTimes", "attempts")
    assert times == {"running": ago(300), "finished": ago(0)}
    assert (attempts[-1]["outcome"], attempts[-1]["finishedAt"]) == ("Succeeded", ago(0))


def test_the_time_at_which_running_was_seen_is_kept() -> None:
    job = a_job("Running", status={"phaseTimes": {"running": ago(299)}})
    found = decided(job, workloads=(a_workload(),), runs=(SUCCEEDED,))
    assert written(found, "phaseTimes") == ({"running": ago(299), "finished": ago(0)},)


def test_a_run_that_succeeds_without_a_message_gets_ours() -> None:
    silent = {**SUCCEEDED, "status": {"conditions": [{"type": "Succeeded", "status": "True"}]}}
    found = decided(a_job("Running"), workloads=(a_workload(),), runs=(silent,))
    assert condition_of(found, "PipelineRunReady")[2] == "Pipeline completed successfully"


def test_a_run_that_fails_ends_the_job_with_its_message() -> None:
    found = decided(a_job("Running"), workloads=(a_workload(),), runs=(FAILED,))
    assert found.steps == (GONE,)
    assert written(found, "phase", "message") == ("Failed", "exit code 1")
    assert condition_of(found, "PipelineRunReady") == ("False", "Failed", "exit code 1")
    assert found.events == (EventRecord("Warning", "Failed", "exit code 1"),)
    (attempts,) = written(found, "attempts")
    assert (attempts[-1]["outcome"], attempts[-1]["message"]) == ("Failed", "exit code 1")


def test_a_run_that_fails_without_a_message_gets_ours() -> None:
    silent = a_run({"type": "Succeeded", "status": "False"}, completionTime=ago(5))
    assert written(decided(a_job("Running"), runs=(silent,), workloads=(a_workload(),)), "message") == (
        "PipelineRun failed",
    )


def test_a_failed_run_has_ended_only_with_its_completion_time() -> None:
    """Until then Tekton is still stopping what it has started."""
    ending = a_run({"type": "Succeeded", "status": "False", "message": "exit code 1"})
    found = decided(a_job("Running"), workloads=(a_workload(),), runs=(ending,))
    assert found.steps == () and written(found, "phase") == ("Running",)


def test_a_failed_run_keeps_its_quota_until_its_pods_have_ended() -> None:
    def after(seconds: float) -> Any:
        run = a_run({"type": "Succeeded", "status": "False"}, completionTime=ago(seconds))
        answers: dict[Any, Answer] = {PODS: Present((a_pod(),))}
        return decided(a_job("Running"), workloads=(a_workload(),), runs=(run,), answers=answers)

    waits = after(SETTINGS.terminate_grace_sec - 1)
    assert waits.steps == () and waits.retry and waits.wake_at == NOW + timedelta(seconds=1)
    text = "PipelineRun failed, waiting for 1 pod(s) to end: pod"
    assert written(waits, "phase", "message") == ("Running", text)
    forced = after(SETTINGS.terminate_grace_sec)
    assert [(type(one), one.resource) for one in forced.steps] == [(Delete, POD)] and forced.retry


# --- a run that is gone --------------------------------------------------------------------------------


def test_a_run_that_is_gone_fails_the_attempt() -> None:
    found = decided(a_job("Running"), workloads=(a_workload(),))
    assert found.steps == (GONE,)
    assert written(found, "phase") == ("Failed",)
    assert condition_of(found, "PipelineRunReady") == ("False", "NotFound", "PipelineRun not found")
    assert written(found, "message") == ("PipelineRun not found",)


@pytest.mark.parametrize(
    ("answer", "message"),
    [
        (Unknown("timeout"), "Waiting: cannot read the PipelineRun"),
        (Absent(no_kind=True), "Waiting: cannot read the PipelineRun"),
    ],
    ids=["unknown", "no kind"],
)
def test_a_run_that_cannot_be_read_is_not_gone(answer: Answer, message: str) -> None:
    found = decided(a_job("Running"), workloads=(a_workload(),), answers={RUN: answer})
    assert found.steps == () and found.retry
    assert written(found, "phase", "message") == ("Running", message)
    assert condition_of(found, "PipelineRunReady") == ("False", "PipelineRunUnknown", message)


def test_a_run_that_only_the_cache_misses_changes_nothing() -> None:
    found = decided(a_job("Running"), workloads=(a_workload(),), answers={RUN: Present(a_run())})
    assert found.steps == () and found.retry and found.status is None


def test_the_pods_of_a_run_that_is_gone_hold_the_quota() -> None:
    answers: dict[Any, Answer] = {PODS: Present((a_pod(),))}
    found = decided(a_job("Running"), workloads=(a_workload(),), answers=answers)
    assert found.steps == () and found.retry
    text = "PipelineRun not found, waiting for 1 pod(s) to end: pod"
    assert written(found, "phase", "message") == ("Running", text)


# --- another attempt -----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("earlier", "retry", "delay"),
    [
        ([], {"limit": 1}, SETTINGS.retry_backoff_sec),
        ([], {"limit": 1, "backoff": "1m"}, 60),
        (["Failed"], {"limit": 2, "backoff": "1m"}, 120),
        (["Failed", "Failed"], {"limit": 3, "backoff": "1m"}, 240),
        (["Evicted", "Failed", "Lost"], {"limit": 2, "backoff": "1m"}, 120),
        (["Failed"], {"limit": 1}, None),
        ([], {"limit": 0}, None),
        ([], None, None),
    ],
    ids=["default", "its own", "second", "third", "evictions", "no more", "none allowed", "none asked"],
)
def test_a_failed_attempt_is_tried_again_after_a_time_that_doubles(
    earlier: list[str], retry: Any, delay: float | None
) -> None:
    entries = [{"number": number, "outcome": outcome} for number, outcome in enumerate(earlier, 1)]
    number = len(earlier) + 1
    name = names.attempt_name("job", number)
    last = {"number": number, "cluster": "cluster-1", "workload": name, "pipelineRun": name}
    status = {"attempt": number, "attempts": [*entries, last]}
    job = a_job("Running", status=status, retry=retry)
    run = {**FAILED, "metadata": {**FAILED["metadata"], "name": name}}
    pods: dict[Any, Answer] = {PODS: Absent()}
    pods |= {type(PODS)(POD, NS, f"tekton.dev/pipelineRun={name}"): Absent()}
    found = decided(job, workloads=(a_workload(name=name),), runs=(run,), answers=pods)
    assert found.steps == (Delete(WORKLOAD, Key(NS, name), f"w-{name}"),)
    if delay is None:
        assert written(found, "phase", "retryAt") == ("Failed", None) and found.wake_at is None
        return
    at = NOW + timedelta(seconds=delay)
    limit, failed = retry["limit"], 1 + earlier.count("Failed")
    shown = at.strftime("%Y-%m-%dT%H:%M:%SZ")
    text = f"Attempt {number} failed: exit code 1. Retry {failed} of {limit} at {shown}"
    assert written(found, "phase", "message", "retryAt", "cluster") == ("Pending", text, shown, None)
    assert found.wake_at == at and found.events == (EventRecord("Warning", "Retrying", text),)


def test_a_job_of_a_manager_cluster_is_tried_again_there() -> None:
    """Its only Workload is the manager's, which is finished after the job, and never deleted here."""
    job = a_job(
        "Running", meta={"labels": {"kueue.x-k8s.io/prebuilt-workload-name": "job"}}, retry={"limit": 3}
    )
    gone: dict[Question, Answer] = {LiveGet(PIPELINE_RUN, Key(NS, "job")): Absent()}
    found = decided(job, workloads=(a_workload(),), runs=(FAILED,), prebuilt=a_workload(), answers=gone)
    assert found.steps == () and written(found, "phase") == ("Failed",)


# --- what goes with the run ----------------------------------------------------------------------------

KEPT_FOR_THE_RUN = SETTINGS.model_copy(update={"secrets_kept": "run"})


def copied(name: str, owner: str = "u1") -> tuple[SecretShape, Answer]:
    key = Key(NS, name)
    return SecretShape(key), Present(SecretFacts(f"s-{name}", frozenset({owner}), {}, ()))


@pytest.mark.parametrize(
    ("spec", "answers", "expected"),
    [
        (
            {"secretRefs": ["creds"]},
            [copied("job-vault-creds"), copied("job-kubeconfig")],
            ["job-vault-creds", "job-kubeconfig"],
        ),
        ({"secretRefs": ["creds"]}, [copied("job-vault-creds", "u0"), copied("job-kubeconfig", "u0")], []),
        ({}, [(SecretShape(Key(NS, "job-kubeconfig")), Absent())], []),
        ({}, [(SecretShape(Key(NS, "job-kubeconfig")), Unknown("timeout"))], []),
    ],
    ids=["ours", "of another owner", "gone", "unknown"],
)
def test_copies_of_secrets_go_with_the_run_if_they_are_ours(
    spec: Any, answers: list[tuple[Any, Answer]], expected: list[str]
) -> None:
    found = decided(
        a_job("Running", **spec),
        workloads=(a_workload(),),
        runs=(SUCCEEDED,),
        answers=dict(answers),
        settings=KEPT_FOR_THE_RUN,
    )
    copies = tuple(Delete(SECRET, Key(NS, name), f"s-{name}") for name in expected)
    assert found.steps == (GONE, *copies)


def test_a_clusterless_job_has_no_copy_of_a_kubeconfig() -> None:
    job = a_job("Running", cluster=None, clusterless=True)
    found = decided(job, runs=(SUCCEEDED,), settings=KEPT_FOR_THE_RUN)
    assert found.steps == () and written(found, "phase") == ("Succeeded",)


# --- after the end -------------------------------------------------------------------------------------


def ended(finished: float = 60, *, meta: Any = None, **spec: Any) -> Obj:
    status = {"phaseTimes": {"finished": ago(finished)}, "attempt": 1}
    return a_job("Succeeded", meta=meta, status=status, **spec)


def resolve_job(*conditions: str) -> Obj:
    found = [{"type": one, "status": "True"} for one in conditions]
    meta = {"name": "job-resolve", "namespace": NS, "uid": "res"}
    return {"metadata": meta, "status": {"conditions": found}}


@pytest.mark.parametrize(
    ("workloads", "resolve_jobs", "expected"),
    [
        ((), (), ()),
        (
            (a_workload(), a_workload(name="job-r2")),
            (),
            (GONE, Delete(WORKLOAD, Key(NS, "job-r2"), "w-job-r2")),
        ),
        ((), (resolve_job(),), (Delete(JOB, Key(NS, "job-resolve"), "res"),)),
        ((), (resolve_job("Complete"),), ()),
        ((), (resolve_job("Failed"),), ()),
    ],
    ids=["nothing", "Workloads", "a resolve Job", "a complete one", "a failed one"],
)
def test_what_an_ended_job_leaves_behind_goes(
    workloads: tuple[Obj, ...], resolve_jobs: tuple[Obj, ...], expected: tuple[Step, ...]
) -> None:
    found = decided(ended(), workloads=workloads, resolve_jobs=resolve_jobs)
    assert found.steps == expected and found.status is None
    assert found.settled is bool(expected), "the deletions are events"


def test_after_its_end_a_job_runs_again_for_what_has_no_event() -> None:
    past = decided(ended(24 * 3600, ttl="1d"), workloads=(a_workload(),))
    assert not past.settled, "its own deletion comes next"
    waits = [{"type": names.RERUNS_CREATED, "status": "Unknown", "reason": "Pending"}]
    status = {"phaseTimes": {"finished": ago(60)}, "attempt": 1, "conditions": waits}
    assert not decided(a_job("Succeeded", status=status), workloads=(a_workload(),)).settled


def test_the_finalizer_goes_after_the_end() -> None:
    (step,) = decided(ended(meta={"finalizers": [names.FINALIZER, "other"]})).steps
    assert isinstance(step, Patch) and (step.resource, step.key) == (FOURNOS_JOB, KEY)
    assert step.body["metadata"]["finalizers"] == ["other"]


def test_a_finished_job_goes_after_its_time_to_live() -> None:
    day = 24 * 3600
    waits = decided(ended(day - 1, ttl="1d"))
    assert waits.steps == () and waits.wake_at == NOW + timedelta(seconds=1)
    due = decided(ended(day, ttl="1d"))
    assert due.steps == (Delete(FOURNOS_JOB, KEY, "u1"),) and due.wake_at is None
    forever = decided(ended(day))
    assert forever.steps == () and forever.wake_at is None


def test_a_job_goes_after_all_that_it_has_left_behind() -> None:
    found = decided(ended(24 * 3600, ttl="1d"), workloads=(a_workload(),))
    assert found.steps == (GONE,) and found.wake_at is None
    early = decided(ended(60, ttl="2m"), workloads=(a_workload(),))
    assert early.steps == (GONE,) and early.wake_at == NOW + timedelta(seconds=60)


def test_the_workload_of_a_manager_is_finished_after_the_job_and_not_deleted() -> None:
    labels = {"kueue.x-k8s.io/prebuilt-workload-name": "job"}
    job = {**ended(meta={"labels": labels})}
    (step,) = decided(job, workloads=(a_workload(),), prebuilt=a_workload()).steps
    assert isinstance(step, Patch) and (step.resource, step.subresource) == (WORKLOAD, "status")
    assert [one["type"] for one in step.body["status"]["conditions"]][-1] == "Finished"


def test_a_run_of_another_attempt_ends_nothing() -> None:
    stale = {**SUCCEEDED, "metadata": {**SUCCEEDED["metadata"], "name": "job-r2"}}
    found = decided(a_job("Running"), workloads=(a_workload(),), runs=(stale, a_run()))
    assert found.steps == () and written(found, "phase") == ("Running",)
