"""Builds the Workload of a job (Kueue's Workload API, v1beta2).  Pure."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum
from typing import Any, Final

from fournos.engine.api.conditions import condition, is_true
from fournos.engine.kube.resource import Key, Obj, Resource, is_terminating, usual_plural
from fournos.engine.queueing.kinds import GROUP, VERSION, WORKLOAD
from fournos.engine.runtime.part import RequiredApi

KUEUE = RequiredApi("Kueue", GROUP, VERSION, "upgrade Kueue to 0.15 or newer")
QUEUE_NAME_LABEL = "kueue.x-k8s.io/queue-name"
JOB_UID_LABEL = "kueue.x-k8s.io/job-uid"
HELD_BACK = "fournos.dev/held-back"
"""Annotation of a Workload that its job has deactivated.  Without it, the job never reactivates a Workload,
because another client has deactivated it."""
IN_USE = "kueue.x-k8s.io/resource-in-use"
"""The finalizer of Kueue's own job kinds; the controller that runs the job removes it."""
_GENERIC_NAME_MAX = 247
"""Length of the generic name before its suffix: at most 253 characters with a dash and five hash digits."""


@dataclass(frozen=True, slots=True)
class PodSet:
    """The pods of a Workload with one template."""

    name: str
    count: int
    template: Obj
    """A PodTemplateSpec; Kueue reads requests, node selector, affinity and tolerations from it."""
    min_count: int | None = None
    """Partial admission: the smallest acceptable number of pods; at most one pod set may have it."""


@dataclass(frozen=True, slots=True)
class Priority:
    """A priority class with its value, because Kueue sets the value only for its own job kinds."""

    class_name: str
    """Name of the class; "" for a value without a class."""
    value: int
    group: str = GROUP
    kind: str = "WorkloadPriorityClass"

    @property
    def reference(self) -> dict[str, str] | None:
        if not self.class_name:
            return None
        return {"group": self.group, "kind": self.kind, "name": self.class_name}


@dataclass(frozen=True, slots=True)
class WorkloadRequest:
    """The properties of the Workload that a job kind requests."""

    key: Key
    queue: str
    pod_sets: tuple[PodSet, ...]
    owner: Obj
    """The controller ownerReference."""
    labels: Mapping[str, str] = field(default_factory=dict)
    priority: Priority | None = None
    annotations: Mapping[str, str] = field(default_factory=dict)
    finalizers: tuple[str, ...] = ()
    max_execution_seconds: int | None = None


def generic_name(*, kind: str, group: str, name: str, uid: str) -> str:
    """Returns the name that Kueue's own job kinds use: `kind-name-hash`."""
    digest = hashlib.sha1(f"{kind}\n{group}\n{name}\n{uid}".encode(), usedforsecurity=False).hexdigest()
    return f"{kind.lower()}-{name}"[:_GENERIC_NAME_MAX] + f"-{digest[:5]}"


def build(request: WorkloadRequest) -> Obj:
    """Returns the Workload to create.

    `priorityClassRef` is set together with `priority`: the API refuses a reference without the value, and
    ignores the `priorityClassName` of v1beta1.  `priority` is never left out: the visibility API of Kueue up
    to 0.18.5, and of 0.19.0 and 0.19.1, answers nothing for a queue with a Workload that has none.
    """
    spec: dict[str, object] = {
        "queueName": request.queue,
        "podSets": [_pod_set(pod_set) for pod_set in request.pod_sets],
    }
    if request.priority and request.priority.reference:
        spec["priorityClassRef"] = request.priority.reference
    spec["priority"] = request.priority.value if request.priority else 0
    if request.max_execution_seconds:
        spec["maximumExecutionTimeSeconds"] = request.max_execution_seconds
    metadata: dict[str, object] = {
        "name": request.key.name,
        "namespace": request.key.namespace,
        "labels": {**request.labels, QUEUE_NAME_LABEL: request.queue},
        "ownerReferences": [request.owner],
    }
    if request.annotations:
        metadata["annotations"] = dict(request.annotations)
    if request.finalizers:
        metadata["finalizers"] = list(request.finalizers)
    return {
        "apiVersion": WORKLOAD.api_version,
        "kind": WORKLOAD.kind,
        "metadata": metadata,
        "spec": spec,
    }


