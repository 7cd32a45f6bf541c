"""Options of Flux itself, shared by all pods of a MiniCluster."""

from __future__ import annotations

from typing import Final

from pydantic import Field

from fournos.api.minicluster_values import (
    Resources,
    SecurityContext,
    Variables,
    a_name,
    a_path,
    a_text,
    shell_code,
)
from fournos.engine.api.crd import Model, described

DEFAULT_PORT: Final = 8050
DEFAULT_VIEW_NAME: Final = "flux-view"
DEFAULT_CONNECT_TIMEOUT: Final = "5s"
DEFAULT_LOG_LEVEL: Final = 6


class FluxContainer(Model):
    """The container that brings Flux: its view is copied beside the application."""

    disable: bool = described("The application's image has Flux; this one only sets up files.", False)
    name: str = described("Its name.", DEFAULT_VIEW_NAME, maxLength=63)
    image: str | None = described("Its image; default: that of the operator's settings.", maxLength=4096)
    working_dir: str | None = a_path("Working directory.")
    python_path: str | None = a_text("PYTHONPATH of Flux; default: that of the view.")
    resources: Resources = described("Limits and requests.", Resources())
    image_pull_secret: str | None = a_name("Secret that the image is pulled with.")
    pull_always: bool = described("Pull the image at every start.", False)
    mount_path: str = described("Where the view is mounted in all containers.", "/mnt/flux", maxLength=4096)
    security_context: SecurityContext | None = described("Security of the container.")


class Scheduler(Model):
    """Options of the scheduler."""

    simple: bool = described("Use sched-simple in place of fluxion.", False)
    queue_policy: str | None = described(
        "Queue policy of Fluxion; default: fcfs.", enum=["", "fcfs", "easy", "hybrid", "conservative"]
    )


class LeadBroker(Model):
    """The lead broker that a bursted cluster connects to."""

    address: str = Field(description="Its IP address or host name.", json_schema_extra={"maxLength": 253})
    name: str = Field(description="Name of its MiniCluster.", json_schema_extra={"maxLength": 63})
    size: int | None = described("Size of its MiniCluster; default: that of this one.", format="int32")
    port: int = described("Its port.", DEFAULT_PORT, format="int32")
    hostlist: str | None = a_text("All hosts of the broker's configuration, in place of those of clusters.")


class BurstedCluster(Model):
    """A cluster that is bursted to."""

    name: str | None = described("Its name; default: burst- and its number.", maxLength=63)
    size: int | None = described("Its size; default: that of this MiniCluster.", format="int32")


class Bursting(Model):
    """Other clusters of the same Flux instance; all of them list the same ones in the same order."""

    lead_broker: LeadBroker | None = described("The lead broker; absent: this MiniCluster has it.")
    hostlist: str | None = a_text("All hosts of the broker's configuration, in place of those of clusters.")
    clusters: tuple[BurstedCluster, ...] = described(
        "The clusters that are bursted to.", (), list_type="atomic", maxItems=64
    )


class FluxSpec(Model):
    """Options of the broker and of the commands."""

    container: FluxContainer = described("The container that brings Flux.", FluxContainer())
    arch: str | None = described("arm for arm images; no binary depends on it any more.", maxLength=64)
    submit_command: str | None = a_text("In place of `flux submit`.")
    wrap: str | None = a_text("Arguments of flux start --wrap.")
    connect_timeout: str | None = described(
        "tbon.connect_timeout of the broker; empty: leave the option out; default: 5s.", maxLength=64
    )
    connext_timeout: str | None = described("Another spelling of connectTimeout.", maxLength=64)
    option_flags: str | None = a_text("Options of the submit command, such as -ompi=openmpi@5.")
    minimal_service: bool = described("Only the lead broker gets a host name.", False)
    disable_socket: bool = described("Do not name the broker's socket.", False)
    topology: str | None = described("tbon.topo of the broker.", maxLength=253)
    no_wait_socket: bool = described("Sidecars do not wait for the broker's socket.", False)
    complete_workers: bool = described("A worker whose broker ends is complete and does not restart.", False)
    log_level: int = described("Log level of the broker, unless quiet.", DEFAULT_LOG_LEVEL, format="int32")
    curve_cert: str | None = shell_code("CURVE certificate, to share one; default: one is made.")
    scheduler: Scheduler = described("Options of the scheduler.", Scheduler())
    munge_secret: str | None = a_name("Secret with the key munge.key, mounted at /etc/munge.")
    bursting: Bursting = described("Other clusters of the same Flux instance.", Bursting())
    lead_broker: LeadBroker | None = described("Another place of bursting.leadBroker.")
    broker_config: str | None = shell_code("The broker's whole configuration.")
    environment: Variables = described("Variables that the view's environment sets.", {})

    @property
    def timeout(self) -> str:
        """Returns the option's value; "" omits the option, as Flux also does for 0s."""
        stated = (self.connect_timeout, self.connext_timeout)
        return next((text for text in stated if text is not None), DEFAULT_CONNECT_TIMEOUT)

    @property
    def lead(self) -> LeadBroker | None:
        """Returns the lead broker of another cluster if this one is bursted; None without its address."""
        named = (self.bursting.lead_broker, self.lead_broker)
        return next((lead for lead in named if lead and lead.address), None)

    @property
    def view_name(self) -> str:
        """Returns the name of the container that provides Flux, and of the volume that it fills."""
        return self.container.name or DEFAULT_VIEW_NAME

    @property
    def hostlist(self) -> str:
        """Returns the user's own list of hosts; "" without one."""
        return self.bursting.hostlist or (self.lead.hostlist if self.lead else None) or ""
