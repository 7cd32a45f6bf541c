"""A MiniCluster as the builders read it: its typed spec, together with its name, status and the settings."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from fournos.api.kinds import MINICLUSTER
from fournos.api.minicluster import DEFAULT_HEADLESS_NAME, MiniClusterSpec
from fournos.api.minicluster_container import Container
from fournos.engine.kube.resource import Obj, owner_reference, without_null
from fournos.systems.miniclusters import names
from fournos.systems.miniclusters.settings import MiniClusterSettings
from fournos.systems.miniclusters.status import summary_of

_DEFAULT_NAMESPACE = "default"
"""The namespace of a manifest without one, when it is rendered without access to a cluster."""


@dataclass(frozen=True, slots=True)
class Cluster:
    """The input of all builders of a MiniCluster's objects."""

    name: str
    namespace: str
    uid: str
    """Empty before the MiniCluster is created. Objects that are rendered then have no owner reference."""
    spec: MiniClusterSpec
    maximum: int
    """The number of hosts that the brokers are configured for.

    It is fixed at the start and does not follow the size.
    """
    settings: MiniClusterSettings

    @property
    def runner(self) -> Container:
        return self.spec.runner

    @property
    def beside(self) -> tuple[Container, ...]:
        """The containers of the pods that do not run Flux."""
        found = self.spec.containers
        return tuple(one for index, one in enumerate(found) if index != self.spec.runner_index)

    @property
    def headless_name(self) -> str:
        return self.spec.network.headless_name or DEFAULT_HEADLESS_NAME

    @property
    def domain(self) -> str:
        """The DNS domain of the hosts."""
        return f"{self.headless_name}.{self.namespace}.svc.{self.settings.cluster_domain}"

    @property
    def mount(self) -> str:
        return self.spec.flux.container.mount_path or "/mnt/flux"

    @property
    def config(self) -> str:
        """The directory of everything that is not part of the view: configuration, state, socket."""
        return f"{self.mount}/config"

    @property
    def socket(self) -> str:
        return f"{self.config}/run/flux/local"

    @property
    def bursted(self) -> bool:
        """True if the lead broker runs in another cluster. All pods are workers then."""
        return self.spec.flux.lead is not None

    @property
    def lead(self) -> str:
        """The host name of the lead broker."""
        return names.lead(self.spec.flux.lead.name if self.spec.flux.lead else self.name)

    @property
    def interactive(self) -> bool:
        """True if no command runs: none is given, or `interactive` is set.

        On the MiniCluster page such a cluster is persistent.
        """
        runner = self.runner
        if runner.diagnostics:
            return False
        return self.spec.interactive or not (runner.command or runner.commands.script)

    @property
    def batch(self) -> bool:
        """True if the command is run by flux batch. `batchRaw` alone implies it."""
        runner = self.runner
        return runner.batch or (runner.batch_raw and not (runner.launcher or self.spec.launcher))

    @property
    def retried(self) -> bool:
        """True if a command that failed is run again in another pod."""
        return self.spec.backoff_limit is not None

    @property
    def patience(self) -> int:
        """Seconds between two checks of a pod on its broker, from 1 to 30.

        Each check starts a process, and all pods may be on one node. The interval therefore grows with the
        number of pods.
        """
        return max(1, min(30, self.maximum // 4))

    def metadata(self, name: str, *, controller: bool = True, **more: Any) -> dict[str, Any]:
        """Returns the metadata of an object that is created for the MiniCluster."""
        meta: dict[str, Any] = {"name": name, "namespace": self.namespace, "labels": names.labels(self.name)}
        if self.uid:
            meta["ownerReferences"] = [self.owner_reference(controller=controller)]
        return {**meta, **more}

    def owner_reference(self, *, controller: bool = True) -> dict[str, Any]:
        owner = {"metadata": {"name": self.name, "uid": self.uid}}
        return owner_reference(MINICLUSTER, owner, controller=controller)


def spec_of(minicluster: Obj) -> MiniClusterSpec:
    """Returns the typed spec.

    Fields with the value null count as absent. Raises pydantic's ValidationError.
    """
    return MiniClusterSpec.model_validate(without_null(minicluster.get("spec") or {}))


def cluster_of(minicluster: Obj, settings: MiniClusterSettings) -> Cluster:
    """Returns the builders' input for a MiniCluster. Raises pydantic's ValidationError."""
    meta, spec = minicluster["metadata"], spec_of(minicluster)
    return Cluster(
        name=meta["name"],
        namespace=meta.get("namespace") or _DEFAULT_NAMESPACE,
        uid=meta.get("uid") or "",
        spec=spec,
        maximum=summary_of(minicluster).maximum_size or spec.maximum,
        settings=settings,
    )
