"""A MiniCluster as Kueue's job framework sees it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from fournos.api.conditions import is_true
from fournos.kube.resource import Obj, Resource
from fournos.miniclusters import names
from fournos.miniclusters.build import pod_sets
from fournos.miniclusters.kinds import MINICLUSTER
from fournos.miniclusters.settings import MiniClusterSettings
from fournos.miniclusters.status import READY, summary_of
from fournos.queueing.job import Ended
from fournos.queueing.podsets import PodSetInfo
from fournos.queueing.workload import PodSet


@dataclass(frozen=True, slots=True)
class QueuedMiniCluster:
    obj: Obj
    settings: MiniClusterSettings
    given_back: int = 0
    """Pods that a resize has taken away."""

    @property
    def resource(self) -> Resource:
        return MINICLUSTER

    def pod_sets(self) -> Sequence[PodSet]:
        """By the largest size, which a resize does not change: it never costs the running instance."""
        return pod_sets(self.obj, self.settings)

    def is_suspended(self) -> bool:
        return bool(self.obj["spec"].get("suspend"))

    def is_active(self) -> bool:
        """The claim is written before the first object is made, and taken back after the last is gone."""
        status = summary_of(self.obj)
        return bool(status.maximum_size) and status.phase != "Finished"

    def finished(self) -> Ended | None:
        status = summary_of(self.obj)
        if status.phase != "Finished":
            return None
        return Ended(status.exit_code == 0, status.message or "MiniCluster finished")

    def pods_ready(self) -> bool:
        return is_true(self.obj, READY)

    def reclaimable_pods(self) -> Mapping[str, int]:
        return {names.MAIN_POD_SET: self.given_back} if self.given_back else {}

    def start(self, infos: Sequence[PodSetInfo]) -> Obj:
        """What the admission says about the pods is read from the Workload when they are made."""
        return {"spec": {"suspend": False}}

    def stop(self, infos: Sequence[PodSetInfo] | None) -> Obj:
        return {"spec": {"suspend": True}}

    def managed_by(self) -> str | None:
        value: str | None = self.obj["spec"].get("managedBy")
        return value
