"""The handle of a cluster that jobs run on: reads its state, locks, drains and discovers it."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from fournos.api.kinds import FOURNOS_CLUSTER
from fournos.client.errors import FournosError, typed
from fournos.client.handles import PATIENCE, AsyncHandle, Seconds
from fournos.client.views import View
from fournos.engine.api.conditions import is_true
from fournos.engine.api.values import format_time
from fournos.engine.queueing.kinds import LOCAL_QUEUE
from fournos.insight.clusters import (
    discover_change,
    drain_change,
    drained,
    lock_change,
    lock_of,
    locked_for,
    looked_at,
    unlock_change,
)
from fournos.insight.values import spec_of, status_of

if TYPE_CHECKING:
    from fournos.insight.queues import QueueEntry


class ClusterView(View):
    """A typed view of a cluster as last read; `raw` is the whole object."""

    @property
    def owner(self) -> str | None:
        """The owner of the held or requested lock; None if the cluster takes jobs of any owner."""
        return spec_of(self.raw).get("owner") or None

    @property
    def locked(self) -> bool:
        """True if the owner holds the lock; False while the lock is only requested."""
        return bool(status_of(self.raw).get("locked"))

    @property
    def draining(self) -> bool:
        """True if a drain is requested, whether or not jobs still run."""
        return bool(spec_of(self.raw).get("drain"))

    @property
    def gpus(self) -> str:
        """The GPUs, such as "2x NVIDIA-L40S"; "" if none are known."""
        return str(status_of(self.raw).get("gpuSummary") or "")

    @property
    def running_jobs(self) -> int:
        """The number of jobs that run on the cluster."""
        return int(status_of(self.raw).get("runningJobs") or 0)

    @property
    def phase(self) -> str:
        """Locked, Draining or Open."""
        return "Locked" if self.locked else "Draining" if self.draining else "Open"

    def _columns(self) -> dict[str, Any]:
        return {
            **super()._columns(),
            "owner": self.owner,
            "locked": self.locked,
            "draining": self.draining,
            "gpus": self.gpus,
            "running_jobs": self.running_jobs,
        }


class AsyncCluster(AsyncHandle, ClusterView):
    """The handle of one cluster, identified by its UID.

    The methods that change it wait until the change has taken effect; with `timeout=0` they return after the
    request.  They raise WaitTimeout after `timeout` (seconds or timedelta); the request stays in force.
    """

    _resource = FOURNOS_CLUSTER
    _noun = "cluster"
    _ends = False

    @typed
    async def lock(
        self,
        *,
        owner: str | None = None,
        ttl: str | None = None,
        drain: str | None = None,
        timeout: Seconds = PATIENCE,
    ) -> None:
        """Locks the cluster for `owner`, which defaults to the client's owner.

        `ttl` limits the lock, such as "4h".  `drain` is "wait" (running jobs end by themselves) or "stop"
        (they are shut down).  Raises FournosError if there is no owner or another owner has the lock.
        """
        who = owner or self._client.owner
        if not who:
            raise FournosError("for whom?", fix="name the owner: owner=…, or FOURNOS_OWNER")
        await self._patch(lambda: lock_change(self._raw, who, ttl=ttl, drain=drain, now=self._client.now()))
        await self._effect(lambda: locked_for(self._raw, who), timeout, f"the lock for {who} is not held")

    @typed
    async def unlock(self, *, timeout: Seconds = PATIENCE) -> None:
        """Releases the lock.  The cluster takes jobs again, unless it was drained before it was locked."""
        await self._patch(lambda: unlock_change(self._raw))
        await self._effect(lambda: not lock_of(self._raw), timeout, "the lock is still being released")

    @typed
    async def drain(self, *, stop: bool = False, timeout: Seconds = PATIENCE) -> None:
        """Stops the admission of jobs to the cluster and waits until the running jobs have ended.

        `stop` shuts the running jobs down.
        """
        await self._patch(lambda: {"spec": drain_change("stop" if stop else "wait")})
        await self._effect(lambda: drained(self._raw), timeout, "some jobs still run")

    @typed
    async def undrain(self) -> None:
        """Ends the draining: the cluster takes jobs again."""
        await self._patch(lambda: {"spec": {"drain": None}})

    @typed
    async def discover(self, *, timeout: Seconds = PATIENCE) -> None:
        """Requests a new discovery of the cluster: its Secret, its API server and its nodes."""
        asked = format_time(self._client.now())
        await self._patch(lambda: discover_change(asked))
        await self._effect(lambda: looked_at(self._raw, asked), timeout, "it has not been looked at yet")


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
