"""Resolving, as tables: what it begins with, what its Job lacks, how its result is checked."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest

from fournos.api.kinds import PIPELINE
from fournos.engine.kube.resource import JOB, POD, SERVICE_ACCOUNT, Key, Obj
from fournos.engine.queueing.kinds import CLUSTER_QUEUE, RESOURCE_FLAVOR, WORKLOAD
from fournos.engine.runtime.decision import (
    Absent,
    Answer,
    Create,
    Decision,
    LiveGet,
    LiveList,
    LogTail,
    Present,
    SecretFacts,
    SecretShape,
    StepFailure,
    Unknown,
)
from fournos.systems.jobs.resolve import LOG_LINES
from tests.unit.systems.jobs.actors import NS, SETTINGS
from tests.unit.systems.jobs.passes import NOW, a_job, ago, condition_of, decided, written

ENGINE = {"executionEngine": {"forge": {}}}
FLAVOR = LiveGet(RESOURCE_FLAVOR, Key("", "cluster-1"))
PIPELINE_READ = LiveGet(PIPELINE, Key(NS, "fournos-full"))
PODS_OF_IT = LiveList(POD, NS, "batch.kubernetes.io/controller-uid=res")
LOG = LogTail(NS, "batch.kubernetes.io/controller-uid=res", LOG_LINES)
QUEUES = LiveList(CLUSTER_QUEUE)
DOING = "Resolving job requirements"
WAITS = "Waiting for the resolve Job to complete"
FULL, CREDENTIALS = "Pipeline 'fournos-full'", "Secret 'vault-creds'"


def annotated(image: str | None) -> Obj:
    notes = {"fournos.dev/resolve-image": image} if image else {}
    return {"metadata": {"name": "fournos-full", "namespace": NS, "annotations": notes}}


def resolver(*conditions: tuple[str, str], age: float = 0, name: str = "job-resolve") -> Obj:
    found = [{"type": type_, "status": "True", "message": message} for type_, message in conditions]
    meta = {"name": name, "namespace": NS, "uid": "res", "creationTimestamp": ago(age)}
    return {"metadata": meta, "status": {"conditions": found}}


def new(*, answers: Any = None, flavors: Any = (), **spec: Any) -> Decision:
    job = a_job("", status={"resolved": None}, **{**ENGINE, **spec})
    return decided(job, answers=answers, flavors=frozenset(flavors))


def resolving(*jobs: Obj, answers: Any = None, status: Any = None, **changes: Any) -> Decision:
    known = {"failure", "pipeline", "gpu_resources", "settings"}
    observed = {name: value for name, value in changes.items() if name in known}
    spec = {name: value for name, value in changes.items() if name not in known}
    job = a_job("Resolving", status={"resolved": None, **(status or {})}, **{**ENGINE, **spec})
    observed.setdefault("pipeline", annotated("engine:1"))
    return decided(job, answers=answers, resolve_jobs=jobs, **observed)


# --- the beginning -------------------------------------------------------------------------------------


def test_a_new_job_is_claimed_before_anything_is_made() -> None:
    found = new(flavors=["cluster-1"])
    assert found.steps == () and written(found, "phase", "message") == ("Resolving", DOING)
    assert condition_of(found, "Resolved") == ("False", "Resolving", WAITS)


def test_a_job_that_is_suspended_at_creation_waits() -> None:
    found = new(suspend=True)
    text = "Suspended: set spec.suspend to false to start the job"
    assert found.steps == () and written(found, "phase", "message") == ("Pending", text)
    assert condition_of(found, "Suspended") == ("True", "Suspended", text)


def test_a_lock_is_queued_without_a_resolver() -> None:
    found = new(flavors=["cluster-1"], lockOnly=True)
    (step,) = found.steps
    assert isinstance(step, Create) and step.resource == WORKLOAD
    expected = ("Pending", "Cluster lock pending admission", {})
    assert written(found, "phase", "message", "resolved") == expected


@pytest.mark.parametrize(
    ("answer", "phase", "message"),
    [
        (Absent(), "Failed", "Cluster 'cluster-1' not found"),
        (Absent(no_kind=True), "Resolving", DOING),
        (Present({}), "Resolving", DOING),
        (Unknown("timeout"), "Pending", "Cannot look up clusters: timeout"),
    ],
    ids=["missing", "no Kueue", "only the cache misses it", "unknown"],
)
def test_a_cluster_is_missing_only_by_a_live_read(answer: Answer, phase: str, message: str) -> None:
    found = new(answers={FLAVOR: answer})
    assert written(found, "phase", "message") == (phase, message)
    reasons = {"Failed": "ClusterNotFound", "Pending": "ClusterUnknown"}
    assert condition_of(found, "Resolved")[1] == reasons.get(phase, "Resolving")


# --- its Job -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("cached", [annotated("engine:1"), None, annotated(None)])
def test_a_job_gets_a_resolver_with_the_image_of_its_pipeline(cached: Obj | None) -> None:
    found = resolving(pipeline=cached, answers={PIPELINE_READ: Present(annotated("engine:1"))})
    (step,) = found.steps
    assert isinstance(step, Create) and (step.resource, step.body["metadata"]["name"]) == (JOB, "job-resolve")
    (container,) = step.body["spec"]["template"]["spec"]["containers"]
    assert container["image"] == "engine:1"
    assert found.wake_at == NOW + timedelta(seconds=30) and found.settled


@pytest.mark.parametrize(
    ("answer", "phase", "reason", "message"),
    [
        (Absent(), "Failed", "PipelineNotFound", f"Failed to fetch {FULL}: Not Found"),
        (
            Absent(no_kind=True),
            "Resolving",
            "TektonNotInstalled",
            "Waiting: Tekton Pipelines is not installed",
        ),
        (Unknown("timeout"), "Resolving", "PipelineUnknown", f"Waiting: cannot read {FULL}: timeout"),
        (
            Present(annotated(None)),
            "Failed",
            "MissingResolveImage",
            f"{FULL} is missing the 'fournos.dev/resolve-image' annotation",
        ),
    ],
    ids=["missing", "no Tekton", "unknown", "no image"],
)
def test_a_pipeline_that_cannot_be_used(answer: Answer, phase: str, reason: str, message: str) -> None:
    found = resolving(pipeline=None, answers={PIPELINE_READ: answer})
    assert written(found, "phase", "message") == (phase, message)
    assert condition_of(found, "Resolved") == ("False", reason, message)
    assert found.steps == () and found.retry is (phase != "Failed")


@pytest.mark.parametrize(
    ("error", "phase", "reason", "message"),
    [
        ("InvalidError", "Failed", "CreateFailed", "Failed to create resolve Job: no"),
        ("ForbiddenError", "Resolving", "Forbidden", "Waiting: the operator may not do this: no"),
    ],
)
def test_a_resolver_that_cannot_be_made(error: str, phase: str, reason: str, message: str) -> None:
    step = Create(JOB, {"metadata": {"name": "job-resolve", "namespace": NS}})
    found = resolving(failure=StepFailure(step, error, "no", transient=False, count=1))
    assert written(found, "phase", "message") == (phase, message)
    assert condition_of(found, "Resolved") == ("False", reason, message)


def test_another_job_is_not_its_resolver() -> None:
    (step,) = resolving(resolver(("Failed", "other"), name="other")).steps
    assert isinstance(step, Create)


# --- while it runs -------------------------------------------------------------------------------------


def pod(reason: str, message: str | None = "denied") -> Obj:
    waiting = {"reason": reason, **({"message": message} if message else {})}
    return {"status": {"containerStatuses": [{"image": "engine:1", "state": {"waiting": waiting}}]}}


def test_the_pod_of_a_slow_resolver_is_read_every_half_minute() -> None:
    early = resolving(resolver(age=29))
    assert early.steps == () and early.wake_at == NOW + timedelta(seconds=1)
    slow = resolving(resolver(age=30), answers={PODS_OF_IT: Present((pod("ContainerCreating"),))})
    assert slow.wake_at == NOW + timedelta(seconds=30) and slow.events == ()


def test_an_image_that_cannot_be_pulled_is_reported_once() -> None:
    answers: dict[Any, Answer] = {PODS_OF_IT: Present((pod("Running"), pod("ErrImagePull")))}
    found = resolving(resolver(age=60), answers=answers)
    text = "Waiting: the resolver's image 'engine:1' cannot be pulled (ErrImagePull): denied"
    assert written(found, "phase", "message") == ("Resolving", text)
    assert condition_of(found, "Resolved") == ("False", "ErrImagePull", text)
    assert [(one.type, one.reason, one.message) for one in found.events] == [
        ("Warning", "ErrImagePull", text)
    ]
    known = [{"type": "Resolved", "status": "False", "reason": "ErrImagePull", "message": text}]
    again = resolving(resolver(age=90), answers=answers, status={"conditions": known, "message": text})
    assert again.events == () and written(again, "message") == (text,)


def test_an_image_without_an_explanation() -> None:
    answers: dict[Any, Answer] = {PODS_OF_IT: Present((pod("ImagePullBackOff", None),))}
    (message,) = written(resolving(resolver(age=60), answers=answers), "message")
    assert message.endswith("(ImagePullBackOff): no reason given")


@pytest.mark.parametrize(
    ("answer", "goes_on"),
    [(Present((pod("ContainerCreating"),)), True), (Present(()), False), (Unknown("timeout"), False)],
    ids=["a pod without the problem", "no pod", "unknown"],
)
def test_a_reported_image_is_taken_back_only_when_a_pod_has_it(answer: Answer, goes_on: bool) -> None:
    known = [{"type": "Resolved", "status": "False", "reason": "ErrImagePull", "message": "before"}]
    status = {"conditions": known, "message": "before"}
    found = resolving(resolver(age=60), answers={PODS_OF_IT: answer}, status=status)
    assert written(found, "message") == (DOING if goes_on else "before",)
    expected = ("False", "Resolving", WAITS) if goes_on else ("False", "ErrImagePull", "before")
    assert condition_of(found, "Resolved") == expected


ACCOUNT = LiveGet(SERVICE_ACCOUNT, Key(NS, "default"))
NO_POD: dict[Any, Answer] = {PODS_OF_IT: Present(()), ACCOUNT: Absent()}


def test_a_service_account_that_does_not_exist_is_reported_once() -> None:
    found = resolving(resolver(age=60), answers=NO_POD)
    text = f"Waiting: the resolver gets no pod: ServiceAccount 'default' does not exist in namespace {NS}"
    assert condition_of(found, "Resolved") == ("False", "ServiceAccountNotFound", text)
    assert written(found, "message") == (text,) and len(found.events) == 1
    known = [{"type": "Resolved", "status": "False", "reason": "ServiceAccountNotFound", "message": text}]
    again = resolving(resolver(age=90), answers=NO_POD, status={"conditions": known, "message": text})
    assert again.events == () and written(again, "message") == (text,)
    after = resolving(
        resolver(("Failed", "deadline")),
        answers={LOG: Absent()},
        status={"conditions": known, "message": text},
    )
    assert text in written(after, "message")[0]


def test_a_resolver_without_a_pod_for_another_reason_names_where_it_is() -> None:
    found = resolving(
        resolver(age=60), answers={**NO_POD, ACCOUNT: Present({"metadata": {"name": "default"}})}
    )
    assert written(found, "message")[0].endswith("kubectl describe job job-resolve says why")
    late = resolving(resolver(age=SETTINGS.resolve_deadline_sec), answers=NO_POD)
    assert late.events == (), "its pod is deleted at the deadline"


# --- its end -------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("condition", "log", "message", "detail"),
    [
        ("deadline", Absent(), "Resolution failed: deadline", "deadline"),
        (
            "deadline",
            Present(" no such model \n"),
            "Resolution failed: deadline\nLast lines of the resolver:\nno such model",
            "deadline",
        ),
        ("", Unknown("timeout"), "Resolution failed: Resolve Job failed", "Resolve Job failed"),
    ],
)
def test_a_resolver_that_fails_fails_the_job_with_its_log(
    condition: str, log: Answer, message: str, detail: str
) -> None:
    found = resolving(resolver(("Failed", condition)), answers={LOG: log})
    assert written(found, "phase", "message") == ("Failed", message)
    assert condition_of(found, "Resolved") == ("False", "Failed", detail)


def test_a_resolver_whose_image_was_never_there_names_it() -> None:
    known = [{"type": "Resolved", "status": "False", "reason": "ErrImagePull", "message": "x"}]
    status = {"conditions": known, "message": "its image cannot be pulled"}
    found = resolving(resolver(("Failed", "deadline")), answers={LOG: Absent()}, status=status)
    assert written(found, "message") == ("Resolution failed: deadline\nits image cannot be pulled",)


GPUS = {"gpuType": "A100", "gpuCount": 8}
DONE = resolver(("Complete", ""))


def test_a_resolved_job_enters_the_queue() -> None:
    found = resolving(DONE, hardware=GPUS, gpu_resources=frozenset({"fournos/gpu-a100"}))
    text = "Workload created, waiting for Kueue admission"
    resolved = {"secretRefs": [], "hardware": GPUS}
    assert found.steps == () and written(found, "phase", "message", "resolved") == ("Pending", text, resolved)
    assert condition_of(found, "Resolved") == ("True", "Resolved", "Resolution complete")
    assert condition_of(found, "WorkloadAdmitted") == ("False", "Pending", text)


def test_a_clusterless_job_is_admitted_at_once() -> None:
    found = resolving(DONE, cluster=None, clusterless=True)
    text = "Clusterless job ready for execution"
    expected = ("Admitted", text, "[clusterless]", 1)
    assert written(found, "phase", "message", "cluster", "attempt") == expected
    (attempts,) = written(found, "attempts")
    assert attempts == [{"number": 1, "cluster": "[clusterless]", "startedAt": ago(0), "pipelineRun": "job"}]
    detail = "Clusterless job bypassed Kueue admission"
    assert condition_of(found, "WorkloadAdmitted") == ("True", "ClusterlessAdmitted", detail)


def queues(*resources: str) -> Present:
    return Present(({"spec": {"resourceGroups": [{"coveredResources": list(resources)}]}}, {"spec": {}}, {}))


@pytest.mark.parametrize(
    ("answer", "phase", "reason", "message"),
    [
        (queues("cpu", "fournos/gpu-a100"), "Pending", "Resolved", None),
        (
            queues("cpu", "fournos/gpu-h200", "fournos/gpu-b300"),
            "Failed",
            "InvalidGPUType",
            "GPU type 'a100' not available. Valid types: b300, h200",
        ),
        (queues("cpu"), "Failed", "InvalidGPUType", "No GPU types configured"),
        (Absent(), "Resolving", "KueueNotInstalled", "Waiting: Kueue is not installed"),
        (Unknown("timeout"), "Resolving", "GPUTypesUnknown", "Waiting: cannot list GPU types: timeout"),
    ],
    ids=["only the cache misses it", "others", "none", "no Kueue", "unknown"],
)
def test_a_gpu_type_is_missing_only_by_a_live_read(
    answer: Answer, phase: str, reason: str, message: str | None
) -> None:
    found = resolving(DONE, hardware=GPUS, answers={QUEUES: answer})
    assert written(found, "phase") == (phase,) and condition_of(found, "Resolved")[1] == reason
    if message:
        assert written(found, "message") == (message,)
    details = {
        "No GPU types configured": "No GPU types found in any ClusterQueue",
        "GPU type 'a100' not available. Valid types: b300, h200": "GPU type 'a100' not available",
    }
    if message in details:
        assert condition_of(found, "Resolved")[2] == details[message]


@pytest.mark.parametrize(
    ("spec", "required", "fails"),
    [
        ({"exclusive": False}, True, True),
        ({"exclusive": False, "hardware": {"gpuType": "a100"}}, True, True),
        ({"exclusive": False}, False, False),
        ({"exclusive": True}, True, False),
        ({"cluster": None, "clusterless": True, "exclusive": False}, True, False),
        ({"cluster": None, "clusterless": True, "hardware": GPUS}, True, False),
    ],
    ids=["shared", "incomplete", "not required", "exclusive", "clusterless", "clusterless with GPUs"],
)
def test_a_job_that_shares_its_cluster_names_its_gpus(spec: Any, required: bool, fails: bool) -> None:
    settings = SETTINGS.model_copy(update={"hardware_required": required})
    found = resolving(DONE, settings=settings, **spec)
    assert (written(found, "phase") == ("Failed",)) is fails
    if fails:
        assert condition_of(found, "Resolved")[1] == "NoHardware"


CREDS = SecretShape(Key(SETTINGS.secrets_namespace, "vault-creds"))
ENTRY = SecretFacts("s1", frozenset(), {"fournos.dev/vault-entry": "true"}, ())


@pytest.mark.parametrize(
    ("answer", "phase", "reason", "message"),
    [
        (Present(ENTRY), "Pending", "Resolved", None),
        (
            Absent(),
            "Failed",
            "SecretRefNotFound",
            f"{CREDENTIALS} (ref 'creds') not found in namespace psap-secrets",
        ),
        (
            Present(replace(ENTRY, labels={"fournos.dev/vault-entry": "false"})),
            "Failed",
            "SecretRefNotFound",
            f"{CREDENTIALS} exists but is not a Vault-synced secret "
            "(missing fournos.dev/vault-entry=true label)",
        ),
        (Unknown("timeout"), "Resolving", "SecretUnknown", f"Waiting: cannot read {CREDENTIALS}: timeout"),
        (
            Present(replace(ENTRY, annotations={"fournos.dev/allowed-namespaces": "other"})),
            "Failed",
            "SecretNotAllowed",
            "Secret 'vault-creds' does not let this job in: "
            "its annotation fournos.dev/allowed-namespaces is 'other'",
        ),
    ],
    ids=["there", "missing", "not of Vault", "unknown", "not for this namespace"],
)
def test_secrets_are_checked_before_the_job_is_queued(
    answer: Answer, phase: str, reason: str, message: str | None
) -> None:
    found = resolving(DONE, secretRefs=["creds"], answers={CREDS: answer})
    assert written(found, "phase") == (phase,) and condition_of(found, "Resolved")[1] == reason
    if message:
        assert written(found, "message") == (message,)
