"""The asynchronous client.

Modules that only submissions need are imported inside of those methods: they take most of the import time.
"""

from __future__ import annotations

import asyncio
import os
import secrets
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any, Final, Self

from fournos.client.clusters import AsyncCluster
from fournos.client.errors import FournosError, MissingError, WaitTimeout, translated, typed
from fournos.client.jobs import ENDED, AsyncJob, Progress, Seconds
from fournos.client.watches import Watches
from fournos.clusters.kinds import FOURNOS_CLUSTER
from fournos.insight.selection import last, matches, missing, newest_first, wanted_phases
from fournos.insight.source import DEFAULT_QUEUE
from fournos.insight.values import name_of
from fournos.jobs.kinds import FOURNOS_JOB
from fournos.kube.api import Api
from fournos.kube.client import Client as HttpClient
from fournos.kube.credentials import Credentials, in_cluster, load
from fournos.kube.errors import (
    AlreadyExistsError,
    ConnectionLostError,
    NotFoundError,
    ServerError,
)
from fournos.kube.resource import Key, Obj, key_of

if TYPE_CHECKING:
    from fournos.client.submission import JobSpec
    from fournos.insight.queues import QueueEntry

LAST: Final = "@last"
_QPS: Final = 1000
_CONNECTIONS: Final = 32
"""The number of jobs of a matrix that are created concurrently."""
_TRIES: Final = 5
_PAUSE: Final = 0.5
"""Seconds before the first retry of a submission with a key; the backoff doubles at each retry."""


