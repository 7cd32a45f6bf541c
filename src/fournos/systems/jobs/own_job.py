"""Admission webhook: a pod of a job may write only its own FournosJob.

All engines and all resolvers of a namespace share their ServiceAccounts, so the account's name does not
identify the pod.  The token does: the API server passes the pod's name and UID in the request's user info.
From that pod the owner references are followed to the FournosJob.  Each owner must also confirm what it owns,
because the creator of a pod can write any owner reference into it.  A TaskRun must also run what its
PipelineRun says, because Tekton lists any TaskRun with the owner reference in the status of the PipelineRun.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

from fournos.api.kinds import FOURNOS_JOB, PIPELINE_RUN, TASK_RUN
from fournos.engine.api.rules import Violation
from fournos.engine.kube.resource import JOB, POD, Key, Obj, Resource, controller_of, controls, uid_of
from fournos.engine.runtime.decision import Facts, LiveGet, Present, Unknown, User
from fournos.engine.runtime.webhook.types import Request, Review, Webhook
from fournos.systems.jobs.params import params_webhook
from fournos.systems.jobs.settings import JobSettings
from fournos.systems.jobs.task_runs import difference

POD_NAME: Final = "authentication.kubernetes.io/pod-name"
POD_UID: Final = "authentication.kubernetes.io/pod-uid"
_ACCOUNT: Final = "system:serviceaccount:"
_NO_POD: Final = "the token is not a pod's (use the one that is mounted into it)"
_RUNS: Final = ("name", "image", "command", "args", "env", "envFrom", "workingDir")
"""Fields that each container of the resolve Job's pod must have unchanged from the Job's template."""
_TOKEN_AT: Final = "/var/run/secrets/kubernetes.io/serviceaccount"  # noqa: S105
"""The path at which the API server mounts a pod's token."""
_CALLERS: Final = (
    f"request.userInfo.username.startsWith('{_ACCOUNT}') && "
    "(has(request.subResource) && request.subResource == 'status'"
    " || request.userInfo.username.endsWith(':fournos-resolver')) && "
    "!authorizer.group('fournos.dev').resource('fournosjobs').subresource('status')"
    ".namespace(request.namespace).check('update').allowed() && "
    "!authorizer.group('history.fournos.dev').resource('runs')"
    ".namespace(request.namespace).check('create').allowed()"
)
"""CEL condition: ServiceAccounts without the right to update the status, which are engines and resolvers.

The recorder of the history has no such right either; the policy fournos-job-status bounds what it writes.
A request without a subresource has no such field, and an error in a condition refuses it."""


def job_webhooks(settings: JobSettings) -> tuple[Webhook, ...]:
    """Returns one webhook configuration per namespace: each namespace has its own FournosJob operator."""
    configuration = f"fournos-jobs-{settings.namespace}"
    return (
        params_webhook(settings, configuration),
        Webhook(
            kind="validating",
            name="own-job.fournos.dev",
            configuration=configuration,
            path="/validate-fournos-dev-v1-fournosjob-writer",
            resources=(FOURNOS_JOB,),
            subresources=("", "status"),
            operations=("UPDATE",),
            review=review,
            namespaces={"matchLabels": {"kubernetes.io/metadata.name": settings.namespace}},
            conditions=(("pods-of-jobs", _CALLERS),),
        ),
    )


def review(request: Request, facts: Facts) -> Review:
    """Allows the write only if the requesting pod's owners lead to the FournosJob that is written."""
    assert request.old is not None
    problem = _problem(request.user, request.key, request.old, facts)
    if isinstance(problem, Unknown):
        text = f"whose pod asks could not be learnt, try again: {problem.reason}"
        return Review((_refused(text),), transient=True)
    if not problem:
        return Review()
    return Review((_refused(f"{request.user.name} may write the FournosJob of its own pod only: {problem}"),))


def _refused(text: str) -> Violation:
    return Violation("metadata.name", text, "own-job")


def _problem(user: User, key: Key, job: Obj, facts: Facts) -> str | Unknown:
    name, uid = _pod_of(user)
    if not name or not uid:
        return _NO_POD
    if user.name.removeprefix(_ACCOUNT).partition(":")[0] != key.namespace:
        return "the pod is in another namespace"
    pod = _get(POD, Key(key.namespace, name), uid, facts)
    if not isinstance(pod, dict):
        return pod
    owner = controller_of(pod) or {}
    if owner.get("kind") == JOB.kind and owner.get("apiVersion") == JOB.api_version:
        return _of_resolver(pod, owner, job, facts)
    if owner.get("kind") == TASK_RUN.kind and str(owner.get("apiVersion")).startswith("tekton.dev/"):
        return _of_run(pod, owner, job, facts)
    return f"pod {name} is neither of a run nor of a resolver"


