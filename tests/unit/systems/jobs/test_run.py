"""The phases Admitted and Running, as tables: the launch, and how a run is cancelled."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest

from fournos.api.kinds import FOURNOS_JOB, PIPELINE_RUN
from fournos.engine.kube.resource import Key, Obj
from fournos.engine.queueing.kinds import WORKLOAD
from fournos.engine.runtime.decision import (
    Absent,
    Answer,
    CopySecret,
    Create,
    Decision,
    Delete,
    Patch,
    Present,
    SecretFacts,
    SecretShape,
    Step,
    StepFailure,
    Unknown,
)
from fournos.systems.jobs import names
from tests.unit.systems.jobs.actors import NS, SETTINGS
from tests.unit.systems.jobs.passes import (
    GOES_ON,
    KEY,
    NOW,
    PODS,
    READY,
    a_job,
    a_pod,
    a_run,
    a_workload,
    condition_of,
    decided,
    true,
    written,
)

SECRETS = SETTINGS.secrets_namespace
CREDS = SecretShape(Key(SECRETS, "vault-creds"))
FOUND = Present(SecretFacts("s1", frozenset(), {}, ("a", "b")))
UNREADY = a_workload(true("QuotaReserved"), true("Admitted"))
RUN = {"metadata": {"name": "job", "namespace": NS}}


def launched(*, answers: Any = None, **spec: Any) -> Decision:
    return decided(a_job("Admitted", **spec), workloads=(a_workload(),), answers=answers)


def sources(decision: Decision) -> list[Key]:
    return [step.source for step in decision.steps if isinstance(step, CopySecret)]


def failed(step: Step, error: str, message: str = "no", **job: Any) -> Decision:
    failure = StepFailure(step, error, message, transient=False, count=1)
    return decided(a_job("Admitted", **job), workloads=(a_workload(),), failure=failure)


# --- what is made, and in which order ------------------------------------------------------------------


def test_the_run_comes_after_all_that_it_needs() -> None:
    found = launched(secretRefs=["creds"], answers={CREDS: FOUND})
    assert sources(found) == [Key(SECRETS, "kubeconfig-cluster-1"), CREDS.key]
    copies = [step.metadata["name"] for step in found.steps if isinstance(step, CopySecret)]
    assert copies == ["job-kubeconfig", "job-vault-creds"]
    run = found.steps[-1]
    assert isinstance(run, Create) and (run.resource, run.body["metadata"]["name"]) == (PIPELINE_RUN, "job")
    assert run.body["metadata"]["annotations"][names.CLUSTER_ANNOTATION] == "cluster-1"
    assert run.body["metadata"]["labels"][names.ATTEMPT_LABEL] == "1"
    assert found.wake_at == NOW + timedelta(seconds=2) and found.settled


def test_copies_are_marked_by_what_they_are_of_and_only_of_what_lets_the_job_in() -> None:
    found = launched(secretRefs=["creds"], answers={CREDS: FOUND})
    kubeconfig, entry = (step for step in found.steps if isinstance(step, CopySecret))
    assert names.VAULT_ENTRY_LABEL not in kubeconfig.metadata["labels"]
    assert entry.metadata["labels"][names.VAULT_ENTRY_LABEL] == "true"
    for copy_of in (kubeconfig, entry):
        assert copy_of.refuses is not None
        assert copy_of.refuses("s", {"fournos.dev/allowed-namespaces": "other"})
        assert not copy_of.refuses("s", {}), "the policy is open"


def test_a_clusterless_job_gets_no_kubeconfig() -> None:
    found = decided(a_job("Admitted", cluster=None, clusterless=True))
    assert sources(found) == [] and isinstance(found.steps[-1], Create)


def marked(job: Obj) -> dict[str, Any]:
    """Returns the metadata that the first step writes to the job."""
    step = decided(job, workloads=(a_workload(),)).steps[0]
    assert isinstance(step, Patch) and (step.resource, step.key, step.subresource) == (FOURNOS_JOB, KEY, None)
    return dict(step.body["metadata"])


def test_the_finalizer_comes_first_and_only_to_the_version_that_was_seen() -> None:
    bare = {"finalizers": []}
    assert marked(a_job("Admitted", meta=bare, exclusive=False)) == {
        "resourceVersion": "7",
        "finalizers": [names.FINALIZER],
    }
    assert marked(a_job("Admitted", meta=bare, exclusive=True)) == {
        "resourceVersion": "7",
        "finalizers": [names.FINALIZER],
        "labels": {names.EXCLUSIVE_CLUSTER_LABEL: "cluster-1"},
    }


@pytest.mark.parametrize(
    ("labels", "spec", "expected"),
    [
        (None, {"exclusive": True}, "cluster-1"),
        ({names.EXCLUSIVE_CLUSTER_LABEL: "cluster-2"}, {"exclusive": True}, "cluster-1"),
        ({names.EXCLUSIVE_CLUSTER_LABEL: "cluster-1"}, {"exclusive": True}, None),
        (None, {"exclusive": False}, None),
        (None, {"lockOnly": True, "exclusive": False}, "cluster-1"),
    ],
    ids=["new", "another", "the same", "shared", "a lock"],
)
def test_a_job_is_labelled_with_the_cluster_that_it_holds_alone(
    labels: Any, spec: Any, expected: str | None
) -> None:
    found = decided(a_job("Admitted", meta={"labels": labels}, **spec), workloads=(a_workload(),))
    patches = [one for one in found.steps if isinstance(one, Patch) and one.resource == FOURNOS_JOB]
    written_labels = [one.body["metadata"].get("labels") for one in patches]
    assert written_labels == ([{names.EXCLUSIVE_CLUSTER_LABEL: expected}] if expected else [])


def test_a_lock_holds_its_cluster_without_a_run_and_without_a_finalizer() -> None:
    found = decided(a_job("Admitted", meta={"finalizers": []}, lockOnly=True), workloads=(UNREADY,))
    assert [(type(one), one.resource) for one in found.steps] == [(Patch, FOURNOS_JOB), (Patch, WORKLOAD)]  # type: ignore[union-attr]
    assert found.steps[1].body["spec"] == {"priority": 200}, "before it is ready"  # type: ignore[union-attr]
    mark = found.steps[0]
    assert isinstance(mark, Patch) and "finalizers" not in mark.body["metadata"]


def test_no_run_starts_beside_the_pods_of_one_that_is_gone() -> None:
    answers: dict[Any, Answer] = {PODS: Present((a_pod(),))}
    found = launched(answers=answers)
    assert found.steps == () and found.retry
    text = "The PipelineRun is gone, waiting for 1 pod(s) to end: pod"
    assert written(found, "phase", "message") == ("Admitted", text)
    free = decided(a_job("Admitted", meta={"finalizers": []}), workloads=(a_workload(),), answers=answers)
    assert isinstance(free.steps[-1], Create), "without the finalizer no run of the job was live"


# --- secrets -------------------------------------------------------------------------------------------


def test_a_secret_that_is_missing_fails_the_job() -> None:
    found = launched(secretRefs=["creds"], answers={CREDS: Absent()})
    text = f"Secret 'vault-creds' (ref 'creds') not found in namespace {SECRETS}"
    assert written(found, "phase", "message") == ("Failed", text)
    assert condition_of(found, "PipelineRunReady") == ("False", "SecretRefNotFound", text)
    assert found.steps == (Delete(WORKLOAD, KEY, "w-job"),)


def test_a_secret_that_cannot_be_read_is_waited_for() -> None:
    found = launched(secretRefs=["creds"], answers={CREDS: Unknown("forbidden")})
    text = "Waiting: cannot read Secret 'vault-creds': forbidden"
    assert written(found, "phase", "message") == ("Admitted", text)
    assert condition_of(found, "PipelineRunReady") == ("False", "SecretUnknown", text)
    assert found.steps == () and found.retry


# --- a step that fails ---------------------------------------------------------------------------------


def copy(source: str, *, entry: bool) -> CopySecret:
    labels = {names.VAULT_ENTRY_LABEL: "true"} if entry else {}
    return CopySecret(Key(SECRETS, source), {"labels": labels})


KUBECONFIG = copy("kubeconfig-cluster-1", entry=False)
ENTRY = copy("vault-creds", entry=True)
MISSING = f"not found in namespace {SECRETS}"


@pytest.mark.parametrize(
    ("step", "error", "reason", "message"),
    [
        (
            KUBECONFIG,
            "NotFoundError",
            "KubeconfigNotFound",
            f"Failed to copy kubeconfig: Secret 'kubeconfig-cluster-1' {MISSING}",
        ),
        (
            ENTRY,
            "NotFoundError",
            "SecretRefNotFound",
            f"Failed to copy secret: Secret 'vault-creds' {MISSING}",
        ),
        (ENTRY, "NotAllowed", "SecretNotAllowed", "Failed to copy secret: no"),
        (KUBECONFIG, "ForeignObject", "KubeconfigNotFound", "Failed to copy kubeconfig: no"),
        (Create(PIPELINE_RUN, RUN), "InvalidError", "CreateFailed", "Failed to create PipelineRun: no"),
    ],
    ids=["no kubeconfig", "no secret", "a secret of others", "a name of others", "an invalid run"],
)
def test_a_step_that_no_retry_can_mend_fails_the_job(
    step: Step, error: str, reason: str, message: str
) -> None:
    found = failed(step, error)
    assert written(found, "phase", "message") == ("Failed", message)
    assert condition_of(found, "PipelineRunReady") == ("False", reason, message)
    assert found.steps == (Delete(WORKLOAD, KEY, "w-job"),)
    (attempts,) = written(found, "attempts")
    assert (attempts[-1]["outcome"], attempts[-1]["message"]) == ("Failed", message)


@pytest.mark.parametrize(
    ("step", "error", "reason", "text"),
    [
        (Create(PIPELINE_RUN, RUN), "NoSuchResourceError", "TektonNotInstalled", "Tekton is not installed"),
        (Create(PIPELINE_RUN, RUN), "ForbiddenError", "Forbidden", "the operator may not do this: no"),
        (Patch(FOURNOS_JOB, KEY, {}), "InvalidError", "InvalidError", "no"),
    ],
    ids=["no Tekton", "no right", "a refused patch"],
)
def test_a_step_that_a_person_can_mend_is_waited_for(step: Step, error: str, reason: str, text: str) -> None:
    found = failed(step, error)
    assert written(found, "phase", "message") == ("Admitted", f"Waiting: {text}")
    assert condition_of(found, "PipelineRunReady") == ("False", reason, f"Waiting: {text}")
    assert found.steps == () and found.retry


def test_a_second_run_gives_way_to_a_foreign_one_and_the_first_does_not() -> None:
    """The first attempt has the job's own name, which is part of the interface of the engines."""
    usual, other = names.attempt_names("job", 2, "u1")
    entry = {"number": 2, "cluster": "cluster-1", "workload": usual, "pipelineRun": usual}
    second = {"attempt": 2, "attempts": [entry]}
    step = Create(PIPELINE_RUN, {"metadata": {"name": usual, "namespace": NS}})
    again = failed(step, "ForeignObject", status=second)
    (attempts,) = written(again, "attempts")
    assert attempts[-1]["pipelineRun"] == other and again.retry and again.steps == ()
    taken = {"attempt": 2, "attempts": [{**entry, "pipelineRun": other}]}
    assert written(failed(step, "ForeignObject", status=taken), "phase") == ("Failed",)
    assert written(failed(Create(PIPELINE_RUN, RUN), "ForeignObject"), "phase") == ("Failed",)


