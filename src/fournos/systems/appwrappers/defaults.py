"""Defaults of AppWrappers at creation, as a pure function: the mutating webhook."""

from __future__ import annotations

import re
from typing import Any

from fournos.engine.api.rules import Violation
from fournos.engine.kube.resource import Key, Obj
from fournos.engine.queueing.kinds import LOCAL_QUEUE
from fournos.engine.queueing.managed import MULTIKUEUE
from fournos.engine.queueing.managed_by import leaves
from fournos.engine.queueing.workload import QUEUE_NAME_LABEL
from fournos.engine.runtime.decision import Facts, LiveGet, Present, Unknown
from fournos.engine.runtime.webhook.types import Request, Review
from fournos.systems.appwrappers import names
from fournos.systems.appwrappers.admission import inferred_pod_sets, section
from fournos.systems.appwrappers.kinds import InferenceError, wrapped_kind
from fournos.systems.appwrappers.settings import AppWrapperSettings

_LABEL_MAX = 63
_NO_LABEL = re.compile(r"[^-_.A-Za-z0-9]")
_DEFAULT_QUEUE = "default"
"""The LocalQueue that Kueue assigns to jobs without a queue, if it exists."""


def default(request: Request, facts: Facts, *, settings: AppWrapperSettings) -> Review:
    """Returns the mutating webhook's answer to a creation.

    It runs before the schema validation, so any content must be expected. It sets the labels of the user who
    created the AppWrapper. It writes the pod sets of kinds that Kueue's own inference does not know. If this
    operator creates the Workloads, it suspends an AppWrapper with a queue; otherwise Kueue's does.
    """
    new = request.new
    labels = section(section(new, "metadata"), "labels")
    own_labels = {
        names.USER_LABEL: label_value(request.user.name),
        names.USER_ID_LABEL: label_value(request.user.uid),
    }
    queue = labels.get(QUEUE_NAME_LABEL) or settings.default_queue_name
    if not queue and settings.workloads == "own":
        question = LiveGet(LOCAL_QUEUE, Key(request.key.namespace, _DEFAULT_QUEUE))
        match facts.require(question):
            case Unknown(reason):
                return _queue_unknown("whether there is a default queue", reason)
            case Present():
                queue = _DEFAULT_QUEUE
    elsewhere: bool | Unknown = False
    if queue:
        own_labels[QUEUE_NAME_LABEL] = queue
        elsewhere = settings.workloads == "own" and leaves(_to_dispatch(request), queue, facts)
    if isinstance(elsewhere, Unknown):
        return _queue_unknown("whether the queue leads to other clusters", elsewhere.reason)
    patch: dict[str, Any] = {}
    differing = {key: value for key, value in own_labels.items() if labels.get(key) != value}
    if differing:
        patch["metadata"] = {"labels": differing}
    spec = _spec(new, suspend=settings.workloads == "own" and _waits(queue, settings))
    if elsewhere:
        spec["managedBy"] = MULTIKUEUE
    if spec:
        patch["spec"] = spec
    return Review(patch=patch)


def _to_dispatch(request: Request) -> Obj:
    """Returns the AppWrapper with its namespace. `managedBy` is kept only if it names another controller."""
    spec = section(request.new, "spec")
    kept = {"managedBy": spec["managedBy"]} if spec.get("managedBy") not in names.MANAGED_BY_US else {}
    meta = {**section(request.new, "metadata"), "namespace": request.key.namespace}
    return {"metadata": meta, "spec": kept}


def _queue_unknown(what: str, reason: str) -> Review:
    """Returns a transient refusal; the client may try again."""
    text = f"could not learn {what}, try again: {reason}"
    return Review((Violation(f"metadata.labels[{QUEUE_NAME_LABEL}]", text, "queue"),), transient=True)


def _waits(queue: str, settings: AppWrapperSettings) -> bool:
    """True if it must wait (Kueue's rule): it has a queue, or manage_jobs_without_queue_name is set."""
    return bool(queue) or settings.manage_jobs_without_queue_name


def _spec(new: Obj, *, suspend: bool) -> dict[str, Any]:
    """Returns the changes of the spec: `suspend` and the pod sets."""
    spec = section(new, "spec")
    patch: dict[str, Any] = {"suspend": True} if suspend and spec.get("suspend") is not True else {}
    before = spec.get("components")
    if isinstance(before, list):
        after = [_with_pod_sets(component) for component in before]
        if after != before:
            patch["components"] = after
    return patch


def _with_pod_sets(component: Any) -> Any:
    """Returns the component with its inferred pod sets, if the user declared none."""
    template = section(component, "template")
    kind = wrapped_kind(template)
    if kind is None or kind.kueue_infers or kind.bare or component.get("podSets"):
        return component
    try:
        inferred = inferred_pod_sets(template)
    except InferenceError:
        return component  # the validating webhook refuses it and gives the reason
    return {
        **component,
        "podSets": [{"path": pod_set.path, "replicas": pod_set.replicas} for pod_set in inferred],
    }


def label_value(text: str) -> str:
    """Returns the text as a valid label value of at most 63 characters."""
    return _NO_LABEL.sub("_", text[:_LABEL_MAX]).strip("-_.")