def _pod_set(pod_set: PodSet) -> dict[str, object]:
    template = {**pod_set.template, "spec": _one_of_each_variable(pod_set.template.get("spec") or {})}
    body: dict[str, object] = {"name": pod_set.name, "count": pod_set.count, "template": template}
    if pod_set.min_count is not None:
        body["minCount"] = pod_set.min_count
    return body


def _one_of_each_variable(pod_spec: Obj) -> dict[str, Any]:
    """Returns the pod spec with each environment variable once per container.

    The API refuses a Workload with a duplicate variable; a pod uses the last one, so the last one is kept.
    """
    spec = dict(pod_spec)
    for section in ("initContainers", "containers"):
        if spec.get(section):
            spec[section] = [
                {
                    **container,
                    "env": list({variable.get("name"): variable for variable in container["env"]}.values()),
                }
                if container.get("env")
                else container
                for container in spec[section]
            ]
    return spec


# --- its state --------------------------------------------------------------------------------------
# The state of a Workload for its job kind (Kueue's Workload API: conditions by type, never by index).


class QueueState(Enum):
    """The states of a Workload."""

    WAITING = "waiting"
    """Queued, or not yet seen by Kueue, or holding quota while admission checks are pending."""
    ADMITTED = "admitted"
    EVICTED = "evicted"
    """Evicted by Kueue; the Workload holds its quota until the job kind releases it."""
    RELEASED = "released"
    """Evicted and released; the Workload waits in the queue again, or is inactive."""
    FINISHED = "finished"
    GONE = "gone"
    """The Workload is being deleted."""


@dataclass(frozen=True, slots=True)
class WorkloadView:
    """A Workload's state with reason, message and assigned flavors."""

    state: QueueState
    reason: str
    """CamelCase reason for a condition."""
    message: str
    """Kueue's own message; "" without one."""
    flavors: Mapping[str, Mapping[str, str]]
    """pod set → resource → ResourceFlavor; empty without quota."""
    active: bool = True

    def flavor(self, pod_set: str, resource: str) -> str | None:
        return self.flavors.get(pod_set, {}).get(resource)


def view(workload: Obj) -> WorkloadView:
    """Returns the state of a Workload.  Deletion has precedence, then the end, eviction and admission."""
    spec, status = workload["spec"], workload.get("status") or {}
    active = spec.get("active", True) is not False
    flavors = {
        assignment["name"]: dict(assignment.get("flavors") or {})
        for assignment in (status.get("admission") or {}).get("podSetAssignments") or ()
    }
    quota = condition(workload, "QuotaReserved") or {}
    reason, message = str(quota.get("reason") or "Pending"), str(quota.get("message") or "")
    if is_terminating(workload):
        return WorkloadView(QueueState.GONE, "WorkloadDeleted", "Workload is deleted", flavors, active)
    if is_true(workload, "Finished"):
        return WorkloadView(QueueState.FINISHED, "Finished", message, flavors, active)
    evicted = condition(workload, "Evicted") or {}
    if evicted.get("status") == "True":
        reason, message = str(evicted.get("reason") or "Evicted"), str(evicted.get("message") or "")
        holds = quota.get("status") == "True"
        return WorkloadView(
            QueueState.EVICTED if holds else QueueState.RELEASED, reason, message, flavors, active
        )
    if is_true(workload, "Admitted"):
        return WorkloadView(QueueState.ADMITTED, "Admitted", message, flavors, active)
    return WorkloadView(QueueState.WAITING, reason, _pending_checks(status) or message, flavors, active)


def _pending_checks(status: Obj) -> str:
    """Returns the messages of the pending admission checks while quota is held."""
    return ", ".join(
        f"{check['name']}: {check['message']}"
        for check in status.get("admissionChecks") or ()
        if check.get("state") == "Pending" and check.get("message")
    )