# --- a run that begins ---------------------------------------------------------------------------------


@pytest.mark.parametrize("phase", ["Admitted", "Running"])
def test_a_job_runs_with_the_first_condition_of_its_run(phase: str) -> None:
    found = decided(a_job(phase), workloads=(a_workload(),), runs=(a_run(age=0),))
    text = "Pipeline running: Tasks Completed: 1"
    assert written(found, "phase", "message", "pipelineRun") == ("Running", text, "job")
    assert condition_of(found, "PipelineRunReady") == ("Unknown", "Running", text)
    assert found.steps == () and found.wake_at is None


def test_a_run_without_a_condition_counts_as_begun_after_two_seconds() -> None:
    def of_age(age: float) -> Decision:
        run = {**a_run(age=age), "status": {}}
        return decided(a_job("Admitted"), workloads=(a_workload(),), runs=(run,))

    early = of_age(1)
    assert written(early, "phase") == ("Admitted",) and early.wake_at == NOW + timedelta(seconds=1)
    text = "PipelineRun created, waiting for execution"
    late = of_age(2)
    assert written(late, "phase", "message") == ("Running", text)
    assert condition_of(late, "PipelineRunReady") == ("Unknown", "Started", text)


def test_a_workload_is_reported_ready_once() -> None:
    unready = decided(a_job("Running"), workloads=(UNREADY,), runs=(a_run(),))
    (step,) = unready.steps
    assert isinstance(step, Patch) and (step.resource, step.subresource) == (WORKLOAD, "status")
    ready = a_workload(true("QuotaReserved"), true("Admitted"), READY)
    assert decided(a_job("Running"), workloads=(ready,), runs=(a_run(),)).steps == ()


def test_the_dashboard_of_the_run_is_linked() -> None:
    settings = SETTINGS.model_copy(update={"tekton_dashboard_url": "https://tekton.example.com"})
    found = decided(a_job("Running"), workloads=(a_workload(),), runs=(a_run(),), settings=settings)
    (url,) = written(found, "dashboardURL")
    assert url.startswith("https://tekton.example.com/") and "job" in url
    plain = decided(a_job("Running"), workloads=(a_workload(),), runs=(a_run(GOES_ON),))
    assert written(plain, "dashboardURL") == (None,)


# --- stops ---------------------------------------------------------------------------------------------
# A FournosJob that a user stops or suspends, or that its own spec ends.
