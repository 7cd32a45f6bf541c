"""The client's methods for jobs.

Modules that only submissions need are imported inside of those methods: they take most of the import time.
"""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from itertools import product
from typing import TYPE_CHECKING, Any, Final

from fournos.api.kinds import FOURNOS_JOB
from fournos.client.connection import ClientConnection, Handles
from fournos.client.errors import (
    FournosError,
    MissingError,
    NoHistoryError,
    NotAllowedError,
    UnreachableError,
    WaitTimeout,
    typed,
)
from fournos.client.handles import ENDED, Seconds
from fournos.client.jobs import AsyncJob, Progress
from fournos.engine.kube.errors import AlreadyExistsError, ConnectionLostError, NotFoundError, ServerError
from fournos.engine.kube.resource import Key, Obj, key_of
from fournos.engine.kube.transport import Backoff
from fournos.insight.jobs import last, matches, newest_first, wanted_phases
from fournos.insight.values import name_of

if TYPE_CHECKING:
    from fournos.client.history import AsyncHistory
    from fournos.client.submission import JobSpec
    from fournos.history.records import Detail


@dataclass(frozen=True, slots=True)
class RecordedJob:
    """A job as it was last seen, and its run."""

    job: Obj
    run: Detail


async def read_recorded_job(history: AsyncHistory, name: str, *, namespace: str | None = None) -> RecordedJob:
    """Returns the newest job of this name, or the one of this UID.

    Raises FournosError: MissingError if there is no such job, NoHistoryError if the cluster has no history.
    """
    from fournos.history.records import Document

    found = await history.run(name, kind=FOURNOS_JOB.kind, namespace=namespace)
    return RecordedJob(await history.document(found.run, Document.OBJECT), found)


async def recorded_job(
    history: AsyncHistory, name: str, *, namespace: str | None = None, ended: bool = False
) -> RecordedJob | None:
    """As `read_recorded_job`, but None if the history does not have the job or cannot be read.

    With `ended` a job whose end was not recorded is None, too.  Raises NoHistoryError.
    """
    from fournos.history.records import Ending

    try:
        recorded = await read_recorded_job(history, name, namespace=namespace)
    except (MissingError, NotAllowedError, UnreachableError):
        return None
    return None if ended and recorded.run.run.ending is Ending.OPEN else recorded


LAST: Final = "@last"
_CONNECTIONS: Final = 32
"""The number of jobs of a matrix that are created concurrently."""
_TRIES: Final = 5
"""Requests of a submission with a key."""


