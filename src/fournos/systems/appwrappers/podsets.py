"""The pod sets of components: declared by the user, otherwise inferred."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any

from fournos.engine.kube.resource import Obj
from fournos.systems.appwrappers.kinds import InferenceError, PodSetSpec, infer, wrapped_kind
from fournos.systems.appwrappers.paths import PathError, pod_template


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
    if kind is None or kind.bare is None:
        return pod_template(template, path)
    try:
        templates = {request.path: request.pod for request in kind.bare.requests(template)}
    except ValueError as error:
        raise InferenceError(str(error)) from None
    if path not in templates:
        raise PathError(f"{path!r} is not a pod set of a {kind.resource.kind}: {', '.join(templates)}")
    return templates[path]


def all_pod_sets(wrapper: Obj) -> Iterator[tuple[int, PodSetSpec, Obj]]:
    """Yields component index, pod set and pod template. Raises InferenceError and PathError."""
    for index, component in enumerate((wrapper.get("spec") or {}).get("components") or ()):
        for pod_set in pod_sets_of(component):
            yield index, pod_set, template_of(component["template"], pod_set.path)
