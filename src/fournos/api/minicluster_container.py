"""The containers of a MiniCluster: of its pods, and of its services pod."""

from __future__ import annotations

from typing import Annotated, Final

from pydantic import Field, WithJsonSchema

from fournos.api.minicluster_values import (
    Items,
    Resources,
    SecurityContext,
    Variables,
    a_name,
    a_path,
    a_text,
    shell_code,
)
from fournos.engine.api.crd import Model, described

DEFAULT_IMAGE: Final = "ghcr.io/rse-ops/accounting:app-latest"
MAX_VOLUMES: Final = 64

_Ports = Annotated[
    tuple[int, ...],
    WithJsonSchema(
        {
            "type": "array",
            "maxItems": 64,
            "x-kubernetes-list-type": "atomic",
            "items": {"type": "integer", "format": "int32", "minimum": 1, "maximum": 65535},
        }
    ),
]


class FluxUser(Model):
    """The user that runs Flux; made if the image does not have it."""

    uid: int = described("Its number; that of an existing user is found out.", 1000, format="int64")
    name: str = described("Its name.", "flux", maxLength=32)


class Commands(Model):
    """Shell code at certain points of the entrypoint."""

    init: str | None = shell_code("Runs before everything, to set PATH, PYTHONPATH or LD_LIBRARY_PATH.")
    pre: str | None = shell_code("Runs on broker and workers after the environment (asFlux too) is set up.")
    worker_pre: str | None = shell_code("Like pre, on the workers only.")
    broker_pre: str | None = shell_code("Like pre, on the lead broker only.")
    pre_worker: str | None = shell_code("Another spelling of workerPre.")
    pre_broker: str | None = shell_code("Another spelling of brokerPre.")
    service_pre: str | None = shell_code("Like pre, in containers that do not run Flux.")
    script: str | None = shell_code("A script of its own in place of command; `\\$` in it means `$`.")
    post: str | None = shell_code("Runs in the entrypoint after everything, also when the command failed.")
    prefix: str | None = a_text("What flux submit, broker and start are wrapped with.")
    run_flux_as_root: bool = described("Run Flux as root.", False)

    @property
    def on_workers(self) -> str:
        return self.worker_pre or self.pre_worker or ""

    @property
    def on_broker(self) -> str:
        return self.broker_pre or self.pre_broker or ""


class ContainerVolume(Model):
    """A volume that exists already, or, with a path alone, an empty one."""

    path: str | None = a_path("Where it is mounted; default for emptyDir: /dev/shm.")
    host_path: str | None = a_path("A directory of the node.")
    config_map_name: str | None = a_name("A ConfigMap.")
    items: Items = described("Key of the ConfigMap or Secret to its path below the mount.", {})
    claim_name: str | None = a_name("A PersistentVolumeClaim.")
    secret_name: str | None = a_name("A Secret.")
    read_only: bool = described("Mount it read-only.", False)
    empty_dir: bool = described("An empty directory of the pod.", False)
    empty_dir_medium: str | None = a_name("memory keeps the empty directory in memory.")
    empty_dir_size_limit: str | None = a_name("The most that the empty directory may hold.")
    csi_driver: str | None = a_name("A CSI driver that makes the volume with the pod.")
    csi_driver_attributes: Items = described("Attributes for the CSI driver.", {})


class SecretKey(Model):
    """A key of a Secret, as the value of a variable."""

    name: str = Field(description="Name of the Secret.", json_schema_extra={"maxLength": 253})
    key: str = Field(description="Key of the Secret.", json_schema_extra={"maxLength": 253})


class LifeCycle(Model):
    """Hooks of a container, as shell code."""

    post_start_exec: str | None = shell_code("Runs right after the container is created.")
    pre_stop_exec: str | None = shell_code("Runs before the container is stopped.")


class Container(Model):
    """A container of the MiniCluster's pods or of its services pod."""

    name: str | None = a_name("Its name; required for those that do not run Flux.")
    image: str = described("Its image.", DEFAULT_IMAGE, maxLength=4096)
    command: str | None = shell_code(
        "What it runs; absent where Flux runs: a MiniCluster that stays, for interactive use."
    )
    commands: Commands = described("Shell code at certain points of the entrypoint.", Commands())
    pre_command: str | None = shell_code("Runs on broker and workers right after asFlux is defined.")
    working_dir: str | None = a_path("Working directory.")
    environment: Variables = described("Variables.", {})
    secrets: dict[str, SecretKey] = described(
        "Variables whose values are keys of Secrets.", {}, maxProperties=256
    )
    ports: _Ports = described("Ports; of a sidecar also those of a Service with its name.", ())
    image_pull_secret: str | None = a_name("Secret that the image is pulled with.")
    pull_always: bool = described("Pull the image at every start.", False)
    image_pull_policy: str | None = described(
        "When the image is pulled; pullAlways wins.", enum=["", "Always", "IfNotPresent", "Never"]
    )
    launcher: bool = described("The command submits to Flux itself: it is not wrapped in flux submit.", False)
    batch: bool = described("Each line of the command is a job of one flux batch.", False)
    batch_raw: bool = described("The command (or script) is the batch script as it is.", False)
    logs: str | None = a_path("Directory of the output of batch jobs; default: /tmp/fluxout.")
    run_flux: bool | None = described("Whether Flux runs here; absent: yes, unless another says so.")
    no_wrap_entrypoint: bool = described(
        "Leave the image's own entrypoint (of a sidecar); `command` is not used then.", False
    )
    cores: int | None = described(
        "Cores of each node as Flux sees them; absent: those that are there.", minimum=1, format="int32"
    )
    diagnostics: bool = described("Run Flux's diagnostics in place of the command, then sleep.", False)
    flux_user: FluxUser | None = described("User that runs Flux; absent: the image's.")
    fluxuser: FluxUser | None = described("Another spelling of fluxUser.")
    volumes: dict[str, ContainerVolume] = described("Volumes by name.", {}, maxProperties=MAX_VOLUMES)
    life_cycle: LifeCycle = described("Hooks.", LifeCycle())
    resources: Resources = described("Limits and requests.", Resources())
    security_context: SecurityContext | None = described("Security of the container.")

    @property
    def user(self) -> FluxUser | None:
        return self.flux_user or self.fluxuser
