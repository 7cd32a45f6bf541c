"""The asynchronous client."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from fournos.api.kinds import APPWRAPPER, FOURNOS_CLUSTER, FOURNOS_SCHEDULE, MINICLUSTER
from fournos.client.clusters import AsyncCluster, AsyncQueue
from fournos.client.connection import ClientConnection, Handles, by_phase
from fournos.client.errors import MissingError, typed
from fournos.client.job_methods import JobMethods
from fournos.client.schedules import AsyncSchedule, schedule_body
from fournos.client.workloads import AsyncAppWrapper, AsyncMiniCluster, AsyncObject
from fournos.engine.kube.errors import KubeError
from fournos.engine.kube.resource import Key
from fournos.engine.queueing.kinds import LOCAL_QUEUE, RESOURCE_FLAVOR
from fournos.insight.jobs import newest_first
from fournos.insight.source import clusters_namespace, or_error
from fournos.insight.values import name_of

if TYPE_CHECKING:
    from fournos.client.submission import JobSpec, Manifest
    from fournos.engine.kube.resource import Resource
    from fournos.insight.queues import QueueEntry
    from fournos.systems.frameworks.kinds import Framework


class KindMethods(ClientConnection):
    """What a client does with all kinds but jobs."""

    # --- clusters and queues -----------------------------------------------------------------------------

    @typed
    async def clusters(self, *, namespace: str | None = None) -> Handles[AsyncCluster]:
        """Returns the clusters that jobs run on, sorted by name.

        The namespace defaults to HEARTH_NAMESPACE, else "hearth".
        """
        found = await self._listed(FOURNOS_CLUSTER, namespace=namespace or clusters_namespace())
        return Handles(AsyncCluster(self, one) for one in sorted(found, key=name_of))

    @typed
    async def cluster(self, name: str, *, namespace: str | None = None) -> AsyncCluster:
        """Returns the cluster of this name.  Raises MissingError."""
        where = namespace or clusters_namespace()
        command = "fournos cluster list"
        try:
            found = await self._found(FOURNOS_CLUSTER, name, noun="cluster", namespace=where, command=command)
        except MissingError:
            if isinstance(await or_error(self.api.get(RESOURCE_FLAVOR, Key("", name))), KubeError):
                raise
            raise MissingError(
                f"{name} is a cluster of Kueue's quota alone: namespace {where} has no FournosCluster {name}",
                fix="make its FournosCluster (docs/hearth.md), or hold it with a job: "
                f"fournos submit --set lockOnly=true --set cluster={name}",
            ) from None
        return AsyncCluster(self, found)

    @typed
    async def queues(self) -> Handles[AsyncQueue]:
        """Returns the LocalQueues of the namespace, sorted by name."""
        found = await self._listed(LOCAL_QUEUE)
        return Handles(AsyncQueue(self, one) for one in sorted(found, key=name_of))

    @typed
    async def queue(self, name: str | None = None) -> list[QueueEntry]:
        """Returns the pending objects of a LocalQueue's ClusterQueue, in order, each with its reason.

        The objects are of all namespaces that share the ClusterQueue.
        """
        from fournos.insight.queues import entries, gather_queue

        found = await gather_queue(self.api, self.namespace, name or self.queue_name)
        return entries(found, datetime.now(UTC))

    # --- schedules -----------------------------------------------------------------------------------------

    @typed
    async def schedules(self, *, selector: str = "", everywhere: bool = False) -> Handles[AsyncSchedule]:
        """Returns the schedules of the namespace, sorted by name; `everywhere` means all namespaces."""
        found = await self._listed(FOURNOS_SCHEDULE, selector=selector, everywhere=everywhere)
        return Handles(AsyncSchedule(self, one) for one in sorted(found, key=name_of))

    @typed
    async def schedule(self, name: str) -> AsyncSchedule:
        """Returns the schedule of this name.  Raises MissingError."""
        found = await self._found(FOURNOS_SCHEDULE, name, noun="schedule", command="fournos schedule list")
        return AsyncSchedule(self, found)

    @typed
    async def create_schedule(
        self,
        /,
        name: str,
        job: JobSpec,
        times: str | Sequence[str],
        *,
        time_zone: str,
        matrix: Mapping[str, Sequence[Any]] | None = None,
        **options: Any,
    ) -> AsyncSchedule:
        """Creates a schedule of a job and returns its handle.

        `times` are cron expressions of five fields, or @daily and the like, in the IANA `time_zone`.  Each
        time there is one job for each combination of the values of `matrix`, path → values.  `options` are
        further fields of a FournosSchedule's spec, such as concurrency_policy="Replace".
        Times and jobs are checked first: raises FournosError and ManifestError.
        """
        matrix = matrix or {}
        body = schedule_body(name, job, times, time_zone, owner=self.owner, matrix=matrix, options=options)
        return AsyncSchedule(self, await self.api.create(FOURNOS_SCHEDULE, self._placed(body)))

    # --- AppWrappers ---------------------------------------------------------------------------------------

    @typed
    async def appwrappers(
        self, *, phase: str | Sequence[str] = (), selector: str = "", everywhere: bool = False
    ) -> Handles[AsyncAppWrapper]:
        """Returns the AppWrappers of the namespace, newest first; `everywhere` means all namespaces."""
        found = await self._listed(APPWRAPPER, selector=selector, everywhere=everywhere)
        handles = [AsyncAppWrapper(self, one) for one in newest_first(found)]
        return by_phase(handles, phase)

    @typed
    async def appwrapper(self, name: str) -> AsyncAppWrapper:
        """Returns the AppWrapper of this name.  Raises MissingError."""
        found = await self._found(APPWRAPPER, name, noun="AppWrapper", command="fournos appwrapper list")
        return AsyncAppWrapper(self, found)

    @typed
    async def submit_appwrapper(
        self,
        resources: Manifest | Sequence[Mapping[str, Any]],
        *,
        name: str | None = None,
        queue: str | None = None,
    ) -> AsyncAppWrapper:
        """Submits an AppWrapper and returns its handle.

        `resources` is an AppWrapper, or the resources to wrap: manifests, or the path of a file with them.
        The client checks them first and raises ManifestError.  `name` is by default that of the first
        resource, `queue` the LocalQueue that the resources name.
        """
        from fournos.client.submission import appwrapper

        wanted = self._placed(appwrapper(resources, name=name, queue=queue))
        return AsyncAppWrapper(self, await self.api.create(APPWRAPPER, wanted))

    # --- MiniClusters --------------------------------------------------------------------------------------

    @typed
    async def miniclusters(
        self, *, phase: str | Sequence[str] = (), selector: str = "", everywhere: bool = False
    ) -> Handles[AsyncMiniCluster]:
        """Returns the MiniClusters of the namespace, newest first; `everywhere` means all namespaces."""
        found = await self._listed(MINICLUSTER, selector=selector, everywhere=everywhere)
        return by_phase([AsyncMiniCluster(self, one) for one in newest_first(found)], phase)

    @typed
    async def minicluster(self, name: str) -> AsyncMiniCluster:
        """Returns the MiniCluster of this name.  Raises MissingError."""
        found = await self._found(MINICLUSTER, name, noun="MiniCluster", command="fournos minicluster list")
        return AsyncMiniCluster(self, found)

    @typed
    async def submit_minicluster(self, manifest: Manifest) -> AsyncMiniCluster:
        """Submits a MiniCluster and returns its handle.

        `manifest` is a mapping or the path of a file.  The client checks it first, by the API server's rules,
        and raises ManifestError.
        """
        from fournos.client.submission import minicluster

        wanted = self._placed(minicluster(manifest))
        return AsyncMiniCluster(self, await self.api.create(MINICLUSTER, wanted))

    # --- any kind ----------------------------------------------------------------------------------------

    @typed
    async def objects(
        self, kind: str, *, selector: str | None = None, everywhere: bool = False
    ) -> Handles[AsyncObject]:
        """Returns the objects of a kind, newest first; by default those that name a queue.

        `kind` is a kind that is queued by configuration, such as "PipelineRun", or Kind.version.group of any
        kind.  The file of FOURNOS_FRAMEWORKS_FILE adds kinds.  The selector "" selects all objects.
        """
        from fournos.engine.queueing.workload import QUEUE_NAME_LABEL

        wanted = QUEUE_NAME_LABEL if selector is None else selector
        resource, framework = _kind(kind)
        found = await self._listed(resource, selector=wanted, everywhere=everywhere)
        return Handles(AsyncObject(self, one, resource, framework) for one in newest_first(found))

    @typed
    async def object(self, kind: str, name: str) -> AsyncObject:
        """Returns the object of this kind and name; `kind` as in `objects`.  Raises MissingError."""
        resource, framework = _kind(kind)
        found = await self._found(resource, name, noun=resource.kind)
        return AsyncObject(self, found, resource, framework)


def _kind(text: str) -> tuple[Resource, Framework | None]:
    from fournos.insight.frameworks import kinds_of, resource_named

    return resource_named(text, kinds_of(os.environ.get("FOURNOS_FRAMEWORKS_FILE", "")))


class AsyncClient(JobMethods, KindMethods):
    """A connection to an API server with Fournos, with a default namespace and owner for jobs.

    Without arguments the configuration is that of the command line: the credentials come from KUBECONFIG, the
    pod's ServiceAccount or ~/.kube/config, the namespace from FOURNOS_NAMESPACE, then the context, and the
    owner from FOURNOS_OWNER.  `credentials` replaces the lookup of credentials.  `api` is an open connection
    that the caller owns.  `patience` is the number of seconds for which a read of the history is repeated
    while its store does not answer.  Use `async with`, or call `close()`.
    """