class AsyncClient:
    """A connection to an API server with Fournos, with a default namespace and owner for jobs.

    Without arguments the configuration is that of the command line: the credentials come from KUBECONFIG, the
    pod's ServiceAccount or ~/.kube/config, the namespace from FOURNOS_NAMESPACE, then the context, and the
    owner from FOURNOS_OWNER.  `credentials` replaces the lookup of credentials.  `api` is an open connection
    that the caller owns.  Use `async with`, or call `close()`.
    """

    def __init__(
        self,
        *,
        kubeconfig: str | Path | None = None,
        context: str | None = None,
        namespace: str | None = None,
        owner: str | None = None,
        in_cluster: bool = False,
        credentials: Credentials | None = None,
        api: Api | None = None,
    ) -> None:
        self._own: HttpClient | None = None
        self._asked = namespace
        default = "default"
        if api is None:
            found = credentials or _credentials(kubeconfig, context, inside=in_cluster)
            default = found.namespace
            api = self._own = HttpClient(found, name="client", qps=_QPS, burst=_QPS)
        self.api: Api = api
        self.namespace: str = namespace or os.environ.get("FOURNOS_NAMESPACE") or default
        self.owner: str = os.environ.get("FOURNOS_OWNER", "") if owner is None else owner
        self.queue_name: str = os.environ.get("FOURNOS_KUEUE_LOCAL_QUEUE_NAME", DEFAULT_QUEUE)
        self.watches = Watches(api)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    async def close(self) -> None:
        """Closes the connection.  A connection that the caller passed as `api` stays open."""
        if self._own is not None:
            await self._own.close()

    def __repr__(self) -> str:
        return f"<{type(self).__name__} namespace={self.namespace!r} owner={self.owner!r}>"

    # --- jobs ----------------------------------------------------------------------------------------

    @typed
    async def submit(
        self, job: JobSpec, *, key: str | None = None, name: str | None = None, owner: str | None = None
    ) -> AsyncJob:
        """Submits a job and returns its handle.  `job` is a typed spec, a mapping, or the path of a file.

        The client validates the manifest first, by the API server's rules, and raises ManifestError.  With a
        `key` the submission is idempotent: the name is derived from owner and key, and a repeated call
        returns the existing job.  Raises KeyConflict if that job has another spec.  Only a submission with a
        key is retried after a lost connection: without a key a retry could create a second job.
        """
        from fournos.client.submission import manifest
        from fournos.insight.manifests import place

        wanted = manifest(job, owner=self.owner if owner is None else owner, name=name, key=key)
        place(wanted, asked=self._asked, otherwise=self.namespace, asker=("the client", "namespace="))
        if key is None:
            return AsyncJob(self, await self.api.create(FOURNOS_JOB, wanted))
        return AsyncJob(self, await self._create_once(wanted))

    async def _create_once(self, wanted: Obj) -> Obj:
        from fournos.client.submission import same_submission

        pause = _PAUSE
        for attempt in range(1, _TRIES + 1):
            try:
                return await self.api.create(FOURNOS_JOB, wanted)
            except AlreadyExistsError:
                with suppress(NotFoundError):  # deleted between the create and the get: create it again
                    there = await self.api.get(FOURNOS_JOB, key_of(wanted))
                    same_submission(wanted, there)
                    return there
            except (ConnectionLostError, ServerError):
                if attempt == _TRIES:
                    raise
                await asyncio.sleep(pause)
                pause *= 2
        raise FournosError(f"job {name_of(wanted)} comes and goes", fix="try again")

    @typed
    async def job(self, name: str = LAST) -> AsyncJob:
        """Returns the job of this name; "@last" is the newest job, of the client's owner if that is set.

        Raises MissingError.
        """
        if name == LAST:
            found = (await self.api.list(FOURNOS_JOB, namespace=self.namespace)).items
            return AsyncJob(self, last(found, owner=self.owner, namespace=self.namespace))
        try:
            return AsyncJob(self, await self.api.get(FOURNOS_JOB, Key(self.namespace, name)))
        except NotFoundError:
            others = (await self.api.list(FOURNOS_JOB, namespace=self.namespace)).items
            raise MissingError(
                f"no job {name} in namespace {self.namespace}",
                fix=missing(name, [name_of(one) for one in others], self.namespace),
            ) from None

    @typed
    async def jobs(
        self,
        *,
        phase: str | Sequence[str] = (),
        owner: str | None = None,
        cluster: str | None = None,
        selector: str = "",
        everywhere: bool = False,
    ) -> list[AsyncJob]:
        """Returns the jobs of the namespace, newest first.

        The phase "active" means all phases that are not terminal.  `everywhere` means all namespaces.
        """
        phases = wanted_phases([phase] if isinstance(phase, str) else phase)
        namespace = "" if everywhere else self.namespace
        found = (await self.api.list(FOURNOS_JOB, namespace=namespace, selector=selector)).items
        shown = [one for one in found if matches(one, phases=phases, owner=owner, cluster=cluster)]
        return [AsyncJob(self, one) for one in newest_first(shown)]

    # --- clusters and queues -------------------------------------------------------------------------

    @typed
    async def clusters(self, *, namespace: str | None = None) -> list[AsyncCluster]:
        """Returns the clusters that jobs run on, sorted by name.

        The namespace defaults to HEARTH_NAMESPACE, else "hearth".
        """
        found = (await self.api.list(FOURNOS_CLUSTER, namespace=_hearth(namespace))).items
        return [AsyncCluster(self, one) for one in sorted(found, key=name_of)]

    @typed
    async def cluster(self, name: str, *, namespace: str | None = None) -> AsyncCluster:
        """Returns the cluster of this name.  Raises MissingError."""
        where = _hearth(namespace)
        try:
            return AsyncCluster(self, await self.api.get(FOURNOS_CLUSTER, Key(where, name)))
        except NotFoundError:
            others = [name_of(one) for one in (await self.api.list(FOURNOS_CLUSTER, namespace=where)).items]
            raise MissingError(
                f"no cluster {name} in namespace {where}",
                fix=missing(name, others, where, command="fournos cluster", what="clusters"),
            ) from None

    @typed
    async def queue(self, name: str | None = None) -> list[QueueEntry]:
        """Returns the pending objects of a LocalQueue's ClusterQueue, in order, each with its reason.

        The objects are of all namespaces that share the ClusterQueue.
        """
        from fournos.insight.queues import entries, gather_queue

        found = await gather_queue(self.api, self.namespace, name or self.queue_name)
        return entries(found, datetime.now(UTC))

    async def submit_matrix(
        self,
        job: JobSpec,
        axes: Mapping[str, Sequence[Any]],
        *,
        label: str | None = None,
        key: str | None = None,
    ) -> list[AsyncJob]:
        """Submits a job for each combination of the values of `axes`.

        `axes` is path → values, such as {"hardware.gpuCount": [1, 2], "env.MODEL": [...]}.  All jobs carry
        the label fournos.dev/matrix with the value `label`; the default is a random value.  All manifests
        are validated before the first is submitted.  With a `key` the whole call is idempotent.
        """
        from fournos.client.submission import MATRIX_LABEL, base_document, changed, combinations, manifest

        base, chosen = base_document(job), label or f"m-{secrets.token_hex(4)}"
        if key is None and (meta := base.get("metadata") or {}).get("name"):
            base["metadata"] = {**meta, "generateName": f"{meta['name']}-"}
            del base["metadata"]["name"]
        wanted: list[tuple[dict[str, Any], str | None]] = []
        for values in combinations(axes):
            one = changed(base, values)
            meta = one.setdefault("metadata", {})
            meta["labels"] = {**(meta.get("labels") or {}), MATRIX_LABEL: chosen}
            own = None if key is None else " ".join([key, *(f"{path}={values[path]!r}" for path in values)])
            manifest(one, owner=self.owner, name=None, key=own)
            wanted.append((one, own))
        free = asyncio.Semaphore(_CONNECTIONS)

        async def submit(one: dict[str, Any], own: str | None) -> AsyncJob:
            async with free:
                return await self.submit(one, key=own)

        return await gathered(submit(one, own) for one, own in wanted)

    async def wait_all(
        self, jobs: Iterable[AsyncJob], *, timeout: Seconds | None = None, progress: Progress | None = None
    ) -> None:
        """Waits until all jobs have ended, whatever the result; read it from `phase` of each.

        The jobs of a namespace share one watch.  Raises WaitTimeout; the jobs continue to run.  Raises
        DeletedError if a job was deleted.
        """
        waiting = list(jobs)
        ended = 0

        async def settle(job: AsyncJob) -> None:
            nonlocal ended
            await job.settle(ENDED, timeout=timeout)
            ended += 1
            if progress is not None:
                progress(ended, len(waiting), job)

        try:
            await gathered(settle(job) for job in waiting)
        except WaitTimeout as error:
            text = f"{len(waiting) - ended} of {len(waiting)} jobs have not ended in time"
            raise WaitTimeout(error.handle, text) from None


async def gathered(coroutines: Iterable[Any]) -> list[Any]:
    """Returns all results, or raises the first error.  No task is left running in either case."""
    tasks = [asyncio.ensure_future(one) for one in coroutines]
    try:
        return await asyncio.gather(*tasks)
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


def _hearth(asked: str | None) -> str:
    return asked or os.environ.get("HEARTH_NAMESPACE") or "hearth"


def _credentials(kubeconfig: str | Path | None, context: str | None, *, inside: bool) -> Credentials:
    """Loads the credentials.  Raises NotAllowedError, whose `fix` names what to change."""
    with translated():
        return in_cluster() if inside else load(Path(kubeconfig) if kubeconfig else None, context)
