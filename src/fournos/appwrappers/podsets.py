"""The pod sets of components: declared where the user says them, else inferred."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from fournos.appwrappers.kinds import PodSetSpec, infer
from fournos.appwrappers.paths import pod_template
from fournos.kube.resource import Obj


def declared(component: Mapping[str, Any]) -> tuple[PodSetSpec, ...]:
    return tuple(
        PodSetSpec(
            one["path"], 1 if one.get("replicas") is None else one["replicas"], one.get("annotations") or {}
        )
        for one in component.get("podSets") or ()
    )


def pod_sets_of(component: Mapping[str, Any]) -> tuple[PodSetSpec, ...]:
    """The declared order counts: it numbers the pod sets of the Workload.  Raises InferenceError."""
    return declared(component) or infer(component["template"])


def all_pod_sets(wrapper: Obj) -> Iterator[tuple[int, PodSetSpec, Obj]]:
    """Component, pod set, pod template.  Raises InferenceError and PathError."""
    for index, component in enumerate((wrapper.get("spec") or {}).get("components") or ()):
        for pod_set in pod_sets_of(component):
            yield index, pod_set, pod_template(component["template"], pod_set.path)