# --- why it waits -----------------------------------------------------------------------------------
# The reason for which a Workload waits, by name: Kueue's own, or the one that its message shows.  Pure.
#
# Kueue 0.19 has a reason for each cause behind the gate UnadmittedWorkloadsObservability.  Without it, and
# before, the reasons are Pending, Inadmissible and Waiting, and only the message shows which cause it is
# (sigs.k8s.io/kueue, apis/kueue/v1beta2/workload_types.go and pkg/scheduler/scheduler.go).

LEGACY: Final = frozenset({"Pending", "Inadmissible", "Waiting"})
TOPOLOGY: Final = "TopologyPlacementFailed"
_MESSAGES: Final = (
    ("Pending the preemption of ", "WaitingForPreemptedWorkloads"),
    ("overlapping preemption targets", "WaitingForPreemptedWorkloads"),
    ("in PodsReady condition", "WaitingForPodsReady"),
    ("gated by", "AdmissionGated"),
    ('topology "', TOPOLOGY),
)
"""Parts of the messages of Kueue without that gate, in the order in which they count."""
_QUOTA_MESSAGE: Final = "insufficient "


def named_reason(reason: str, message: str) -> str:
    """Returns the reason of the condition QuotaReserved; for one that says nothing, that of its message.

    "" if the message names quota or nothing that is known.
    """
    if reason not in LEGACY:
        return reason
    for part, cause in _MESSAGES:
        # A topology is one of several causes in a message that names quota, too.
        if part in message and not (cause == TOPOLOGY and _QUOTA_MESSAGE in message):
            return cause
    return ""


# --- names of kinds ---------------------------------------------------------------------------------
# Names of kinds in the form of Kueue's `externalFrameworks` setting: `Kind.version.group`.

_KIND: Final = re.compile(r"[A-Z][A-Za-z0-9]*")
_VERSION: Final = re.compile(r"v[0-9]+((alpha|beta)[0-9]+)?")
_GROUP: Final = re.compile(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)+")


class BadNameError(ValueError):
    """The name of a kind is invalid; the message has the reason and, where possible, the fix."""


def parse_name(text: str, *, plural: str = "") -> Resource:
    """Returns the resource type of the name.  `plural`: if it is not the usual one.  Raises BadNameError."""
    kind, _, rest = text.partition(".")
    version, _, group = rest.partition(".")
    if not _KIND.fullmatch(kind):
        fix = f": kinds start with a capital, as {kind[:1].upper()}{kind[1:]}" if kind[:1].islower() else ""
        raise BadNameError(f"{text!r} is not a Kind.version.group: {kind!r} is not a kind{fix}")
    if not _VERSION.fullmatch(version):
        fix = f"; write the version, as {kind}.v1.{rest}" if rest else f", as {kind}.v1.example.com"
        raise BadNameError(f"{text!r} is not a Kind.version.group: {version!r} is not an API version{fix}")
    if not _GROUP.fullmatch(group):
        raise BadNameError(
            f"{text!r} is not a Kind.version.group: {group!r} is not an API group, "
            f"as {kind}.{version}.example.com"
        )
    return Resource(group, version, kind, plural or usual_plural(kind))


def name_of(resource: Resource) -> str:
    """Returns the name in the form of Kueue's configuration: `Kind.version.group`."""
    return f"{resource.kind}.{resource.version}.{resource.group}"


def cure_of(message: str, kind: Resource) -> str:
    """Returns the fix for a creation that Kueue's webhook did not answer; "" for any other error.

    Kueue looks up the owner of a new object and waits for a cache of the owner's kind.  Without the right to
    read that kind the cache never syncs.
    """
    if "failed calling webhook" not in message or "kueue" not in message:
        return ""
    return (
        f" (if Kueue's configuration lists {name_of(kind)} under integrations.externalFrameworks, "
        f"Kueue needs the right to read {kind.plural}: kubectl apply --server-side -k deploy/kueue)"
    )
