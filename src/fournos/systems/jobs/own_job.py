"""Admission webhook: a pod of a job may write only its own FournosJob.

All engines and all resolvers of a namespace share their ServiceAccounts, so the account's name does not
identify the pod.  The token does: the API server passes the pod's name and UID in the request's user info.
From that pod the owner references are followed to the FournosJob.  Each owner must also confirm what it owns,
because the creator of a pod can write any owner reference into it.  A TaskRun must also run what its
PipelineRun says, because Tekton lists any TaskRun with the owner reference in the status of the PipelineRun.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, Final

from fournos.api.kinds import FOURNOS_JOB, PIPELINE_RUN, TASK_RUN
from fournos.engine.api.rules import Violation
from fournos.engine.kube.resource import JOB, POD, Key, Obj, Resource, controller_of, controls, uid_of
from fournos.engine.runtime.decision import Facts, LiveGet, Present, Unknown, User
from fournos.engine.runtime.webhook.review import Request, Review, Webhook
from fournos.systems.jobs.rules import params_webhook
from fournos.systems.jobs.settings import JobSettings

# --- what a TaskRun runs -------------------------------------------------------------------------------
# Whether a TaskRun is what Tekton makes of a PipelineRun's task.  Pure.
#
# Tekton lists each TaskRun with the label and the owner reference of a PipelineRun in the status of that
# PipelineRun, whoever created it (https://github.com/tektoncd/pipeline, pkg/reconciler/pipelinerun, as of
# 1.9). It also lists one that only has the name which it would give to its own, without label or owner.  So
# a TaskRun is believed only if the PipelineRun controls it and it runs what the PipelineRun says: the same
# task with the same parameters, volumes and pod template.

_LATER: Final = re.compile(r"\$\((?:tasks|finally|context\.pipelineTask)\b[^)]*\)")
"""What Tekton fills in when it makes the TaskRun, and status.pipelineSpec still has as it was written."""
_SEVERAL: Final = "[*])"
"""The end of a reference to a list, which becomes any number of items."""
_EMBEDDED: Final = frozenset({"apiVersion", "kind", "metadata", "spec"})
"""Fields of a task that is written in a Pipeline, beside those of a TaskRun's taskSpec."""
_EMPTY: Final[tuple[object, ...]] = (None, "", {}, [])


def children(run: Obj) -> list[str]:
    """Returns the names of the TaskRuns that Tekton lists in the status of the PipelineRun."""
    listed = (run.get("status") or {}).get("childReferences") or ()
    return [str(child["name"]) for child in listed if child.get("kind") == TASK_RUN.kind]


def believed(run: Obj, task_runs: Iterable[Obj]) -> tuple[list[Obj], str]:
    """Returns the TaskRuns that are of the PipelineRun, and what is wrong with another one that it lists.

    `task_runs`: those of its namespace that can be read, its own among them.  With "" as the second value
    the results of the PipelineRun itself are its own, too: otherwise they may be copies of the other one's.
    """
    differences = {task["metadata"]["name"]: (task, difference(task, run)) for task in task_runs}
    own = [task for task, field in differences.values() if not field]
    for name in children(run):
        task, field = differences.get(name, (None, ""))
        if task is None:
            return own, f"TaskRun {name} of it is not there"
        if field:
            return own, f"TaskRun {name} is not what it runs: the {field} of that one differs"
    return own, ""


def difference(task_run: Obj, run: Obj) -> str:
    """Returns the field of the TaskRun that is not as its PipelineRun has it; "" if it is of the run."""
    if not controls(run, task_run):
        return "owner"
    status = run.get("status") or {}
    name = next(
        (
            child.get("pipelineTaskName")
            for child in status.get("childReferences") or ()
            if child.get("name") == task_run["metadata"]["name"]
        ),
        None,
    )
    plan = status.get("pipelineSpec") or {}
    tasks = [*(plan.get("tasks") or ()), *(plan.get("finally") or ())]
    task = next((task for task in tasks if task["name"] == name), None)
    if task is None:
        return "pipelineTask"
    spec = task_run.get("spec") or {}
    embedded = {key: value for key, value in (task.get("taskSpec") or {}).items() if key not in _EMBEDDED}
    same = {
        "taskRef": fits(_reference(task), _reference(spec)),
        "taskSpec": fits(embedded, spec.get("taskSpec") or {}),
        "params": _same_params(task, spec),
        "workspaces": _same_volumes(task, spec, run),
        "podTemplate": _same_pod(name, spec, run),
    }
    return next((field for field, is_same in same.items() if not is_same), "")


