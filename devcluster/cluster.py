"""The Python interface for tests, benchmarks and the demo: `up`, `down`, `ensure` and `Cluster`."""

from __future__ import annotations

import contextlib
import os
import signal
from collections.abc import Collection, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, TypedDict, Unpack

from devcluster import namespaces, state
from devcluster.errors import DevclusterError, NotSupportedError
from devcluster.existing import ExistingProvider
from devcluster.kind import KindProvider
from devcluster.locks import file_lock
from devcluster.native import NativeProvider
from devcluster.network import Network
from devcluster.progress import Progress
from devcluster.provider import ComponentStatus, Provider
from devcluster.spec import ClusterSpec, Profile, ProviderName
from devcluster.state import Record

_BUSY_LIMIT = 1800.0  # a concurrent first `up` of the same name may be building the programs


@dataclass(frozen=True)
class Cluster:
    """A running cluster."""

    record: Record

    @property
    def name(self) -> str:
        return self.record.spec.name

    @property
    def kubeconfig_path(self) -> Path:
        """The path of a kubeconfig with inline data; its user is in system:masters (native provider)."""
        return self.record.kubeconfig

    @property
    def host_ip(self) -> str:
        """The address under which the cluster's API server and pods reach this machine (native provider).

        Raises DevclusterError for other providers.
        """
        self._require_native("host_ip")
        return Network(self.record.index, self.name).host_ip

    @property
    def node_ip(self) -> str:
        """The address of the API server and node, as seen from this machine (native provider).

        Raises DevclusterError for other providers.
        """
        self._require_native("node_ip")
        return Network(self.record.index, self.name).node_ip

    def load(self, image_archive: Path, *, progress: Progress | None = None) -> None:
        """Loads the images of a docker archive into the cluster."""
        provider_of(self.record).load(self.record, image_archive, progress or Progress(quiet=True))

    def status(self) -> list[ComponentStatus]:
        return provider_of(self.record).status(self.record)

    def logs(self, component: str, *, tail: int = 200) -> str:
        return provider_of(self.record).logs(self.record, component, tail=tail)

    def kubectl_words(self) -> list[str]:
        """Returns the command that runs kubectl against this cluster, without arguments."""
        return provider_of(self.record).kubectl(self.record)

    def pid(self, component: str) -> int:
        """Returns the PID, in the machine's namespace, of a component of a native cluster.

        Tests use it to kill or pause a process, benchmarks to measure one. Raises DevclusterError if the
        component does not run.
        """
        ref = self.record.processes.get(component)
        inside = namespaces.children(ref) if ref else []
        if not inside:
            raise DevclusterError(f"{component} does not run in cluster {self.name}")
        return inside[0]

    def stop_component(self, component: str) -> None:
        """Kills a component of a native cluster (SIGKILL), for tests of its absence."""
        self.pid(component)
        namespaces.stop(self.record, component)

    def start_component(self, component: str) -> None:
        """Starts a stopped component of a native cluster with its original command; does not wait."""
        if component not in self.record.commands:
            raise DevclusterError(f"{component} is not a process of cluster {self.name}")
        namespaces.start(self.record, component, self.record.commands[component])

    def pause_component(self, component: str) -> None:
        """Stops a component of a native cluster without ending it (SIGSTOP): its sockets hang."""
        os.kill(self.pid(component), signal.SIGSTOP)

    def resume_component(self, component: str) -> None:
        """Lets a paused component go on."""
        os.kill(self.pid(component), signal.SIGCONT)
        # nsenter stops itself together with its child, and would never notice the child's end.
        os.kill(self.record.processes[component].pid, signal.SIGCONT)

    def start_ended(self) -> None:
        """Starts the components of a native cluster that have ended, as a kubelet would; does not wait."""
        for component in self.record.commands:
            try:
                self.pid(component)
            except DevclusterError:
                self.start_component(component)

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
    """True if the cluster has been up once and all its components run now."""
    if record.phase != "ready":
        return False
    with contextlib.suppress(DevclusterError):
        return all(row.state == "running" for row in provider_of(record).status(record))
    return False


