"""The Resolving phase: the engine's resolve Job fills in hardware and secretRefs; the result is checked."""

from __future__ import annotations

from datetime import timedelta

from fournos.api.kinds import PIPELINE
from fournos.engine.api.conditions import condition, is_true
from fournos.engine.api.values import creation_time
from fournos.engine.kube.resource import JOB, POD, SERVICE_ACCOUNT, Key, Obj, uid_of
from fournos.engine.queueing.ensure import prebuilt_name
from fournos.engine.queueing.kinds import CLUSTER_QUEUE, RESOURCE_FLAVOR
from fournos.engine.queueing.observe import covered
from fournos.engine.runtime.decision import (
    Absent,
    Answer,
    Create,
    Decision,
    LiveGet,
    LiveList,
    LogTail,
    Present,
    SecretShape,
    Unknown,
)
from fournos.systems.jobs import build, names
from fournos.systems.jobs.finish import fail
from fournos.systems.jobs.pending import QUEUED, pending, wait, wait_if_curable
from fournos.systems.jobs.rules import params_problem
from fournos.systems.jobs.settings import secret_consumer
from fournos.systems.jobs.status import Context

LOG_LINES = 20
_RESOLVING = "Waiting for the resolve Job to complete"
_LOOK_EVERY = timedelta(seconds=30)
"""The interval at which the pod of a slow resolver is read."""
_NO_HARDWARE = (
    "No hardware requirements: spec.hardware not populated after resolution. A job with exclusive: false "
    "must name its GPUs: write spec.hardware, or set FOURNOS_HARDWARE_REQUIRED=false on the operator, "
    "which then runs such jobs without GPUs"
)
_NO_IMAGE = frozenset({"ErrImagePull", "ImagePullBackOff", "InvalidImageName", "ErrImageNeverPull"})
"""The kubelet's waiting reasons for a container whose image cannot be pulled."""
_NO_ACCOUNT, _NO_POD = "ServiceAccountNotFound", "NoPod"
_STUCK = _NO_IMAGE | {_NO_ACCOUNT, _NO_POD}
"""The reasons for which a resolver does not start."""


def start(ctx: Context) -> Decision:
    """Claims a new job in a status write of its own, in the first pass."""
    if ctx.spec.suspend:
        message = "Suspended: set spec.suspend to false to start the job"
        ctx.draft.enter("Pending", message).condition("Suspended", "True", "Suspended", message)
        return ctx.decision()
    if ctx.spec.cluster and ctx.spec.cluster not in ctx.observed.flavors:
        # A live read: the job fails for good, so a stale cache must not decide.
        answer = ctx.facts.require(LiveGet(RESOURCE_FLAVOR, Key("", ctx.spec.cluster)))
        if isinstance(answer, Absent) and not answer.no_kind:
            return fail(
                ctx, f"Cluster '{ctx.spec.cluster}' not found", type_="Resolved", reason="ClusterNotFound"
            )
        if isinstance(answer, Unknown):
            return wait(ctx, "Resolved", "ClusterUnknown", f"Cannot look up clusters: {answer.reason}")
    if ctx.spec.lock_only:
        ctx.draft.put(resolved={})
        if ctx.draft.reason_of("Resolved"):  # the cluster was not known at first
            ctx.draft.condition("Resolved", "True", "Resolved", "A lock needs no resolving")
        return pending(ctx)
    message = "Resolving job requirements"
    ctx.draft.enter("Resolving", message)
    ctx.draft.condition("Resolved", "False", "Resolving", _RESOLVING)
    return ctx.decision()


def resolving(ctx: Context) -> Decision:
    """The policy of the Resolving phase: creates the resolve Job and checks the result at its end."""
    failure = ctx.facts.failure
    if failure and isinstance(failure.step, Create):
        return wait_if_curable(ctx, failure, "Resolved", engine="Tekton") or fail(
            ctx,
            f"Failed to create resolve Job: {failure.message}",
            type_="Resolved",
            reason="CreateFailed",
        )
    job = _resolve_job(ctx)
    if job is None:
        return _launch(ctx)
    if is_true(job, "Failed"):
        return _failed(ctx, job)
    if is_true(job, "Complete"):
        return _complete(ctx)
    return _under_way(ctx, job)


def _under_way(ctx: Context, job: Obj) -> Decision:
    """Reads the resolver's pod, and reports that there is none or that its image cannot be pulled.

    The Job itself has no condition for this before its deadline.
    """
    look_at = creation_time(job) + _LOOK_EVERY
    if ctx.now < look_at:
        return ctx.decision(wake_at=look_at)
    answer = ctx.facts.require(LiveList(POD, ctx.namespace, _pods_of(job)))
    pods: tuple[Obj, ...] = answer.value if isinstance(answer, Present) else ()
    known = ctx.draft.reason_of("Resolved")
    if problem := _no_image(pods) or (None if known in _NO_IMAGE else _no_pod(ctx, job, answer)):
        reason, text = problem
        if reason != known and not {reason, known} <= _NO_IMAGE:
            ctx.draft.event(reason, text, warning=True).condition(
                "Resolved", "False", reason, text
            ).set_message(text)
    elif pods and known in _STUCK:
        # Only if a pod exists: the Job controller deletes the pod before it reports
        # that the deadline has passed.
        ctx.draft.condition("Resolved", "False", "Resolving", _RESOLVING).set_message(
            "Resolving job requirements"
        )
    return ctx.decision(wake_at=ctx.now + _LOOK_EVERY)


