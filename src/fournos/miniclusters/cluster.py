"""A MiniCluster as the builders see it: its typed spec with what its name, status and the settings add."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from fournos.api.minicluster import DEFAULT_HEADLESS_NAME, MiniClusterSpec
from fournos.api.minicluster_container import Container
from fournos.kube.patches import without_null
from fournos.kube.resource import Obj, owner_reference
from fournos.miniclusters import names
from fournos.miniclusters.kinds import MINICLUSTER
from fournos.miniclusters.settings import MiniClusterSettings
from fournos.miniclusters.status import summary_of

_DEFAULT_NAMESPACE = "default"
"""Of a manifest that names none, as it is rendered without a cluster."""


@dataclass(frozen=True, slots=True)
class Cluster:
    name: str
    namespace: str
    uid: str
    """"" before it is created: what is rendered then has no owner."""
    spec: MiniClusterSpec
    maximum: int
    """Hosts that the brokers are configured for: fixed at the start, whatever the size is later."""
    settings: MiniClusterSettings

    @property
    def runner(self) -> Container:
        return self.spec.runner

    @property
    def beside(self) -> tuple[Container, ...]:
        """The containers of its pods that do not run Flux."""
        found = self.spec.containers
        return tuple(one for index, one in enumerate(found) if index != self.spec.runner_index)

    @property
    def headless_name(self) -> str:
        return self.spec.network.headless_name or DEFAULT_HEADLESS_NAME

    @property
    def domain(self) -> str:
        """What a host's name is completed with."""
        return f"{self.headless_name}.{self.namespace}.svc.{self.settings.cluster_domain}"

    @property
    def mount(self) -> str:
        return self.spec.flux.container.mount_path or "/mnt/flux"

    @property
    def config(self) -> str:
        """Directory of all that is not the view: configuration, state, socket."""
        return f"{self.mount}/config"

    @property
    def socket(self) -> str:
        return f"{self.config}/run/flux/local"

    @property
    def bursted(self) -> bool:
        """Its lead broker is in another cluster: all pods are workers."""
        return self.spec.flux.lead is not None

    @property
    def lead(self) -> str:
        """Host name of the lead broker."""
        return names.lead(self.spec.flux.lead.name if self.spec.flux.lead else self.name)

    @property
    def interactive(self) -> bool:
        """No command, or none that is to run (the page: then it is persistent)."""
        runner = self.runner
        if runner.diagnostics:
            return False
        return self.spec.interactive or not (runner.command or runner.commands.script)

    @property
    def batch(self) -> bool:
        """Whether the command is given to flux batch; batchRaw alone means it, too."""
        runner = self.runner
        return runner.batch or (runner.batch_raw and not (runner.launcher or self.spec.launcher))

    @property
    def retried(self) -> bool:
        """Whether a command that has failed runs again, in another pod."""
        return self.spec.backoff_limit is not None

    @property
    def patience(self) -> int:
        """Seconds between two looks of a pod at how its broker does: each look is a process, and all pods may
        be on one node, so the more they are the seldomer."""
        return max(1, min(30, self.maximum // 4))

    def metadata(self, name: str, *, controller: bool = True, **more: Any) -> dict[str, Any]:
        """Of an object that is made for it."""
        found: dict[str, Any] = {"name": name, "namespace": self.namespace, "labels": names.labels(self.name)}
        if self.uid:
            found["ownerReferences"] = [self.owner_reference(controller=controller)]
        return {**found, **more}

    def owner_reference(self, *, controller: bool = True) -> dict[str, Any]:
        owner = {"metadata": {"name": self.name, "uid": self.uid}}
        return owner_reference(MINICLUSTER, owner, controller=controller)


def spec_of(minicluster: Obj) -> MiniClusterSpec:
    """The typed spec; fields that say null count as absent.  Raises pydantic's ValidationError."""
    return MiniClusterSpec.model_validate(without_null(minicluster.get("spec") or {}))


def cluster_of(minicluster: Obj, settings: MiniClusterSettings) -> Cluster:
    """Raises pydantic's ValidationError."""
    meta, spec = minicluster["metadata"], spec_of(minicluster)
    return Cluster(
        name=meta["name"],
        namespace=meta.get("namespace") or _DEFAULT_NAMESPACE,
        uid=meta.get("uid") or "",
        spec=spec,
        maximum=summary_of(minicluster).maximum_size or spec.maximum,
        settings=settings,
    )