def fits(template: Any, value: Any) -> bool:
    """Whether a JSON value is the template with anything in place of what Tekton fills in later.

    Empty fields count as absent.
    """
    if isinstance(template, str):
        return _text_fits(template, value) if isinstance(value, str) else bool(_LATER.fullmatch(template))
    if isinstance(template, Mapping) and isinstance(value, Mapping):
        ours, theirs = _given(template), _given(value)
        return ours.keys() == theirs.keys() and all(fits(ours[name], theirs[name]) for name in ours)
    if isinstance(template, list) and isinstance(value, list):
        return _list_fits(template, value)
    return bool(template == value)


def _among(value: Any, templates: Iterable[Any]) -> bool:
    return any(fits(template, value) for template in templates)


def _text_fits(template: str, text: str) -> bool:
    """Returns whether the text fits the template: its fixed parts must follow each other.  Linear time."""
    first, *rest = _LATER.split(template)
    if not rest:
        return text == template
    *middle, last = rest
    at = len(first)
    if not text.startswith(first) or len(text) < at + len(last):
        return False
    for part in middle:
        place = text.find(part, at)
        if place < 0:
            return False
        at = place + len(part)
    return text.endswith(last) and len(text) - len(last) >= at


def _list_fits(template: Sequence[Any], values: Sequence[Any]) -> bool:
    several = [
        place
        for place, item in enumerate(template)
        if isinstance(item, str) and item.endswith(_SEVERAL) and _LATER.fullmatch(item)
    ]
    if not several:
        return len(template) == len(values) and all(map(fits, template, values))
    head, tail = template[: several[0]], template[several[-1] + 1 :]
    if len(values) < len(head) + len(tail):
        return False
    return all(map(fits, head, values)) and all(map(fits, reversed(tail), reversed(values)))


def _given(fields: Mapping[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in fields.items() if value not in _EMPTY}


def _reference(spec: Mapping[str, Any]) -> dict[str, Any]:
    reference = dict(spec.get("taskRef") or {})
    return {"kind": "Task", **reference} if reference and not reference.get("resolver") else reference


def _same_params(task: Obj, spec: Obj) -> bool:
    plain = {param["name"]: [param.get("value")] for param in task.get("params") or ()}
    allowed = dict(plain)
    matrix = task.get("matrix") or {}
    for param in matrix.get("params") or ():
        values = param.get("value")
        allowed[param["name"]] = [*(values if isinstance(values, list) else ()), values]
    for included in matrix.get("include") or ():
        for param in included.get("params") or ():
            allowed[param["name"]] = [*allowed.get(param["name"], ()), param.get("value")]
    given = {param["name"]: param.get("value") for param in spec.get("params") or ()}
    return plain.keys() <= given.keys() and all(
        _among(value, allowed.get(name, ())) for name, value in given.items()
    )


def _same_volumes(task: Obj, spec: Obj, run: Obj) -> bool:
    """Whether each workspace is bound to what the run binds it to; the path within a volume is free."""
    bound = {binding["name"]: binding for binding in (run.get("spec") or {}).get("workspaces") or ()}
    of_task = {used["name"]: used.get("workspace") or used["name"] for used in task.get("workspaces") or ()}
    for binding in spec.get("workspaces") or ():
        # A task that is written in the Pipeline gets the workspaces that it names, without a list of them.
        name = of_task.get(binding["name"], binding["name"] if task.get("taskSpec") else "")
        if name not in bound or not _among(_source(binding), _sources(bound[name], run)):
            return False
    return True


def _source(binding: Obj) -> dict[str, Any]:
    return {name: value for name, value in _given(binding).items() if name not in ("name", "subPath")}


def _sources(binding: Obj, run: Obj) -> list[dict[str, Any]]:
    """Returns the volumes to which a TaskRun may bind what its run binds so."""
    template = binding.get("volumeClaimTemplate")
    if not template:
        return [_source(binding)]
    prefix = (template.get("metadata") or {}).get("name") or "pvc"
    claim = f"{prefix}-{_digest(binding['name'] + uid_of(run))}"
    # With `coschedule: pipelineruns` the claim is one of a StatefulSet for the run.
    shared = f"{claim}-affinity-assistant-{_digest(run['metadata']['name'])}-0"
    return [{"persistentVolumeClaim": {"claimName": name}} for name in (claim, shared)]


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()[:10]


def _same_pod(name: Any, spec: Obj, run: Obj) -> bool:
    """Whether every part of the pod template is one of the run's: of all tasks, or of this one."""
    ours = run.get("spec") or {}
    own = [part for part in ours.get("taskRunSpecs") or () if part.get("pipelineTaskName") == name]
    templates = [part.get("podTemplate") or {} for part in (ours.get("taskRunTemplate") or {}, *own)]
    for field, value in _given(spec.get("podTemplate") or {}).items():
        parts = [template[field] for template in templates if field in template]
        if isinstance(value, list):
            items = [item for part in parts for item in part]
            if not all(_among(item, items) for item in value):
                return False
        elif not _among(value, parts):
            return False
    return True


# --- the webhook ---------------------------------------------------------------------------------------

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
