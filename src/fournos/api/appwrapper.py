"""AppWrapper (workload.codeflare.dev/v1beta2): resources that are queued and run as one.

The published API: names, types and what is required are upstream's, so that existing manifests apply
unchanged.  The limits are new, and far beyond what Kueue can admit.
"""

from __future__ import annotations

from typing import Annotated, Any, Final

from pydantic import Field, WithJsonSchema

from fournos.api.kinds import APPWRAPPER
from fournos.engine.api.crd import Column, Definition, Model, StatusCondition, described

MAX_COMPONENTS: Final = 128
MAX_POD_SETS: Final = 18
"""Maximum for one component; Kueue's own limit for a whole Workload is 8, in later versions 10 and 18."""

Embedded = Annotated[
    dict[str, Any],
    WithJsonSchema(
        {
            "type": "object",
            "x-kubernetes-embedded-resource": True,
            "x-kubernetes-preserve-unknown-fields": True,
        }
    ),
]
Text = Annotated[str, WithJsonSchema({"type": "string", "maxLength": 32768})]
TextMap = Annotated[
    dict[str, str],
    WithJsonSchema(
        {
            "type": "object",
            "maxProperties": 256,
            "additionalProperties": {"type": "string", "maxLength": 32768},
        }
    ),
]


class PodSet(Model):
    """Where a component declares the pods that it makes."""

    path: str = Field(
        description="Path of the pod template within the component, such as template.spec.template.",
        json_schema_extra={"maxLength": 1024},
    )
    replicas: int | None = described("Number of pods; absent: 1.", format="int32")
    annotations: TextMap = described("Hints for topology-aware scheduling.", {})


class Toleration(Model):
    """A toleration of a pod."""

    key: Text | None = described("Key of the taint.")
    operator: Text | None = described("Exists or Equal.")
    value: Text | None = described("Value of the taint.")
    effect: Text | None = described("Effect of the taint.")
    toleration_seconds: int | None = described("How long NoExecute is tolerated.", format="int64")


class SchedulingGate(Model):
    """What keeps a pod from being scheduled."""

    name: Text = Field(description="Name of the gate.")


class PodSetInfo(Model):
    """What an admission puts into the pods of a pod set."""

    annotations: TextMap = described("Annotations of the pods.", {})
    labels: TextMap = described("Labels of the pods.", {})
    node_selector: TextMap = described("Node labels that the pods need.", {})
    tolerations: tuple[Toleration, ...] = described("Tolerations of the pods.", (), maxItems=256)
    scheduling_gates: tuple[SchedulingGate, ...] = described("Gates of the pods.", (), maxItems=64)


class Component(Model):
    """One wrapped resource."""

    annotations: TextMap = described("For people and tools; not used by the controller.", {})
    pod_sets: tuple[PodSet, ...] = described(
        "The pods that the resource makes; absent: inferred, for the kinds that allow it. Never changes.",
        (),
        maxItems=MAX_POD_SETS,
    )
    pod_set_infos: tuple[PodSetInfo, ...] = described(
        "Written at admission, parallel to the pod sets.", (), maxItems=MAX_POD_SETS
    )
    template: Embedded = Field(description="The resource itself. Never changes.")


class AppWrapperSpec(Model):
    """What is wrapped."""

    components: tuple[Component, ...] = Field(
        description="The resources, in the order in which they are made.",
        json_schema_extra={"maxItems": MAX_COMPONENTS},
    )
    suspend: bool = described("While it is true nothing of it runs; Kueue switches it.", False)
    managed_by: str | None = described(
        "Controller that runs it: workload.codeflare.dev/appwrapper-controller or absent is this one. "
        "Never changes.",
        maxLength=1024,
    )


class StatusPodSet(Model):
    """A pod set of a component, declared or inferred."""

    path: str = Field(description="Path of the pod template within the component.")
    replicas: int | None = described("Number of pods; absent: 1.", format="int32")
    annotations: TextMap = described("Hints for topology-aware scheduling.", {})


class ComponentStatus(Model):
    """What became of a component."""

    name: str = Field(description="Name of the resource; empty before it is made.")
    kind: str = Field(description="Kind of the resource.")
    api_version: str = Field(description="Group and version of the resource.")
    pod_sets: tuple[StatusPodSet, ...] = Field(description="Its pod sets, declared or inferred.")
    conditions: tuple[StatusCondition, ...] = described(
        "Facts about the component, by type.", (), list_type="map", list_map_keys=("type",)
    )

    def condition(self, type_: str) -> StatusCondition | None:
        """Returns the condition of this type, if any."""
        return next((one for one in self.conditions if one.type == type_), None)

    def is_true(self, type_: str) -> bool:
        found = self.condition(type_)
        return found is not None and found.status == "True"


class AppWrapperStatus(Model):
    """What became of it; written by the operator."""

    phase: str | None = described(
        "Suspended, Resuming, Running, Resetting, Suspending, Succeeded, Failed or Terminating."
    )
    resetting_count: int | None = described(
        "How often it was reset after a failure that counts.", format="int32"
    )
    conditions: tuple[StatusCondition, ...] = described(
        "Facts about the AppWrapper, by type.", (), list_type="map", list_map_keys=("type",)
    )
    component_status: tuple[ComponentStatus, ...] = described("Parallel to spec.components.", ())


class AppWrapper(Model):
    """Resources of any kind that Kueue queues and admits as one, and that succeed, fail and stop as one."""

    spec: AppWrapperSpec | None = described("What is wrapped.")
    status: AppWrapperStatus = described("What became of it; written by the operator.", AppWrapperStatus())


def _condition(name: str, type_: str) -> Column:
    return Column(name, "string", f'.status.conditions[?(@.type=="{type_}")].status')


DEFINITION = Definition(
    model=AppWrapper,
    resource=APPWRAPPER,
    singular="appwrapper",
    short_names=("aw",),
    columns=(
        Column("Status", "string", ".status.phase"),
        _condition("Quota Reserved", "QuotaReserved"),
        _condition("Resources Deployed", "ResourcesDeployed"),
        _condition("Unhealthy", "Unhealthy"),
        Column("Age", "date", ".metadata.creationTimestamp"),
    ),
)
