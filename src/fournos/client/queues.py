"""The handle of a LocalQueue: what waits in it, in order, with reasons."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from fournos.client.errors import typed
from fournos.client.handles import AsyncHandle
from fournos.client.views import View
from fournos.engine.api.conditions import is_true
from fournos.engine.queueing.workload import LOCAL_QUEUE
from fournos.insight.values import spec_of, status_of

if TYPE_CHECKING:
    from fournos.insight.queues import QueueEntry


class QueueView(View):
    """A view of a LocalQueue as last read; `raw` is the whole object."""

    @property
    def cluster_queue(self) -> str:
        """The ClusterQueue that it leads to."""
        return str(spec_of(self.raw).get("clusterQueue") or "")

    @property
    def pending(self) -> int:
        """The number of objects of this LocalQueue that wait."""
        return int(status_of(self.raw).get("pendingWorkloads") or 0)

    @property
    def admitted(self) -> int:
        """The number of objects of this LocalQueue that Kueue has admitted."""
        return int(status_of(self.raw).get("admittedWorkloads") or 0)

    @property
    def active(self) -> bool:
        """True if Kueue admits objects from this queue."""
        return is_true(self.raw, "Active")

    @property
    def phase(self) -> str:
        """Active, or Inactive: the condition of that name has the reason."""
        return "Active" if self.active else "Inactive"

    def _facts(self, now: datetime) -> list[tuple[str, str]]:
        return [
            ("ClusterQueue", self.cluster_queue),
            ("Pending", str(self.pending)),
            ("Admitted", str(self.admitted)),
        ]

    def _columns(self) -> dict[str, Any]:
        return {
            **super()._columns(),
            "cluster_queue": self.cluster_queue,
            "pending": self.pending,
            "admitted": self.admitted,
        }


class AsyncQueue(AsyncHandle, QueueView):
    """The handle of one LocalQueue, identified by its UID."""

    _resource = LOCAL_QUEUE
    _noun = "queue"
    _phases = ("Active", "Inactive")
    _ends = False

    @typed
    async def waiting(self) -> list[QueueEntry]:
        """Returns the pending objects of its ClusterQueue, in order, each with its reason.

        The objects are of all namespaces that share the ClusterQueue.
        """
        from fournos.insight.queues import entries, gather_queue

        found = await gather_queue(self._client.api, self.namespace, self.name)
        return entries(found, datetime.now(UTC))
