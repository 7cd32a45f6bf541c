"""FournosCluster (fournos.dev/v1): a cluster that jobs run on.  The single source of its CRD and page."""

from __future__ import annotations

from datetime import datetime
from enum import StrEnum
from typing import Final

from pydantic import Field

from fournos.api.kinds import FOURNOS_CLUSTER
from fournos.engine.api.crd import Column, Definition, Model, StatusCondition, described

MAX_GPU_MODELS: Final = 64
"""Maximum number of entries of an inventory."""
MAX_NAMED: Final = 10
"""Maximum number of jobs named in a status; the others are only counted."""


class KubeconfigStatus(StrEnum):
    VALID = "Valid"
    MISSING = "Missing"
    INVALID = "Invalid"
    UNREACHABLE = "Unreachable"


class Drain(StrEnum):
    WAIT = "Wait"
    STOP = "Stop"


class LockState(StrEnum):
    REQUESTED = "Requested"
    HELD = "Held"
    EXPIRING = "Expiring"
    RELEASING = "Releasing"


class Gpu(Model):
    """GPUs of one model."""

    vendor: str = Field(description="nvidia, amd, intel or habana.", json_schema_extra={"maxLength": 63})
    model: str = Field(
        description="The model as the node's label says it; the vendor's name where there is no label.",
        json_schema_extra={"maxLength": 253},
    )
    short_name: str = Field(
        description="What FournosJobs call it in hardware.gpuType, such as a100; "
        "models that differ only in memory or form share it.",
        json_schema_extra={"maxLength": 63},
    )
    count: int = Field(
        description="GPUs that pods can be given.", json_schema_extra={"minimum": 0, "format": "int32"}
    )
    node_count: int = Field(
        description="Nodes that have them.", json_schema_extra={"minimum": 0, "format": "int32"}
    )


class Hardware(Model):
    """What the nodes have."""

    gpus: tuple[Gpu, ...] = described("GPUs by model.", (), maxItems=MAX_GPU_MODELS, list_type="atomic")
    total_gpus: int | None = Field(
        default=None,
        alias="totalGPUs",
        description="GPUs of all models.",
        json_schema_extra={"minimum": 0, "format": "int32"},
    )
    last_discovery: datetime | None = described("When this was found out.")
    consecutive_failures: int | None = described(
        "Discoveries that failed in a row.", minimum=0, format="int32"
    )
    last_error: str | None = described("Why the last discovery failed.", maxLength=1024)


class FournosClusterSpec(Model):
    """Which cluster, and who has it."""

    kubeconfig_secret: str = Field(
        description="Secret with the cluster's kubeconfig in its key kubeconfig, in the secrets namespace.",
        json_schema_extra={"maxLength": 253},
    )
    owner: str | None = described(
        "Who has the cluster to himself: no job is started there while this is set. Empty: nobody.",
        maxLength=1024,
    )
    ttl: str | None = described(
        "How long the owner has it, such as 30m, 12h or 7d, counted from status.ownerSetAt; "
        "absent: until the owner is removed. Ignored without an owner.",
        maxLength=64,
    )
    drain: Drain | None = described(
        "Start no more jobs on the cluster. Wait lets those that run end, Stop shuts them down. "
        "With an owner, the lock is held when the last has ended. On deletion Stop shuts jobs down, too."
    )
    gpu_discovery_interval: str | None = described(
        "How often the inventory is renewed even if nothing was seen to change, such as 5m; "
        "absent: what the operator's setting says.",
        maxLength=64,
    )
    hardware: Hardware | None = described(
        "Written by the operator when the inventory changes; status.hardware has more."
    )


class Shrinking(Model):
    """GPUs that are gone, but not long enough to lower the quota."""

    vendor: str = Field(description="As in gpus.")
    model: str = Field(description="As in gpus.")
    since: datetime = Field(description="When they were first missed.")