def _no_image(pods: tuple[Obj, ...]) -> tuple[str, str] | None:
    """Returns the kubelet's reason and our message if a container waits for its image, else None."""
    for pod in pods:
        for container in (pod.get("status") or {}).get("containerStatuses") or ():
            waiting = (container.get("state") or {}).get("waiting") or {}
            reason = str(waiting.get("reason") or "")
            if reason in _NO_IMAGE:
                text = f"Waiting: the resolver's image '{container.get('image', '')}' cannot be pulled"
                return reason, f"{text} ({reason}): {waiting.get('message') or 'no reason given'}"
    return None


def _no_pod(ctx: Context, job: Obj, pods: Answer) -> tuple[str, str] | None:
    """Returns the reason and the message if the Job controller can create no pod, else None.

    At its deadline a Job has no pod any more.
    """
    deadline = creation_time(job) + timedelta(seconds=ctx.settings.resolve_deadline_sec)
    if not isinstance(pods, Present) or pods.value or ctx.now >= deadline:
        return None
    template = ((ctx.template.body or {}).get("spec") or {}).get("template") or {}
    account = (template.get("spec") or {}).get("serviceAccountName") or "default"
    answer = ctx.facts.require(LiveGet(SERVICE_ACCOUNT, Key(ctx.namespace, account)))
    if isinstance(answer, Absent):
        text = f"ServiceAccount '{account}' does not exist in namespace {ctx.namespace}"
        return _NO_ACCOUNT, f"Waiting: the resolver gets no pod: {text}"
    name = job["metadata"]["name"]
    return _NO_POD, f"Waiting: the resolver gets no pod; kubectl describe job {name} says why"


def _pods_of(job: Obj) -> str:
    """Returns a label selector by the Job's UID: another Job's pod may have a label with this Job's name."""
    return f"batch.kubernetes.io/controller-uid={uid_of(job)}"


def _resolve_job(ctx: Context) -> Obj | None:
    name = names.resolve_job_name(ctx.name)
    return next((job for job in ctx.observed.resolve_jobs if job["metadata"]["name"] == name), None)


def _launch(ctx: Context) -> Decision:
    """Creates the resolve Job with the image that the Pipeline's annotation names."""
    pipeline = ctx.observed.pipeline
    if pipeline is None or _image(pipeline) is None:
        # A live read: the job fails for good, so a stale cache must not decide.
        answer = ctx.facts.require(LiveGet(PIPELINE, Key(ctx.namespace, ctx.spec.pipeline)))
        if isinstance(answer, Absent) and answer.no_kind:
            return wait(ctx, "Resolved", "TektonNotInstalled", "Waiting: Tekton Pipelines is not installed")
        if isinstance(answer, Absent):
            return fail(
                ctx,
                f"Failed to fetch Pipeline '{ctx.spec.pipeline}': Not Found",
                type_="Resolved",
                reason="PipelineNotFound",
            )
        if isinstance(answer, Unknown):
            return wait(
                ctx,
                "Resolved",
                "PipelineUnknown",
                f"Waiting: cannot read Pipeline '{ctx.spec.pipeline}': {answer.reason}",
            )
        pipeline = answer.value
    image = _image(pipeline)
    if image is None:
        return fail(
            ctx,
            f"Pipeline '{ctx.spec.pipeline}' is missing the '{names.RESOLVE_IMAGE_ANNOTATION}' annotation",
            type_="Resolved",
            reason="MissingResolveImage",
        )
    if problem := params_problem(ctx):
        return fail(ctx, problem, type_="Resolved", reason="InvalidParams")
    if ctx.template.body is None:
        return wait(
            ctx,
            "Resolved",
            "TemplateUnreadable",
            f"Waiting: the resolve Job template '{ctx.template.path}' {ctx.template.error}; "
            "correct FOURNOS_RESOLVE_JOB_TEMPLATE and restart the operator",
        )
    body = build.resolve_job(ctx.job, template=ctx.template.body, image=image, settings=ctx.settings)
    return ctx.decision([Create(JOB, body)], wake_at=ctx.now + _LOOK_EVERY, settled=True)


def _image(pipeline: Obj) -> str | None:
    return (pipeline["metadata"].get("annotations") or {}).get(names.RESOLVE_IMAGE_ANNOTATION) or None


