"""An AppWrapper as a GenericJob of Kueue's job framework."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from fournos.api.kinds import APPWRAPPER
from fournos.engine.api.conditions import is_true
from fournos.engine.kube.resource import Obj, Resource
from fournos.engine.queueing.ancestors import COMPONENT_ANNOTATION
from fournos.engine.queueing.ancestors import component as named
from fournos.engine.queueing.job import Ended
from fournos.engine.queueing.podsets import PodSetInfo, PodSetInfoError
from fournos.engine.queueing.workload import PodSet
from fournos.systems.appwrappers.build import stored_info
from fournos.systems.appwrappers.podsets import all_pod_sets, pod_sets_of
from fournos.systems.appwrappers.status import phase_of

_KEPT = ("labels", "annotations")


@dataclass(frozen=True, slots=True)
class QueuedAppWrapper:
    """Implements GenericJob and its optional capabilities for an AppWrapper."""

    obj: Obj

    @property
    def resource(self) -> Resource:
        return APPWRAPPER

    def pod_sets(self) -> Sequence[PodSet]:
        name = str(self.obj["metadata"]["name"]).lower().replace(".", "-")
        return [
            PodSet(f"{name}-{number}", pod_set.replicas, _template(template, self._component(index)))
            for number, (index, pod_set, template) in enumerate(all_pod_sets(self.obj))
        ]

    def _component(self, index: int) -> str:
        return named(self.obj["spec"]["components"][index]["template"], index)

    def is_suspended(self) -> bool:
        return bool(self.obj["spec"].get("suspend"))

    def is_active(self) -> bool:
        return is_true(self.obj, "QuotaReserved")

    def finished(self) -> Ended | None:
        phase = phase_of(self.obj)
        if phase == "Succeeded":
            return Ended(True, "AppWrapper finished successfully")
        if phase == "Failed" and not is_true(self.obj, "ResourcesDeployed"):
            return Ended(False, "AppWrapper failed")
        return None  # a failed AppWrapper whose resources still exist uses its quota

    def pods_ready(self) -> bool:
        return is_true(self.obj, "PodsReady")

    def start(self, infos: Sequence[PodSetInfo]) -> Obj:
        components, rest = [], list(infos)
        for component in self.obj["spec"]["components"]:
            own_count = len(pod_sets_of(component))
            if len(rest) < own_count:
                raise PodSetInfoError(f"expecting more than {len(infos)} podset infos")
            own, rest = rest[:own_count], rest[own_count:]
            components.append({**component, "podSetInfos": [stored_info(info) for info in own]})
        if rest:
            raise PodSetInfoError(f"expecting fewer than {len(infos)} podset infos")
        return {"spec": {"components": components, "suspend": False}}

    def stop(self, infos: Sequence[PodSetInfo] | None) -> Obj:
        components = [
            {key: value for key, value in component.items() if key != "podSetInfos"}
            for component in self.obj["spec"]["components"]
        ]
        return {"spec": {"components": components, "suspend": True}}

    def managed_by(self) -> str | None:
        value: str | None = self.obj["spec"].get("managedBy")
        return value


def _template(template: Obj, name: str) -> Obj:
    """Returns the complete pod template, annotated with its component.

    A field that Kueue does not read does no harm, but a field that is left out would be missing from the
    quota. The annotation allows a component with that name to run on this quota.
    """
    meta = template.get("metadata") or {}
    kept = {key: meta[key] for key in _KEPT if meta.get(key)}
    kept["annotations"] = {**(kept.get("annotations") or {}), COMPONENT_ANNOTATION: name}
    return {"metadata": kept, "spec": template["spec"]}