def _pod_of(user: User) -> tuple[str, str]:
    """Returns the name and the UID of the pod in the token; "" for a token of no pod."""
    extra = dict(user.extra)
    return "".join(extra.get(POD_NAME, ())[:1]), "".join(extra.get(POD_UID, ())[:1])


def job_of_pod(user: User, facts: Facts) -> Obj | str | Unknown:
    """Returns the FournosJob whose run the calling pod is part of, or the reason why there is none.

    `user`: the reviewed user of the pod's token.  Five rounds of live reads.
    """
    name, uid = _pod_of(user)
    if not name or not uid:
        return _NO_POD
    namespace, _, _ = user.name.removeprefix(_ACCOUNT).partition(":")
    step: dict[str, Any] | str | Unknown = _get(POD, Key(namespace, name), uid, facts)
    for resource in (TASK_RUN, PIPELINE_RUN, FOURNOS_JOB):
        if not isinstance(step, dict):
            return step
        owner = controller_of(step) or {}
        if owner.get("kind") != resource.kind:
            return f"{step['metadata']['name']} is of no {resource.kind}"
        step = _get(resource, Key(namespace, owner["name"]), owner["uid"], facts)
    if not isinstance(step, dict):
        return step
    return _problem(user, Key(namespace, step["metadata"]["name"]), step, facts) or step


def _get(resource: Resource, key: Key, uid: str, facts: Facts) -> dict[str, Any] | str | Unknown:
    """Returns the object if it has this UID, otherwise the reason why not.

    The read is live, because an authorization must not depend on a stale cache.
    """
    answer = facts.require(LiveGet(resource, key))
    if isinstance(answer, Unknown):
        return answer
    if not isinstance(answer, Present) or uid_of(answer.value) != uid:
        return f"{resource.kind} {key.name} of UID {uid} is not there"
    return dict(answer.value)


def _of_resolver(pod: Obj, owner: Obj, job: Obj, facts: Facts) -> str | Unknown:
    resolver = _get(JOB, Key(pod["metadata"]["namespace"], owner["name"]), owner["uid"], facts)
    if not isinstance(resolver, dict):
        return resolver
    if not controls(job, resolver):
        return f"Job {owner['name']} is not of FournosJob {job['metadata']['name']}"
    if _content(pod["spec"]) != _content(resolver["spec"]["template"]["spec"]):
        return f"pod {pod['metadata']['name']} does not run what Job {owner['name']} says"
    return ""


def _content(spec: Obj) -> object:
    """Returns the containers and volumes of a pod spec, without the token volume that the API server adds."""
    containers, tokens = [], set()
    for section in ("initContainers", "containers", "ephemeralContainers"):
        for container in spec.get(section) or ():
            mounts = container.get("volumeMounts") or ()
            tokens |= {mount["name"] for mount in mounts if mount.get("mountPath") == _TOKEN_AT}
            others = [mount for mount in mounts if mount.get("mountPath") != _TOKEN_AT]
            containers.append(({name: container.get(name) or None for name in _RUNS}, others))
    return containers, [one for one in spec.get("volumes") or () if one["name"] not in tokens]


def _of_run(pod: Obj, owner: Obj, job: Obj, facts: Facts) -> str | Unknown:
    namespace, name = pod["metadata"]["namespace"], pod["metadata"]["name"]
    task = _get(TASK_RUN, Key(namespace, owner["name"]), owner["uid"], facts)
    if not isinstance(task, dict):
        return task
    if (task.get("status") or {}).get("podName") != name:
        return f"TaskRun {owner['name']} has another pod than {name}"
    above = controller_of(task) or {}
    if above.get("kind") != PIPELINE_RUN.kind:
        return f"TaskRun {owner['name']} is of no PipelineRun"
    run = _get(PIPELINE_RUN, Key(namespace, above["name"]), above["uid"], facts)
    if not isinstance(run, dict):
        return run
    children = (run.get("status") or {}).get("childReferences") or ()
    if owner["name"] not in [one.get("name") for one in children]:
        return f"PipelineRun {above['name']} does not know TaskRun {owner['name']}"
    if field := difference(task, run):
        return f"TaskRun {owner['name']} is not what PipelineRun {above['name']} runs: its {field} differs"
    if not controls(job, run) or above["name"] not in _runs(job):
        return f"PipelineRun {above['name']} is not a run of FournosJob {job['metadata']['name']}"
    return ""


def _runs(job: Obj) -> Iterator[str]:
    """Yields the run names that the operator wrote to the status before it created the runs."""
    attempts = (job.get("status") or {}).get("attempts") or ()
    yield from (one["pipelineRun"] for one in attempts if one.get("pipelineRun"))
