"""The client: where the jobs are, and who asks.

What only submissions need is imported there: it is most of what there is to load.
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
"""Jobs of a matrix that are created at the same time."""
_TRIES: Final = 5
_PAUSE: Final = 0.5
"""Seconds before a submission with a key is tried again; it doubles."""


class AsyncClient:
    """An API server with Fournos, and the namespace and owner of the jobs.

    Without arguments it is found as the command line finds it: KUBECONFIG, the pod's ServiceAccount or
    ~/.kube/config; FOURNOS_NAMESPACE, then the context's namespace; FOURNOS_OWNER.  `credentials` are given
    outright, `api` is a connection of the caller's own.  Use `async with`, or `close()`.
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
        """End the connection; one that the caller brought stays."""
        if self._own is not None:
            await self._own.close()

    def __repr__(self) -> str:
        return f"<{type(self).__name__} namespace={self.namespace!r} owner={self.owner!r}>"

    # --- jobs ----------------------------------------------------------------------------------------

    @typed
    async def submit(
        self, job: JobSpec, *, key: str | None = None, name: str | None = None, owner: str | None = None
    ) -> AsyncJob:
        """Submit a job: a typed spec, a manifest or a spec as a mapping, or a file.

        It is checked here first, by the API server's rules.  With a `key` the name follows from owner and
        key: a repeat finds the job that is there, and with another spec it is KeyConflict.  Only a submission
        with a key is tried again when the connection breaks: without one a repeat could make a second job.
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
                with suppress(NotFoundError):  # it went meanwhile
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
        """The job of this name; "@last" is the newest one, of the owner where one is set."""
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
        """The jobs of the namespace, newest first; the phase "active" means all that have not ended."""
        phases = wanted_phases([phase] if isinstance(phase, str) else phase)
        namespace = "" if everywhere else self.namespace
        found = (await self.api.list(FOURNOS_JOB, namespace=namespace, selector=selector)).items
        shown = [one for one in found if matches(one, phases=phases, owner=owner, cluster=cluster)]
        return [AsyncJob(self, one) for one in newest_first(shown)]

    # --- clusters and queues -------------------------------------------------------------------------

    @typed
    async def clusters(self, *, namespace: str | None = None) -> list[AsyncCluster]:
        """The clusters that jobs run on, of HEARTH_NAMESPACE or "hearth"."""
        found = (await self.api.list(FOURNOS_CLUSTER, namespace=_hearth(namespace))).items
        return [AsyncCluster(self, one) for one in sorted(found, key=name_of)]

    @typed
    async def cluster(self, name: str, *, namespace: str | None = None) -> AsyncCluster:
        """The cluster of this name."""
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
        """Who waits in a LocalQueue, of all namespaces that share it, in which order, and why each."""
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
        """One job for each combination of values, such as {"hardware.gpuCount": [1, 2], "env.MODEL": [...]}.

        All carry the label fournos.dev/matrix with the value `label`, which is made up where none is given.
        All are checked before the first is submitted.  With a `key` the whole may be repeated.
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
        """Wait until all have ended, however: `phase` of each has it.  They share one watch.

        Raises WaitTimeout, which leaves them running, and DeletedError for one that is gone.
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
    """All results, or the first error, with nothing left running."""
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
    """Raises NotAllowedError with what to change."""
    with translated():
        return in_cluster() if inside else load(Path(kubeconfig) if kubeconfig else None, context)
