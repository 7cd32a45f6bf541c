"""The pods of a MiniCluster: attributes that apply to all of them."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field, WithJsonSchema

from fournos.api.minicluster_security import PodSecurityContext
from fournos.api.minicluster_values import Labels, Quantities, a_name
from fournos.engine.api.crd import Model, described

_Affinity = Annotated[
    dict[str, tuple[str, ...]],
    WithJsonSchema(
        {
            "type": "object",
            "maxProperties": 64,
            "additionalProperties": {
                "type": "array",
                "maxItems": 256,
                "items": {"type": "string", "maxLength": 253},
            },
        }
    ),
]


class Toleration(Model):
    """A toleration of the pods."""

    key: str | None = a_name("Key of the taint.")
    effect: str | None = a_name("Effect of the taint, such as NoSchedule.")
    operator: str | None = a_name("Exists or Equal.")
    value: str | None = a_name("Value of the taint.")
    toleration_seconds: int | None = described("How long NoExecute is tolerated.", format="int64")


class PodResourceClaim(Model):
    """A claim of dynamic resource allocation."""

    name: str = Field(
        description="Name by which containers refer to it.", json_schema_extra={"maxLength": 253}
    )
    resource_claim_name: str | None = a_name("An existing ResourceClaim.")
    resource_claim_template_name: str | None = a_name("Template that a claim is made from, one a pod.")


class PodSpec(Model):
    """Attributes of each pod of the Indexed Job, and of the services pod."""

    annotations: Labels = described("Annotations of the pods.", {})
    labels: Labels = described("Labels of the pods; `namespace` is set by the operator.", {})
    restart_policy: str | None = described(
        "OnFailure restarts a failed container where it is; default: Never, a failed pod is replaced.",
        enum=["", "Never", "OnFailure"],
    )
    service_account_name: str | None = a_name("ServiceAccount of the pods.")
    runtime_class_name: str | None = a_name("RuntimeClass of the pods; its overhead is added by Kubernetes.")
    automount_service_account_token: bool | None = described(
        "Whether the pods get the ServiceAccount's token; absent: as the ServiceAccount says."
    )
    scheduler_name: str | None = a_name("Scheduler of the pods.")
    node_selector: Labels = described("Labels of the nodes that the pods may run on.", {})
    node_affinity: _Affinity = described(
        "Node label to the values that are allowed; not with network.disableAffinity.", {}
    )
    tolerations: tuple[Toleration, ...] = described("Taints that the pods tolerate.", (), maxItems=256)
    dns_policy: str | None = a_name("DNS policy of the pods; default: ClusterFirst.")
    host_ipc: bool = Field(default=False, alias="hostIPC", description="Use the IPC namespace of the node.")
    host_pid: bool = Field(
        default=False, alias="hostPID", description="Use the process namespace of the node."
    )
    resources: Quantities = described(
        "Resources of the pod as a whole: cpu, memory and huge pages are pod-level requests, all others are "
        "asked for by the container that runs Flux.",
        {},
    )
    security_context: PodSecurityContext | None = described("Security of the pods.")
