"""The handle of a job.

Modules that only some methods need are imported inside of them: validation and explanations take most of the
import time.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import aclosing, suppress
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Final, TypeAlias, cast

from fournos.api.kinds import FOURNOS_JOB
from fournos.api.phase import Phase
from fournos.client.errors import (
    DeletedError,
    FournosError,
    JobFailed,
    JobStopped,
    NoLogError,
    NotEndedError,
    typed,
    typed_iterator,
)
from fournos.client.handles import AsyncWork, ObjectEvent
from fournos.client.logs import LogLine, lines_or, live_lines
from fournos.client.views import JobView
from fournos.engine.kube.errors import KubeError
from fournos.engine.kube.resource import Obj
from fournos.insight.children import Children, Task, children, tasks
from fournos.insight.failure import WantedLogs
from fournos.insight.jobs import JobChange, decide_hold, decide_release, decide_stop
from fournos.insight.values import status_of

if TYPE_CHECKING:
    from fournos.client.connection import ClientConnection
    from fournos.client.history import MeasuredResults
    from fournos.client.submission import Repeat
    from fournos.insight.explanation import Explanation


_EXPLAINED: Final = 5.0
"""Seconds that an explanation may take after a timeout."""


@dataclass(frozen=True, slots=True)
class JobEvent(ObjectEvent):
    """A change of a job's phase, message or attempt."""

    attempt: int