def _failed(ctx: Context, job: Obj) -> Decision:
    """Fails the job with the end of the resolver's log, which has more detail than the Job's condition."""
    answer = ctx.facts.require(LogTail(ctx.namespace, _pods_of(job), LOG_LINES))
    reason = str((condition(job, "Failed") or {}).get("message") or "Resolve Job failed")
    log = str(answer.value).strip() if isinstance(answer, Present) else ""
    message = f"Resolution failed: {reason}"
    if ctx.draft.reason_of("Resolved") in _STUCK:  # its pod is deleted by now; the message has its reason
        message += f"\n{ctx.draft.message}"
    if log:
        message += f"\nLast lines of the resolver:\n{log}"
    return fail(ctx, message, type_="Resolved", reason="Failed", detail=reason)


def _complete(ctx: Context) -> Decision:
    """Checks what the resolver wrote into the spec.

    The cache may not have it yet, so this pass creates nothing.  Its only effect is a status write with the
    observed resourceVersion, which the API server refuses (409) if the cached job is stale.
    """
    if problem := params_problem(ctx):  # they may have changed since the resolver was created
        return fail(ctx, problem, type_="Resolved", reason="InvalidParams")
    return _check_hardware(ctx) or _check_secrets(ctx) or _resolved(ctx)


def _check_hardware(ctx: Context) -> Decision | None:
    spec = ctx.spec
    if not ctx.choices:
        if spec.exclusive or spec.clusterless or not ctx.settings.hardware_required:
            return None
        return fail(ctx, _NO_HARDWARE, type_="Resolved", reason="NoHardware")
    prefix = ctx.settings.gpu_resource_prefix
    # A worker cluster of MultiKueue needs only what the manager has chosen.
    choices = (ctx.hardware,) if prebuilt_name(ctx.job) and ctx.hardware else ctx.choices
    resources = {build.gpu_resource(gpus, prefix) for gpus in choices}
    if spec.clusterless or resources <= ctx.observed.gpu_resources:
        return None
    # A live read: the job fails for good, so a stale cache must not decide.
    answer = ctx.facts.require(LiveList(CLUSTER_QUEUE))
    if isinstance(answer, Absent):
        return wait(ctx, "Resolved", "KueueNotInstalled", "Waiting: Kueue is not installed")
    if isinstance(answer, Unknown):
        return wait(ctx, "Resolved", "GPUTypesUnknown", f"Waiting: cannot list GPU types: {answer.reason}")
    available = gpu_resources(answer.value, prefix)
    if resources <= available:
        return None
    valid = sorted(name.removeprefix(prefix) for name in available)
    kind = min(resources - available).removeprefix(prefix)
    if not valid:
        return fail(
            ctx,
            "No GPU types configured",
            type_="Resolved",
            reason="InvalidGPUType",
            detail="No GPU types found in any ClusterQueue",
        )
    return fail(
        ctx,
        f"GPU type '{kind}' not available. Valid types: {', '.join(valid)}",
        type_="Resolved",
        reason="InvalidGPUType",
        detail=f"GPU type '{kind}' not available",
    )


def gpu_resources(queues: tuple[Obj, ...], prefix: str) -> frozenset[str]:
    """Returns all resource names with this prefix that the ClusterQueues cover."""
    return frozenset(name for queue in queues for name in covered(queue) if name.startswith(prefix))


def _check_secrets(ctx: Context) -> Decision | None:
    spec = ctx.spec
    namespace = ctx.settings.secrets_namespace
    questions = {ref: SecretShape(Key(namespace, ctx.settings.vault_secret(ref))) for ref in spec.secret_refs}
    answers = ctx.facts.require_all(questions.values())
    for (ref, question), answer in zip(questions.items(), answers, strict=True):
        name = question.key.name
        if isinstance(answer, Unknown):
            return wait(
                ctx, "Resolved", "SecretUnknown", f"Waiting: cannot read Secret '{name}': {answer.reason}"
            )
        problem, reason = "", "SecretRefNotFound"
        if isinstance(answer, Absent):
            problem = f"Secret '{name}' (ref '{ref}') not found in namespace {namespace}"
        elif answer.value.labels.get(names.VAULT_ENTRY_LABEL) != "true":
            problem = (
                f"Secret '{name}' exists but is not a Vault-synced secret "
                f"(missing {names.VAULT_ENTRY_LABEL}=true label)"
            )
        elif refusal := secret_consumer(ctx.job, ctx.settings.secret_policy)(name, answer.value.annotations):
            problem, reason = refusal, "SecretNotAllowed"
        if problem:
            return fail(ctx, problem, type_="Resolved", reason=reason)
    return None


def _resolved(ctx: Context) -> Decision:
    spec = ctx.spec
    resolved: dict[str, object] = {"secretRefs": list(spec.secret_refs)}
    if spec.hardware:
        resolved["hardware"] = spec.hardware.to_json()
    annotations = ((ctx.observed.pipeline or {}).get("metadata") or {}).get("annotations") or {}
    if names.FINGERPRINT_ANNOTATION in annotations:
        resolved["fingerprint"] = annotations[names.FINGERPRINT_ANNOTATION]
    ctx.draft.put(resolved=resolved).condition("Resolved", "True", "Resolved", "Resolution complete")
    if spec.clusterless:
        return pending(ctx)
    ctx.draft.enter("Pending", QUEUED).condition("WorkloadAdmitted", "False", "Pending", QUEUED)
    return ctx.decision()
