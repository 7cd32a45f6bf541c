"""A MiniCluster as a GenericJob of Kueue's job framework."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from fournos.api.kinds import MINICLUSTER
from fournos.engine.api.conditions import is_true
from fournos.engine.kube.resource import Obj, Resource
from fournos.engine.queueing.job import Ended
from fournos.engine.queueing.podsets import PodSetInfo
from fournos.engine.queueing.workload import PodSet
from fournos.systems.miniclusters import names
from fournos.systems.miniclusters.build import pod_sets
from fournos.systems.miniclusters.settings import MiniClusterSettings
from fournos.systems.miniclusters.status import READY, summary_of


@dataclass(frozen=True, slots=True)
class QueuedMiniCluster:
    """Implements GenericJob and its optional capabilities for a MiniCluster."""

    obj: Obj
    settings: MiniClusterSettings
    given_back: int = 0
    """The number of pods that a resize has removed."""
    refused: bool = False
    """True if its pods may not be made. Kueue then evicts it, which releases the quota."""

    @property
    def resource(self) -> Resource:
        return MINICLUSTER

    def pod_sets(self) -> Sequence[PodSet]:
        """Returns the pod sets with the largest size.

        A resize does not change them, so it never costs the running instance its admission.
        """
        return pod_sets(self.obj, self.settings)

    def is_suspended(self) -> bool:
        return bool(self.obj["spec"].get("suspend"))

    def is_active(self) -> bool:
        """True while the claim is in the status.

        The claim is written before the first object is created and removed after the last one is gone.
        """
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

    def held_back(self) -> bool:
        return self.refused

    def start(self, infos: Sequence[PodSetInfo]) -> Obj:
        """Returns the patch that resumes it.

        `infos` are not applied here; they are read from the Workload when the pods are created.
        """
        return {"spec": {"suspend": False}}

    def stop(self, infos: Sequence[PodSetInfo] | None) -> Obj:
        return {"spec": {"suspend": True}}

    def managed_by(self) -> str | None:
        value: str | None = self.obj["spec"].get("managedBy")
        return value
