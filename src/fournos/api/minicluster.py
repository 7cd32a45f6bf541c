"""MiniCluster (flux-framework.org/v1alpha2): a Flux cluster as a custom resource.

The published API: every field of its page and of the current upstream resource, so that existing manifests
apply unchanged.  Both spellings are accepted where the page has two.  `suspend` and `managedBy` are new.
"""

from __future__ import annotations

from datetime import datetime
from typing import Annotated, Final

from pydantic import Field, WithJsonSchema

from fournos.api.kinds import MINICLUSTER
from fournos.api.minicluster_container import Container
from fournos.api.minicluster_flux import FluxSpec
from fournos.api.minicluster_values import Labels, PodSecurityContext, Quantities, a_name, a_path
from fournos.engine.api.crd import Column, Definition, Model, Scale, StatusCondition, described

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


# --- the MiniCluster -----------------------------------------------------------------------------------

DEFAULT_HEADLESS_NAME: Final = "flux-service"
DEFAULT_DEADLINE_SECONDS: Final = 31_500_000
"""Nearly a year, which in effect is no limit (upstream's default)."""
MAX_CONTAINERS: Final = 16


class Network(Model):
    """How the pods find each other."""

    headless_name: str = described("Name of the headless Service.", DEFAULT_HEADLESS_NAME, maxLength=63)
    disable_affinity: bool = described(
        "Leave out the preference for one zone, for one pod a node, and pod.nodeAffinity.", False
    )


class Logging(Model):
    """What the job's log shows."""

    quiet: bool = described("Only the output of the command.", False)
    strict: bool = described("An error in the entrypoint ends it.", True)
    debug: bool = described("More about the submission of the command.", False)
    zeromq: bool = described("Log of the brokers' connections.", False)
    timed: bool = described("Time of the Flux commands, by /usr/bin/time of the image.", False)


class Archive(Model):
    """State that outlives a MiniCluster."""

    path: str | None = a_path("File that is loaded at start, if it exists, and written at the end.")


class MiniClusterSpec(Model):
    """What the cluster is and runs."""

    containers: tuple[Container, ...] = Field(
        description="The containers of each pod; Flux runs in exactly one.",
        json_schema_extra={"maxItems": MAX_CONTAINERS, "x-kubernetes-list-type": "atomic"},
    )
    services: tuple[Container, ...] = described(
        "Containers of one more pod, <name>-services.", (), list_type="atomic", maxItems=MAX_CONTAINERS
    )
    size: int = described(
        "Number of pods; all of them must be up for Flux to start.", 1, crd_default=True, format="int32"
    )
    max_size: int | None = described("Pods that it may be scaled to; default: size.", format="int32")
    min_size: int | None = described("Pods that must be up for Flux to start.", format="int32")
    tasks: int = described(
        "Tasks of the command: 0 asks for nodes only, less than size for tasks only.",
        1,
        crd_default=True,
        format="int32",
        minimum=0,
    )
    interactive: bool = described("Start the brokers without a command.", False)
    launcher: bool = described("The same as launcher of the container that runs Flux.", False)
    job_labels: Labels = described("Labels of the batch Job.", {})
    deadline_seconds: int = described(
        "Longest running time; it starts anew when the MiniCluster is resumed.",
        DEFAULT_DEADLINE_SECONDS,
        crd_default=True,
        format="int64",
        minimum=1,
    )
    backoff_limit: int | None = described(
        "How often failed pods are tried again. Absent: a failed command ends the MiniCluster, and pods that "
        "were killed are replaced.",
        format="int32",
    )
    cleanup: bool = described("Delete the MiniCluster when the lead broker has ended.", False)
    share_process_namespace: bool = described("The containers of a pod see each other's processes.", False)
    network: Network = described("How the pods find each other.", Network())
    flux: FluxSpec = described("Options of Flux.", FluxSpec())
    logging: Logging = described("What the job's log shows.", Logging())
    archive: Archive = described("State that outlives the MiniCluster.", Archive())
    pod: PodSpec = described("Attributes of the pods.", PodSpec())
    resource_claims: tuple[PodResourceClaim, ...] = described(
        "Claims that containers may use.", (), maxItems=64
    )
    suspend: bool = described("While it is true no pod runs; Kueue switches it.", False)
    managed_by: str | None = described(
        "Controller that runs it: flux-framework.org/flux-operator or absent is this one. Never changes.",
        maxLength=63,
    )

    @property
    def maximum(self) -> int:
        """Returns the cluster size for which the brokers are configured."""
        return max(self.size, self.max_size or 0)

    @property
    def runner_index(self) -> int:
        """Returns the index of the container that runs Flux; the rules guarantee that there is one."""
        if len(self.containers) == 1:
            return 0
        marked = [index for index, one in enumerate(self.containers) if one.run_flux]
        unmarked = [index for index, one in enumerate(self.containers) if one.run_flux is None]
        return next(iter((*marked, *unmarked)), 0)

    @property
    def runner(self) -> Container:
        """Returns the container that runs Flux."""
        return self.containers[self.runner_index]


class MiniClusterStatus(Model):
    """What became of it; written by the operator."""

    phase: str | None = described("Waiting, Running, Ready or Finished.")
    size: int | None = described("Number of pods that the batch Job has.", format="int32")
    ready: int | None = described("Pods whose broker is up.", format="int32")
    maximum_size: int | None = described("Largest size, fixed at the start.", format="int32")
    selector: str | None = described("Label selector of the pods, for autoscalers.")
    jobid: str | None = described("UID of the batch Job.")
    exit_code: int | None = described("Exit code of the lead broker: the result.", format="int32")
    message: str | None = described("The phase in a sentence.")
    started_at: datetime | None = described("When the lead broker started.")
    finished_at: datetime | None = described("When the lead broker ended.")
    conditions: tuple[StatusCondition, ...] = described(
        "JobRequested, JobWaitingForResources, JobRunning, JobMiniClusterReady and JobFinished.",
        (),
        list_type="map",
        list_map_keys=("type",),
    )


class MiniCluster(Model):
    """A Flux cluster: brokers in the pods of an Indexed Job, and what they run."""

    spec: MiniClusterSpec | None = described("What the cluster is and runs.")
    status: MiniClusterStatus = described("What became of it; written by the operator.", MiniClusterStatus())


DEFINITION = Definition(
    model=MiniCluster,
    resource=MINICLUSTER,
    singular="minicluster",
    checked_by="fournos minicluster render",
    scale=Scale(".spec.size", ".status.size", ".status.selector"),
    columns=(
        Column("Size", "integer", ".spec.size"),
        Column("Ready", "integer", ".status.ready"),
        Column("Phase", "string", ".status.phase"),
        Column("Exit", "integer", ".status.exitCode"),
        Column("Max", "integer", ".status.maximumSize", priority=1),
        Column("Message", "string", ".status.message", priority=1),
        Column("Age", "date", ".metadata.creationTimestamp"),
    ),
)
