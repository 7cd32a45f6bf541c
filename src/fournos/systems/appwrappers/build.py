"""Builds the wrapped resources: a component's template with label, owner and the admission's changes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from fournos.api.kinds import APPWRAPPER
from fournos.engine.kube.resource import Obj, owner_reference, uid_of
from fournos.engine.queueing.ancestors import generated_name
from fournos.engine.queueing.podsets import PodSetInfo, placed, union
from fournos.systems.appwrappers import names
from fournos.systems.appwrappers.autopilot import keep_away
from fournos.systems.appwrappers.kinds import PodSetSpec, wrapped_kind
from fournos.systems.appwrappers.paths import replaced
from fournos.systems.appwrappers.settings import AppWrapperSettings
from fournos.systems.appwrappers.templateless_kinds import marks


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


def component(
    wrapper: Obj, index: int, pod_sets: Sequence[PodSetSpec], settings: AppWrapperSettings
) -> dict[str, Any]:
    """Returns the object to create.

    Raises PodSetInfoError if template and admission contradict each other, and PathError if a path does not
    lead to a pod template.
    """
    spec, name = wrapper["spec"]["components"][index], wrapper["metadata"]["name"]
    body: Obj = spec["template"]
    stored = spec.get("podSetInfos") or ()
    infos = [pod_set_info(stored[i] if i < len(stored) else {}) for i in range(len(pod_sets))]
    kind = wrapped_kind(body)
    if kind is not None and kind.bare is not None:
        body = kind.bare.place(body, [marks(name, index, info) for info in infos])
    else:
        for pod_set, info in zip(pod_sets, infos, strict=True):

            def change(template: Obj, info: PodSetInfo = info) -> Obj:
                return _pods(template, info, name, index, settings)

            body = replaced(body, pod_set.path, change)
    meta = {key: value for key, value in (body.get("metadata") or {}).items() if key != "generateName"}
    meta["name"] = component_name(wrapper, index)
    meta["namespace"] = wrapper["metadata"]["namespace"]
    meta["labels"] = union("label", {names.LABEL: name}, meta.get("labels"))
    meta["ownerReferences"] = [owner_reference(APPWRAPPER, wrapper)]
    return {**body, "metadata": meta}


def _pods(template: Obj, info: PodSetInfo, name: str, index: int, settings: AppWrapperSettings) -> Obj:
    """Returns a pod template with the admission's changes, our label and the component's index."""
    result = placed(template, info)
    meta, spec = result["metadata"], result["spec"]
    # Another AppWrapper's name would count these pods for that one.
    meta["labels"] = union("label", {names.LABEL: name}, meta.get("labels"))
    meta["annotations"] = {**(meta.get("annotations") or {}), names.COMPONENT_ANNOTATION: str(index)}
    if settings.scheduler_name and not spec.get("schedulerName"):
        spec["schedulerName"] = settings.scheduler_name
    return keep_away(result, settings) if settings.inject_anti_affinities else result