class JobMethods(ClientConnection):
    """What a client does with jobs."""

    @typed
    async def submit(
        self, job: JobSpec, *, key: str | None = None, name: str | None = None, owner: str | None = None
    ) -> AsyncJob:
        """Submits a job and returns its handle.  `job` is a typed spec, a mapping, or the path of a file.

        The client validates the manifest first, by the API server's rules, and raises ManifestError.  With a
        `key` the submission is idempotent: the name is derived from owner and key, and a repeated call
        returns the existing job, also from the history if its ttl has deleted it.  Raises KeyConflict if that
        job has another spec.  Only a submission with a key is retried after a lost connection: without a key
        a retry could create a second job.
        """
        from fournos.client.submission import manifest

        body = self._placed(manifest(job, owner=self.owner if owner is None else owner, name=name, key=key))
        if key is None:
            return AsyncJob(self, await self.api.create(FOURNOS_JOB, body))
        return AsyncJob(self, await self._create_once(body))

    async def _create_once(self, body: Obj) -> Obj:
        from fournos.client.submission import same_submission

        if (gone := await self._recorded(name_of(body), body["metadata"]["namespace"])) is not None:
            same_submission(body, gone)
            return gone
        backoff = Backoff()
        for attempt in range(1, _TRIES + 1):
            try:
                return await self.api.create(FOURNOS_JOB, body)
            except AlreadyExistsError:
                with suppress(NotFoundError):  # deleted between the create and the get: create it again
                    there = await self.api.get(FOURNOS_JOB, key_of(body))
                    same_submission(body, there)
                    return there
            except (ConnectionLostError, ServerError):
                if attempt == _TRIES:
                    raise
                await asyncio.sleep(backoff.next())
        raise FournosError(f"job {name_of(body)} comes and goes", fix="try again")

    async def _recorded(self, name: str, namespace: str) -> Obj | None:
        """Returns an ended job that is gone from the cluster, as the history has it; else None."""
        if not self._has_history:
            return None
        try:
            recorded = await recorded_job(self.history, name, namespace=namespace, ended=True)
        except NoHistoryError:
            self._has_history = False
            return None
        if recorded is None:
            return None
        with suppress(NotFoundError):
            await self.api.get(FOURNOS_JOB, Key(namespace, name))
            return None
        # A deletion that was under way when it was last seen is over.
        last = recorded.job
        meta = {key: value for key, value in last["metadata"].items() if key != "deletionTimestamp"}
        return {**last, "metadata": meta}

    @typed
    async def job(self, name: str = LAST) -> AsyncJob:
        """Returns the job of this name; "@last" is the newest one of the client's owner if that is set.

        That is one of a person: neither of a schedule nor a rerun.

        A job that has ended and was deleted comes from the history, where there is one.  Raises MissingError.
        """
        if name == LAST:
            found = await self._listed(FOURNOS_JOB)
            return AsyncJob(self, last(found, owner=self.owner, namespace=self.namespace))
        try:
            return AsyncJob(self, await self._found(FOURNOS_JOB, name, noun="job"))
        except MissingError:
            if (gone := await self._recorded(name, self.namespace)) is None:
                raise
            return AsyncJob(self, gone)

    @typed
    async def jobs(
        self,
        *,
        phase: str | Sequence[str] = (),
        owner: str | None = None,
        cluster: str | None = None,
        selector: str = "",
        everywhere: bool = False,
    ) -> Handles[AsyncJob]:
        """Returns the jobs of the namespace, newest first.

        The phase "active" means all phases that are not terminal.  `everywhere` means all namespaces.
        """
        phases = wanted_phases([phase] if isinstance(phase, str) else phase)
        found = await self._listed(FOURNOS_JOB, selector=selector, everywhere=everywhere)
        shown = [one for one in found if matches(one, phases=phases, owner=owner, cluster=cluster)]
        return Handles(AsyncJob(self, one) for one in newest_first(shown))

    async def submit_matrix(
        self,
        job: JobSpec,
        axes: Mapping[str, Sequence[Any]],
        *,
        label: str | None = None,
        key: str | None = None,
        repeat: int = 1,
    ) -> Handles[AsyncJob]:
        """Submits `repeat` jobs for each combination of the values of `axes`.

        `axes` is path → values, such as {"hardware.gpuCount": [1, 2], "env.MODEL": [...]}.  All jobs carry
        the label fournos.dev/matrix with the value `label`; the default is a random value.  All manifests
        are validated before the first is submitted.  With a `key` the whole call is idempotent.  `to_frame`
        of the result has a column for each axis.
        """
        from fournos.client.submission import (
            MATRIX_LABEL,
            base_document,
            changed,
            combinations,
            manifest,
        )
        from fournos.insight.manifests import with_generated_name

        base, chosen = base_document(job), label or f"m-{secrets.token_hex(4)}"
        bodies: list[tuple[dict[str, Any], str | None]] = []
        for values, number in product(combinations(axes), range(repeat)):
            # A name becomes the prefix of generated ones; beside a key it is refused below.
            body = changed(with_generated_name(base) if key is None else base, values)
            meta = body.setdefault("metadata", {})
            meta["labels"] = {**(meta.get("labels") or {}), MATRIX_LABEL: chosen}
            parts = [f"{path}={values[path]!r}" for path in values] + [f"#{number + 1}"] * (number > 0)
            own = None if key is None else " ".join([key, *parts])
            manifest(body, owner=self.owner, name=None, key=own)
            bodies.append((body, own))
        free = asyncio.Semaphore(_CONNECTIONS)

        async def submit(body: dict[str, Any], own: str | None) -> AsyncJob:
            async with free:
                return await self.submit(body, key=own)

        return Handles(await gathered(submit(one, own) for one, own in bodies), paths=tuple(axes))

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