def start(spec: ClusterSpec, *, progress: Progress, recreate: bool = False) -> Cluster:
    """Brings the cluster of `spec` up. A healthy cluster of that name and shape is reused.

    An unhealthy cluster of that name is removed first. Raises DevclusterError if a healthy cluster of another
    shape has the name, unless `recreate`.
    """
    shape = spec.shape()
    with file_lock(state.lock_path(spec.name), limit=_BUSY_LIMIT, what=f"Cluster {spec.name}"):
        earlier = state.load(spec.name)
        if earlier is not None:
            running = healthy(earlier)
            if running and earlier.shape == shape and not recreate:
                progress.print(f"Cluster {spec.name} is up already.")
                return Cluster(earlier)
            if running and not recreate:
                other = "other settings than these"
                if earlier.spec.versions != spec.versions:
                    other = f"the versions {earlier.spec.version_set}, not {spec.version_set}"
                raise DevclusterError(
                    f"Cluster {spec.name} is up with {other}",
                    hint=f"Add --recreate, or run `python -m devcluster down {spec.name}` first.",
                )
            if not running:
                progress.print(f"Cluster {spec.name} is there but not healthy: it is removed first.")
            provider_of(earlier).down(earlier, progress)
        record = Record(spec=spec, shape=shape)
        record.save()
        try:
            provider_of(record).up(record, progress)
        except DevclusterError as error:
            if isinstance(error, NotSupportedError) or not (record.index or record.engine):
                state.remove(spec.name)  # nothing was created, so no record is needed for a tear-down
            raise
        except KeyboardInterrupt:
            provider_of(record).down(record, progress)
            raise
        progress.print(f"Cluster {spec.name} is up, versions {spec.version_set}: {record.kubeconfig}")
        return Cluster(record)


def stop(name: str, *, progress: Progress) -> bool:
    """Takes a cluster down, in any condition. Returns False if there was none."""
    with file_lock(state.lock_path(name), limit=_BUSY_LIMIT, what=f"Cluster {name}"):
        record = state.load(name)
        if record is None:
            return False
        provider_of(record).down(record, progress)
    return True


class Shape(TypedDict, total=False):
    """What a native cluster may have beside its name; see ClusterSpec."""

    profile: Profile
    without: Collection[str]
    kueue_config: Mapping[str, Any]
    controllers: str
    durable: bool


def _native(name: str, shape: Shape) -> ClusterSpec:
    without, config = frozenset(shape.get("without", ())), dict(shape.get("kueue_config", {}))
    parts = {**shape, "without": without, "kueue_config": config}
    return ClusterSpec(name=name, **parts)  # type: ignore[arg-type]


def up(
    name: str, *, recreate: bool = False, progress: Progress | None = None, **shape: Unpack[Shape]
) -> Cluster:
    """Brings a native cluster up as `start` does; with `recreate` always anew. Raises DevclusterError."""
    return start(_native(name, shape), progress=progress or Progress(), recreate=recreate)


def ensure(name: str, *, progress: Progress | None = None, **shape: Unpack[Shape]) -> Cluster:
    """Returns the cluster of this name if it is healthy and has this shape, otherwise a new one.

    If a control plane differs in Kueue's configuration alone, only its Kueue is started anew.
    """
    progress, spec = progress or Progress(), _native(name, shape)
    with file_lock(state.lock_path(name), limit=_BUSY_LIMIT, what=f"Cluster {name}"):
        earlier = state.load(name)
        if earlier is not None and differs_in_kueue_alone(earlier, spec) and healthy(earlier):
            _configure_kueue(earlier, spec, progress)
    same = earlier is not None and earlier.shape == spec.shape()
    return start(spec, progress=progress, recreate=not same)


def differs_in_kueue_alone(record: Record, spec: ClusterSpec) -> bool:
    """Returns whether a cluster becomes that of `spec` when its Kueue, a process, is started anew."""
    return (
        record.shape == replace(spec, kueue_config=record.spec.kueue_config).shape()
        and record.shape != spec.shape()
        and "kueue" in record.processes
    )


def _configure_kueue(record: Record, spec: ClusterSpec, progress: Progress) -> None:
    record.spec, record.shape, record.phase = spec, spec.shape(), "starting"
    record.save()  # if this is cut short, the cluster counts as broken
    NativeProvider().configure_kueue(record, progress)
    record.phase = "ready"
    record.save()


def down(name: str, *, progress: Progress | None = None) -> bool:
    """Takes a cluster down. Returns False if there was none. Raises DevclusterError if something remains."""
    return stop(name, progress=progress or Progress())