class AsyncJob(AsyncWork, JobView):
    """The handle of one job, identified by its UID: never of another job of the same name."""

    _resource = FOURNOS_JOB
    _noun = "job"
    _phases = tuple(Phase)

    def __init__(self, client: ClientConnection, raw: Obj, *, repeats: Repeat | None = None) -> None:
        super().__init__(client, raw)
        self.repeats = repeats
        """What the job takes over from the job that it repeats, and what is resolved again.

        None unless `retry` created it.
        """

    # --- reading -------------------------------------------------------------------------------------

    async def watch(self) -> AsyncIterator[JobEvent]:
        """Yields the current state of the job, then every change until it ends.

        A broken watch is resumed.  Raises DeletedError.
        """
        async with aclosing(cast(Any, super().watch())) as events:
            async for event in events:
                yield event

    @typed_iterator
    async def logs(
        self,
        *,
        follow: bool = False,
        task: str | None = None,
        attempt: int | None = None,
        resolver: bool = False,
        tail: int | None = None,
    ) -> AsyncIterator[LogLine]:
        """Yields the log lines of the job's tasks, or of its resolver, in the order in which they started.

        With `follow` it waits for the first line and continues until the job ends.  `tail` is the number of
        last lines of each container.  Those of a dispatched job are read on its worker.  When the job or its
        pods are gone, the lines come from the history, where there is one.  Raises NoLogError if there is no
        log, DeletedError if the job is gone, MissingError if it is on no worker (any more), and RightsError
        if the logs of the worker may not be read.
        """
        asked, printed = WantedLogs(resolver=resolver, tasks=not resolver, task=task, attempt=attempt), False
        try:
            await self.refresh()
            live = live_lines(self._client, self._raw, asked, tail, follow=follow)
            async with aclosing(cast(Any, live)) as lines:
                async for line in lines:
                    if line.source:
                        printed = True
                        yield line
        except (DeletedError, NoLogError) as error:
            if printed:
                raise
            stored = self._client.history.logs(
                self.uid,
                task=task or "",
                attempt=attempt,
                resolver=resolver,
                tail=tail,
                namespace=self.namespace,
            )
            async with aclosing(lines_or(error, stored)) as lines:
                async for line in lines:
                    yield line

    @typed
    async def tasks(self) -> list[Task]:
        """Returns the tasks of the current attempt and their states; empty before its run starts."""
        await self.refresh()
        found = await children(self._client.api, self._raw)
        return tasks(found.run(self._raw), found.task_runs)

    @typed
    async def explain(self) -> Explanation:
        """Explains why the job waits, what it does or how it ended, and what to do.

        Of a job that goes to a worker also where it stands there.
        """
        from fournos.client.connection import manager_of
        from fournos.insight.dispatch import elsewhere
        from fournos.insight.facts import gather
        from fournos.insight.reasons import explain

        await self.refresh()
        facts = await gather(self._client.api, self._raw, queue=self._client.queue_name)
        explanation = explain(facts, self._client.now())
        places = await elsewhere(manager_of(self._client), facts.workload)
        lines = [f"{label}: {text}" for label, text in places.get("here", {}).items()]
        lines += [f"on {worker}: {text}" for worker, text in places.get("workers", {}).items()]
        return replace(explanation, because=(*explanation.because, *lines))

    async def _verdict(self) -> str:
        with suppress(FournosError, KubeError, TimeoutError):
            async with asyncio.timeout(_EXPLAINED):
                return (await self.explain()).verdict
        return ""

    @typed
    async def estimate(self) -> str:
        """Returns how long the job has run, or its place in the queue, and how long its kind takes.

        One sentence.  Raises NoHistoryError if the cluster has no history, MissingError if the job has ended.
        """
        from fournos.history.estimates import sentence
        from fournos.insight.facts import gather
        from fournos.insight.reasons import explain

        await self.refresh()
        typical = await self._client.history.estimate(self.uid, namespace=self.namespace)
        facts = await gather(self._client.api, self._raw, queue=self._client.queue_name)
        return sentence(typical, self._client.now(), facts.place, explain(facts, self._client.now()).kept)

    @typed
    async def results(self) -> MeasuredResults:
        """Returns what the job has measured: its tests with their KPIs; nothing before that is recorded.

        Raises NoHistoryError if the cluster has no history.
        """
        return await self._client.history.results(self.uid, namespace=self.namespace)

    # --- changing ------------------------------------------------------------------------------------

    @typed
    async def stop(self, *, now: bool = False) -> JobChange:
        """Stops the job.  Its finally tasks still run, unless `now`.  An ended job is not changed."""
        return await self._decided(lambda: decide_stop(self._raw, now=now, clock=self._client.now()))

    @typed
    async def hold(self) -> JobChange:
        """Takes the job out of the queue until `release`; a run that is under way is stopped first."""
        return await self._decided(lambda: decide_hold(self._raw, clock=self._client.now()))

    @typed
    async def release(self) -> JobChange:
        """Queues a held job again."""
        return await self._decided(lambda: decide_release(self._raw, clock=self._client.now()))

    async def _decided(self, decide: Callable[[], JobChange]) -> JobChange:
        """Applies the change of a decision about the job as it is read now, and returns the decision."""
        decided: list[JobChange] = []

        def change() -> Obj | None:
            decided.append(decide())
            spec = decided[-1].spec
            return None if spec is None else {"spec": spec}

        await self._patch(change)
        return decided[-1]

    @typed
    async def retry(self, paths: Mapping[str, Any] | None = None, /, **changes: Any) -> AsyncJob:
        """Submits the spec again as a new job.  `changes` are fields of the spec, such as priority="high".

        `paths` are changes by path, such as {"hardware.gpuCount": 4}; the value None removes a field.
        `repeats` of the new handle lists what the job takes over.  Raises NotEndedError if this job has not
        ended.
        """
        from fournos.client.submission import fields, manifest, repeat

        if not self.ended:  # one that had ended may be gone, and does not change
            await self.refresh()
        if not self.ended:
            fix = f"wait for its end: fournos wait {self.name}"
            raise NotEndedError(f"{self.name} has not ended: it is {self.phase}", fix=fix)
        made, came = repeat(self._raw, {**(paths or {}), **fields(changes)})
        wanted = manifest(made, owner="", name=None, key=None)
        return AsyncJob(self._client, await self._client.api.create(FOURNOS_JOB, wanted), repeats=came)

    # --- shared --------------------------------------------------------------------------------------

    def _event(self, before: str | None) -> JobEvent:
        attempt = int(status_of(self._raw).get("attempt") or 0)
        return JobEvent(self.phase, self.message, before, self.ended, self._raw, attempt)

    def _reached(self, until: str) -> bool:
        """True also for a phase that the job was in earlier."""
        return super()._reached(until) or until.lower() in (status_of(self._raw).get("phaseTimes") or {})

    async def _raise_failure(self) -> None:
        if self.phase == Phase.FAILED:
            from fournos.insight.failure import failure

            raise JobFailed(self, failure(self._raw, await self._children()))
        if self.phase == Phase.STOPPED:
            raise JobStopped(self)

    async def _children(self) -> Children:
        """The dependents that still exist; empty if they cannot be read.

        The failure of a job is then explained from its status alone.
        """
        try:
            return await children(self._client.api, self._raw)
        except KubeError:
            return Children()


Progress: TypeAlias = Callable[[int, int, AsyncJob], None]
"""Called with the number of ended jobs, the number of all jobs, and the job that ended last."""
