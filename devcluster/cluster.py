"""The Python interface: `up`, `down`, `ensure` and `Cluster`, for tests, benchmarks and the demonstration."""

from __future__ import annotations

import contextlib
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from devcluster import namespaces, state
from devcluster.errors import DevclusterError, NotSupportedError
from devcluster.existing import ExistingProvider
from devcluster.kind import KindProvider
from devcluster.locks import file_lock
from devcluster.native import NativeProvider
from devcluster.network import Network
from devcluster.paths import sources_hash
from devcluster.progress import Progress
from devcluster.provider import ComponentStatus, Provider
from devcluster.spec import ClusterSpec, Profile, ProviderName
from devcluster.state import Record

_BUSY_LIMIT = 1800.0  # a first `up` of the same name may be building


@dataclass(frozen=True)
class Cluster:
    """A cluster that is up."""

    record: Record

    @property
    def name(self) -> str:
        return self.record.spec.name

    @property
    def kubeconfig_path(self) -> Path:
        """A kubeconfig with everything inline, user in group system:masters (native provider)."""
        return self.record.kubeconfig

    @property
    def host_ip(self) -> str:
        """Where the cluster's API server and pods reach servers on this machine (native provider).

        Raises DevclusterError for other providers.
        """
        self._require_native("host_ip")
        return Network(self.record.index, self.name).host_ip

    @property
    def node_ip(self) -> str:
        """The address of API server and node, from this machine (native provider). Raises DevclusterError."""
        self._require_native("node_ip")
        return Network(self.record.index, self.name).node_ip

    def load(self, image_archive: Path, *, progress: Progress | None = None) -> None:
        """Makes the images of a docker archive known to the cluster."""
        provider_of(self.record).load(self.record, image_archive, progress or Progress(quiet=True))

    def status(self) -> list[ComponentStatus]:
        return provider_of(self.record).status(self.record)

    def logs(self, component: str, *, tail: int = 200) -> str:
        return provider_of(self.record).logs(self.record, component, tail=tail)

    def kubectl_words(self) -> list[str]:
        """The words that run kubectl against this cluster; append arguments."""
        return provider_of(self.record).kubectl(self.record)

    def pid(self, component: str) -> int:
        """The process of a component inside the native cluster, by its number on the machine.

        For tests that kill or pause one, and benchmarks that measure one. Raises DevclusterError when it
        does not run.
        """
        ref = self.record.processes.get(component)
        inside = namespaces.children(ref) if ref else []
        if not inside:
            raise DevclusterError(f"{component} does not run in cluster {self.name}")
        return inside[0]

    def stop_component(self, component: str) -> None:
        """Kills a process of a native cluster (SIGKILL), for tests of what happens without it."""
        self.pid(component)
        namespaces.stop(self.record, component)

    def start_component(self, component: str) -> None:
        """Starts a stopped process of a native cluster as it was started first; does not wait for it."""
        if component not in self.record.commands:
            raise DevclusterError(f"{component} is no process of cluster {self.name}")
        namespaces.start(self.record, component, self.record.commands[component])

    def _require_native(self, what: str) -> None:
        if self.record.spec.provider != "native":
            raise DevclusterError(f"{what} is known of native clusters only")


def provider_of(record: Record) -> Provider:
    providers: dict[ProviderName, Provider] = {
        "native": NativeProvider(),
        "kind": KindProvider(),
        "existing": ExistingProvider(),
    }
    return providers[record.spec.provider]


def healthy(record: Record) -> bool:
    """Whether the cluster came up once and every component of it runs now."""
    if record.phase != "ready":
        return False
    with contextlib.suppress(DevclusterError):
        return all(row.state == "running" for row in provider_of(record).status(record))
    return False


def start(spec: ClusterSpec, *, progress: Progress, recreate: bool = False) -> Cluster:
    """Brings `spec` up; a healthy cluster of that name and shape is used as it is.

    A half-dead one of that name is removed first. Raises DevclusterError when a healthy one of another shape
    has the name, unless `recreate`.
    """
    shape = spec.shape(sources_hash())
    with file_lock(state.lock_path(spec.name), limit=_BUSY_LIMIT, what=f"Cluster {spec.name}"):
        found = state.load(spec.name)
        if found is not None:
            running = healthy(found)
            if running and found.shape == shape and not recreate:
                progress.say(f"Cluster {spec.name} is up already.")
                return Cluster(found)
            if running and not recreate:
                raise DevclusterError(
                    f"Cluster {spec.name} is up with other settings than these",
                    hint=f"Add --recreate, or run `python -m devcluster down {spec.name}` first.",
                )
            if not running:
                progress.say(f"Cluster {spec.name} is there but not healthy: it is removed first.")
            provider_of(found).down(found, progress)
        record = Record(spec=spec, shape=shape)
        record.save()
        try:
            provider_of(record).up(record, progress)
        except DevclusterError as error:
            if isinstance(error, NotSupportedError) or (not record.index and spec.provider != "kind"):
                state.forget(spec.name)  # nothing was made that anybody could look at
            raise
        except KeyboardInterrupt:
            provider_of(record).down(record, progress)
            raise
        progress.say(f"Cluster {spec.name} is up: {record.kubeconfig}")
        return Cluster(record)


def stop(name: str, *, progress: Progress) -> bool:
    """Takes a cluster down, in whatever condition. False when there was none."""
    with file_lock(state.lock_path(name), limit=_BUSY_LIMIT, what=f"Cluster {name}"):
        record = state.load(name)
        if record is None:
            return False
        provider_of(record).down(record, progress)
    return True


def up(
    name: str,
    *,
    profile: Profile = "full",
    without: Collection[str] = (),
    kueue_config: Mapping[str, Any] | None = None,
    controllers: str | None = None,
    recreate: bool = False,
    progress: Progress | None = None,
) -> Cluster:
    """A native cluster, fresh with `recreate`, else as `start` says. Raises DevclusterError."""
    spec = ClusterSpec(
        name=name,
        profile=profile,
        without=frozenset(without),
        kueue_config=dict(kueue_config or {}),
        controllers=controllers,
    )
    return start(spec, progress=progress or Progress(), recreate=recreate)


def ensure(
    name: str,
    *,
    profile: Profile = "full",
    without: Collection[str] = (),
    kueue_config: Mapping[str, Any] | None = None,
    controllers: str | None = None,
    progress: Progress | None = None,
) -> Cluster:
    """The running cluster of this name if healthy and of this very shape, else a new one in its place."""
    spec = ClusterSpec(
        name=name,
        profile=profile,
        without=frozenset(without),
        kueue_config=dict(kueue_config or {}),
        controllers=controllers,
    )
    found = state.load(name)
    same = found is not None and found.shape == spec.shape(sources_hash())
    return start(spec, progress=progress or Progress(), recreate=not same)


def down(name: str, *, progress: Progress | None = None) -> bool:
    """Takes a cluster down. False when there was none. Raises DevclusterError when something would not go."""
    return stop(name, progress=progress or Progress())
