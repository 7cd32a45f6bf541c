"""Builds what is wrapped: pod sets and paths, components with labels, owner and the admission's changes.

All functions here are pure.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any, Final

from fournos.api.kinds import APPWRAPPER
from fournos.engine.kube.resource import Obj, owner_reference, uid_of
from fournos.engine.queueing.job import made_by_manager
from fournos.engine.queueing.observe import generated_name
from fournos.engine.queueing.podsets import PodSetInfo, placed, template_problem, union
from fournos.engine.queueing.workload import QUEUE_NAME_LABEL
from fournos.systems.appwrappers import names
from fournos.systems.appwrappers.health import keep_away
from fournos.systems.appwrappers.kinds import (
    RUN_PATH,
    InferenceError,
    PodSetSpec,
    infer,
    marks,
    place_run,
    run_pod,
    wrapped_kind,
)
from fournos.systems.appwrappers.names import LABEL

_EXPIRES: Final = "ttlSecondsAfterFinished"
_STEP = re.compile(r"\.([^.\[\]]+)|\[([0-9]{1,9})\]", re.ASCII)
_PATH_MAX = 1024
_STEPS_MAX = 64
"""Far more than the depth of any pod template."""


class PathError(Exception):
    """The path does not lead to a pod template. The message contains the place where it ends."""


def steps_of(path: str) -> list[str | int]:
    """Returns the steps after `template`. Raises PathError."""
    if len(path) > _PATH_MAX:
        raise PathError(f"a path has at most {_PATH_MAX} characters, this one has {len(path)}")
    if not path.startswith("template"):
        raise PathError(f"path component must start with 'template': {path!r}")
    steps: list[str | int] = []
    position = len("template")
    while match := _STEP.match(path, position):
        steps.append(match[1] if match[1] is not None else int(match[2]))
        position = match.end()
    if len(steps) > _STEPS_MAX:
        raise PathError(f"a path has at most {_STEPS_MAX} steps, this one has {len(steps)}")
    if position != len(path):
        raise PathError(f"{path!r} is not a path: it goes on with {path[position:]!r}")
    return steps


def lookup(template: Any, path: str) -> Any:
    """Returns the value at the path. Raises PathError."""
    value = template
    for step in steps_of(path):
        fits = isinstance(value, list) if isinstance(step, int) else isinstance(value, Mapping)
        if not fits or (step >= len(value) if isinstance(step, int) else step not in value):
            raise PathError(f"{path!r} does not lead anywhere: there is no {step!r}")
        value = value[step]
    return value


def pod_template(template: Obj, path: str) -> Obj:
    """Returns the pod template at the path. Raises PathError."""
    pod = lookup(template, path)
    spec = pod.get("spec") if isinstance(pod, Mapping) else None
    containers = spec.get("containers") if isinstance(spec, Mapping) else None
    if not isinstance(containers, list) or not all(isinstance(one, Mapping) for one in containers):
        raise PathError(f"{path!r} does not refer to a pod template: it has no spec.containers")
    return pod  # type: ignore[no-any-return]


def replaced(template: Obj, path: str, change: Callable[[Any], Any]) -> Any:
    """Returns a copy in which the value at the path is changed.

    Everything else is shared. Raises PathError.
    """

    def walk(node: Any, steps: list[str | int]) -> Any:
        if not steps:
            return change(node)
        step, rest = steps[0], steps[1:]
        copy: Any = list(node) if isinstance(node, list) else dict(node)
        copy[step] = walk(node[step], rest)
        return copy

    lookup(template, path)
    return walk(template, steps_of(path))


# --- pod sets ------------------------------------------------------------------------------------------


def declared(component: Mapping[str, Any]) -> tuple[PodSetSpec, ...]:
    """Returns the pod sets that the user declared."""
    return tuple(
        PodSetSpec(
            one["path"], 1 if one.get("replicas") is None else one["replicas"], one.get("annotations") or {}
        )
        for one in component.get("podSets") or ()
    )


def pod_sets_of(component: Mapping[str, Any]) -> tuple[PodSetSpec, ...]:
    """Returns the pod sets of a component. Raises InferenceError.

    The declared order is kept, because it numbers the pod sets of the Workload.
    """
    written, template = declared(component), component["template"]
    if not written:
        return infer(template)
    kind = wrapped_kind(template)
    if kind is None or not kind.documents_pod_sets:
        return written
    made = {one.path: one.replicas for one in infer(template)}
    return tuple(replace(one, replicas=max(one.replicas, made.get(one.path, 0))) for one in written)


def template_of(template: Obj, path: str) -> Obj:
    """Returns the pod template of a pod set.

    It is the value at the path, or the request of a kind without a pod template. Raises InferenceError and
    PathError.
    """
    kind = wrapped_kind(template)
    if kind is None or not kind.bare:
        pod = pod_template(template, path)
    elif path != RUN_PATH:
        raise PathError(f"{path!r} is not the pod set of a {kind.resource.kind}: that is {RUN_PATH!r}")
    else:
        try:
            pod = run_pod(template)
        except ValueError as error:
            raise InferenceError(str(error)) from None
    if problem := template_problem(pod):
        raise PathError(f"{path!r}: {problem}")
    return pod


def all_pod_sets(wrapper: Obj) -> Iterator[tuple[int, PodSetSpec, Obj]]:
    """Yields component index, pod set and pod template. Raises InferenceError and PathError."""
    for index, component in enumerate((wrapper.get("spec") or {}).get("components") or ()):
        for pod_set in pod_sets_of(component):
            yield index, pod_set, template_of(component["template"], pod_set.path)


# --- wrapped resources ---------------------------------------------------------------------------------


def component_name(wrapper: Obj, index: int) -> str:
    """Returns the name of a component.

    A name from generateName is always the same for this AppWrapper, so a repeated creation finds the object.
    """
    meta = wrapper["spec"]["components"][index]["template"].get("metadata") or {}
    if meta.get("name"):
        return str(meta["name"])
    return generated_name(str(meta.get("generateName", "")), uid_of(wrapper), index)


def pod_set_info(stored: Mapping[str, Any]) -> PodSetInfo:
    """Returns an entry of spec.components[].podSetInfos as a PodSetInfo."""
    return PodSetInfo(
        name="",
        count=1,
        labels=stored.get("labels") or {},
        annotations=stored.get("annotations") or {},
        node_selector=stored.get("nodeSelector") or {},
        tolerations=tuple(stored.get("tolerations") or ()),
        scheduling_gates=tuple(gate["name"] for gate in stored.get("schedulingGates") or ()),
    )


def stored_info(info: PodSetInfo) -> dict[str, Any]:
    """Returns a PodSetInfo as an entry of spec.components[].podSetInfos."""
    parts: dict[str, Any] = {
        "annotations": dict(info.annotations),
        "labels": dict(info.labels),
        "nodeSelector": dict(info.node_selector),
        "tolerations": [dict(one) for one in info.tolerations],
        "schedulingGates": [{"name": name} for name in info.scheduling_gates],
    }
    return {key: value for key, value in parts.items() if value}


def component(wrapper: Obj, index: int, pod_sets: Sequence[PodSetSpec]) -> dict[str, Any]:
    """Returns the object to create.

    Raises PodSetInfoError if template and admission contradict each other, and PathError if a path does not
    lead to a pod template, or the template has another shape than its kind.
    """
    try:
        return _component(wrapper, index, pod_sets)
    except (AttributeError, KeyError, TypeError, ValueError) as error:
        raise PathError(f"the template of component {index} has another shape than its kind") from error


def _component(wrapper: Obj, index: int, pod_sets: Sequence[PodSetSpec]) -> dict[str, Any]:
    spec, name = wrapper["spec"]["components"][index], wrapper["metadata"]["name"]
    # On a worker a component must not delete itself: gone before its end was seen, it would be missing.
    body: Obj = _lasting(spec["template"]) if made_by_manager(wrapper) else spec["template"]
    stored = spec.get("podSetInfos") or ()
    infos = [pod_set_info(stored[i] if i < len(stored) else {}) for i in range(len(pod_sets))]
    kind = wrapped_kind(body)
    if kind is not None and kind.bare:
        body = place_run(body, marks(name, index, infos[0]))
    else:
        for pod_set, info in zip(pod_sets, infos, strict=True):

            def change(template: Obj, info: PodSetInfo = info) -> Obj:
                return _pods(template, info, name, index)

            body = replaced(body, pod_set.path, change)
    meta = {key: value for key, value in (body.get("metadata") or {}).items() if key != "generateName"}
    meta["name"] = component_name(wrapper, index)
    meta["namespace"] = wrapper["metadata"]["namespace"]
    meta["labels"] = union("label", {names.LABEL: name}, meta.get("labels"))
    meta["ownerReferences"] = [owner_reference(APPWRAPPER, wrapper)]
    return {**body, "metadata": meta}


def _lasting(body: Obj) -> Obj:
    """Returns the object without the time after which it deletes itself, in its spec or its run policy."""
    spec = body.get("spec")
    if not isinstance(spec, Mapping):
        return body
    kept = {name: value for name, value in spec.items() if name != _EXPIRES}
    if isinstance(policy := kept.get("runPolicy"), Mapping):
        kept["runPolicy"] = {name: value for name, value in policy.items() if name != _EXPIRES}
    return {**body, "spec": kept}


def _pods(template: Obj, info: PodSetInfo, name: str, index: int) -> Obj:
    """Returns a pod template with the admission's changes, our label and the component's index."""
    result = placed(template, info)
    meta = result["metadata"]
    # Another AppWrapper's name would count these pods for that one.
    meta["labels"] = union("label", {names.LABEL: name}, meta.get("labels"))
    meta["annotations"] = {**(meta.get("annotations") or {}), names.COMPONENT_ANNOTATION: str(index)}
    return keep_away(result)


# --- an AppWrapper of plain manifests ------------------------------------------------------------------
# Builds an AppWrapper from plain manifests. All functions here are pure.

_NOT_COPIED: Final = (QUEUE_NAME_LABEL, LABEL)


class WrapError(Exception):
    """These manifests cannot form one AppWrapper. The message contains the reason."""


def wrap(
    manifests: Sequence[Mapping[str, Any]],
    *,
    name: str,
    namespace: str | None = None,
    queue: str | None = None,
) -> dict[str, Any]:
    """Returns the AppWrapper. Raises WrapError.

    A queue that the manifests name becomes the AppWrapper's queue, because wrapped resources are not queued
    by themselves. With a queue the AppWrapper starts suspended, so it waits for Kueue even where no webhook
    suspends it.
    """
    queues = {_labels(manifest).get(QUEUE_NAME_LABEL) for manifest in manifests} - {None}
    namespaces = {(manifest.get("metadata") or {}).get("namespace") for manifest in manifests} - {None}
    if queue is None and len(queues) > 1:
        raise WrapError(f"they name several queues: {', '.join(sorted(map(str, queues)))}")
    if namespaces - {namespace} and (namespace or len(namespaces) > 1):
        raise WrapError(f"they name other namespaces: {', '.join(sorted(map(str, namespaces)))}")
    for manifest in manifests:
        if isinstance(manifest.get("spec"), Mapping) and manifest["spec"].get("suspend") is True:
            raise WrapError(f"{manifest.get('kind')} says suspend: true, so it would never run: remove that")
    queue = queue or next((str(name) for name in queues), None)
    namespace = namespace or next((str(name) for name in namespaces), None)
    metadata: dict[str, Any] = {"name": name}
    if namespace:
        metadata["namespace"] = namespace
    if queue:
        metadata["labels"] = {QUEUE_NAME_LABEL: queue}
    spec: dict[str, Any] = {"suspend": True} if queue else {}
    spec["components"] = [{"template": _copied(manifest)} for manifest in manifests]
    return {
        "apiVersion": APPWRAPPER.api_version,
        "kind": APPWRAPPER.kind,
        "metadata": metadata,
        "spec": spec,
    }


def _labels(manifest: Mapping[str, Any]) -> Mapping[str, Any]:
    return (manifest.get("metadata") or {}).get("labels") or {}


def _copied(manifest: Mapping[str, Any]) -> dict[str, Any]:
    """Returns the component without its own queue, the AppWrapper of a copy and what the API server sets."""
    meta = dict(manifest.get("metadata") or {})
    labels = {name: value for name, value in _labels(manifest).items() if name not in _NOT_COPIED}
    for key in ("labels", "uid", "resourceVersion", "generation", "creationTimestamp", "managedFields"):
        meta.pop(key, None)
    if labels:
        meta["labels"] = labels
    return {**{key: value for key, value in manifest.items() if key != "status"}, "metadata": meta}