class StatusHardware(Hardware):
    """What the nodes have, and what is about to change."""

    last_attempt: datetime | None = described("When the nodes were last looked at, successfully or not.")
    drivers: tuple[str, ...] = described(
        "Versions of the GPU drivers, as the nodes' labels say them.", (), maxItems=8, list_type="atomic"
    )
    shrinking: tuple[Shrinking, ...] = described(
        "Models with fewer GPUs than said here; the numbers follow if that lasts.",
        (),
        maxItems=MAX_GPU_MODELS,
        list_type="atomic",
    )


class Connection(Model):
    """The last probe of the cluster's API server."""

    version: str | None = described("Version of its Kubernetes.")
    latency_ms: int | None = described("How long it took to answer, roughly.", format="int32")
    certificate_expires: datetime | None = described("When the client certificate expires.")
    secret_version: str | None = described(
        "UID and resourceVersion of the Secret whose kubeconfig was last looked at."
    )
    error: str | None = described("Why it cannot be reached.")
    unreachable_since: datetime | None = described("The first of the failed probes in a row.")


class Lock(Model):
    """The lock of the owner."""

    state: LockState = Field(description="Requested, Held, Expiring or Releasing.")
    owner: str | None = described("For whom.")
    held_since: datetime | None = described("When it was first held.")
    drained_before: bool | None = described(
        "Whether the cluster was drained before the lock was asked for; it then stays drained after its end."
    )
    behind: tuple[str, ...] = described(
        f"Jobs that have to end before it is held, as workload/NAME if they are no FournosJobs; at most "
        f"{MAX_NAMED} are named.",
        (),
        maxItems=MAX_NAMED,
    )
    waiting: tuple[str, ...] = described(
        f"Jobs that wait for its end; at most {MAX_NAMED} are named.", (), maxItems=MAX_NAMED
    )


class FournosClusterStatus(Model):
    """What is known about the cluster; written by the operator."""

    kubeconfig_status: KubeconfigStatus | None = described("Whether the cluster can be reached.")
    locked: bool | None = described("Whether the owner's lock is held; false while it is only requested.")
    lock_expires_at: datetime | None = described("When the owner is removed.")
    owner_set_at: datetime | None = described("When the owner was first seen.")
    lock_job_name: str | None = described("The FournosJob that holds the lock.")
    lock: Lock | None = described("The lock, from its request to its release.")
    gpu_summary: str | None = described("The inventory in one line.")
    hardware: StatusHardware | None = described("What the nodes have.")
    connection: Connection | None = described("The last probe of the cluster's API server.")
    running_jobs: int | None = described(
        "Jobs that occupy the cluster, and Workloads of others that hold its quota; the lock not counted.",
        format="int32",
    )
    decommission: str | None = described("Draining or Removing, while the object is being deleted.")
    discover_requested: str | None = described("The last request for a discovery that was carried out.")
    conditions: tuple[StatusCondition, ...] = described(
        "Facts about the cluster, by type.", (), maxItems=32, list_type="map", list_map_keys=("type",)
    )
    observed_generation: int | None = described(
        "Generation of the spec that this status speaks of.", format="int64"
    )


class FournosCluster(Model):
    """A cluster that jobs run on: found by its kubeconfig Secret, probed, counted and lockable."""

    spec: FournosClusterSpec = Field(description="Which cluster, and who has it.")
    status: FournosClusterStatus = described(
        "What is known about the cluster; written by the operator.", FournosClusterStatus()
    )


DEFINITION = Definition(
    model=FournosCluster,
    resource=FOURNOS_CLUSTER,
    singular="fournoscluster",
    short_names=("fc", "fcluster"),
    columns=(
        Column("Owner", "string", ".spec.owner"),
        Column("GPUs", "string", ".status.gpuSummary"),
        Column("Kubeconfig", "string", ".status.kubeconfigStatus"),
        Column("Locked", "boolean", ".status.locked"),
        Column("Lock Job", "string", ".status.lockJobName", priority=1),
        Column("TTL", "string", ".spec.ttl", priority=1),
        Column("Lock Expires", "string", ".status.lockExpiresAt", priority=1),
        Column("Jobs", "integer", ".status.runningJobs", priority=1),
        Column("Version", "string", ".status.connection.version", priority=1),
        Column("Age", "date", ".metadata.creationTimestamp"),
    ),
)
