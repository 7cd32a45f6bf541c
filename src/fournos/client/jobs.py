"""The handle of a job.

Modules that only some methods need are imported inside of them: validation and explanations take most of the
import time.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import aclosing
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any, Final, TypeAlias, cast

from fournos.api.phase import Phase
from fournos.client.errors import (
    FournosError,
    JobFailed,
    JobStopped,
    NotEndedError,
    WaitTimeout,
    translated,
    typed,
    typed_iterator,
)
from fournos.client.handles import AsyncHandle
from fournos.client.logs import LogLine, followed_lines, printed_lines
from fournos.client.views import JobView
from fournos.insight.children import Children, children
from fournos.insight.log_sources import Wanted
from fournos.insight.stopping import Verdict, decide_stop
from fournos.insight.tasks import Task, tasks
from fournos.insight.values import is_terminal, one_line, phase_of, spec_of, status_of
from fournos.jobs.kinds import FOURNOS_JOB
from fournos.kube.errors import ConflictError, InvalidError, KubeError, NotFoundError
from fournos.kube.resource import Obj, key_of
from fournos.multikueue.names import MULTIKUEUE

if TYPE_CHECKING:
    from fournos.client.asynchronous import AsyncClient
    from fournos.client.repeat import Repeat
    from fournos.insight.explanation import Explanation

ENDED: Final = "ended"
Seconds: TypeAlias = float | timedelta


@dataclass(frozen=True, slots=True)
class JobEvent:
    """A change of a job's phase, message or attempt."""

    phase: str
    message: str
    attempt: int
    before: str | None
    """The phase of the previous event; None for the first event, which is the current state."""
    raw: Obj

    @property
    def ended(self) -> bool:
        return is_terminal(self.raw)


class AsyncJob(AsyncHandle, JobView):
    """The handle of one job, identified by its UID: never of another job of the same name."""

    _resource = FOURNOS_JOB
    _noun = "job"

    def __init__(self, client: AsyncClient, raw: Obj, *, repeats: Repeat | None = None) -> None:
        super().__init__(client, raw)
        self.repeats = repeats
        """What the job takes over from the job that it repeats, and what is resolved again.

        None unless `retry` or `resubmit` created it.
        """

    # --- reading -------------------------------------------------------------------------------------

    async def watch(self) -> AsyncIterator[JobEvent]:
        """Yields the current state of the job, then every change until it ends.

        A broken watch is resumed.  Raises DeletedError.
        """
        before: JobEvent | None = None
        async with aclosing(self._changes()) as changes:
            async for raw in changes:
                event = _event(raw, before)
                if before is None or _told(event) != _told(before):
                    yield event
                    before = event
                if event.ended:
                    return

    async def wait(self, until: str = ENDED, *, timeout: Seconds | None = None) -> None:
        """Waits until the job has ended, or has reached the phase `until`, such as "Running".

        Raises JobFailed or JobStopped if the job ended so without having been in `until`.  Raises WaitTimeout
        after `timeout` (seconds or timedelta); the job continues to run.
        """
        await self.settle(until, timeout=timeout)
        if until != ENDED and not _never_in(self._raw, until):
            return
        if self.phase == Phase.FAILED:
            from fournos.insight.failure import failure

            raise JobFailed(self, failure(self._raw, await self._children()))
        if self.phase == Phase.STOPPED:
            raise JobStopped(self)

    async def settle(self, until: str = ENDED, *, timeout: Seconds | None = None) -> None:
        """As `wait`, but a failed or stopped job raises no error; read the result from `phase`."""
        if until not in (ENDED, *Phase):
            raise FournosError(f"{until} is no phase", fix=f"write one of {ENDED}, {', '.join(Phase)}")
        seconds = timeout.total_seconds() if isinstance(timeout, timedelta) else timeout
        try:
            async with asyncio.timeout(seconds), aclosing(self._changes()) as changes:
                async for raw in changes:
                    if _reached(raw, until):
                        return
        except TimeoutError:
            what = "ended" if until == ENDED else f"reached {until}"
            text = f"{self.name} has not {what} within {seconds:g} s: it is {self.phase}"
            raise WaitTimeout(self, text) from None

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
        last lines of each container.  Raises NoLogError if no log exists, and FournosError if the job runs on
        a worker cluster.
        """
        await self.refresh()
        if spec_of(self._raw).get("managedBy") == MULTIKUEUE:
            raise FournosError(
                f"{self.name} runs on a worker cluster, which this client does not read",
                fix=f"fournos logs {self.name}",
            )
        resolving = not task and not attempt and self.phase in ("New", "Resolving")
        wanted = Wanted(
            resolver=resolver or resolving,
            tasks=not resolver and (follow or not resolving),
            task=task,
            attempt=attempt,
        )
        api, raw = self._client.api, self._raw
        going = follow and not self.ended
        lines = (
            followed_lines(api, raw, wanted, tail, self._client.watches)
            if going
            else printed_lines(api, raw, wanted, tail)
        )
        async with aclosing(cast(Any, lines)) as found:
            async for line in found:
                if line.source:
                    yield line

    @typed
    async def tasks(self) -> list[Task]:
        """Returns the tasks of the current attempt and their states; empty before its run starts."""
        await self.refresh()
        found = await children(self._client.api, self._raw)
        return tasks(found.run(self._raw), found.task_runs)

    @typed
    async def explain(self) -> Explanation:
        """Explains why the job waits, what it does or how it ended, and what to do."""
        from fournos.insight.facts import gather
        from fournos.insight.reasons import explain

        await self.refresh()
        facts = await gather(self._client.api, self._raw, queue=self._client.queue_name)
        return explain(facts, datetime.now(UTC))

    # --- changing ------------------------------------------------------------------------------------

    @typed
    async def stop(self, *, now: bool = False) -> Verdict:
        """Stops the job.  Its finally tasks still run, unless `now`.  An ended job is not changed.

        The patch has the UID as its precondition: another job that took the name is never stopped.
        """
        await self.refresh()
        verdict = decide_stop(self._raw, now=now, clock=datetime.now(UTC))
        if verdict.shutdown:
            body = {"metadata": {"uid": self.uid}, "spec": {"shutdown": verdict.shutdown}}
            try:
                self._take(await self._client.api.patch(FOURNOS_JOB, key_of(self._raw), body))
            except NotFoundError:
                raise self._deleted() from None
            except (ConflictError, InvalidError):
                # The UID precondition failed if another job has the name: refresh raises DeletedError then.
                await self.refresh()
                raise
        return verdict

    @typed
    async def delete(self) -> None:
        """Deletes the job and its dependents.  An active run is stopped first.

        The delete has the UID as its precondition: another job that took the name is never deleted.
        """
        try:
            await self._client.api.delete(FOURNOS_JOB, key_of(self._raw), uid=self.uid)
        except (NotFoundError, ConflictError):
            raise self._deleted() from None

    async def retry(self, /, **changes: Any) -> AsyncJob:
        """Submits the spec again as a new job.  `changes` are fields of the spec, such as priority="high".

        `repeats` of the new handle lists what the job takes over.  Raises NotEndedError if this job has not
        ended.
        """
        from fournos.client.repeat import fields

        await self.refresh()
        if not self.ended:
            raise NotEndedError(f"{self.name} has not ended: it is {self.phase}", fix="wait, or resubmit()")
        return await self.resubmit(fields(changes))

    async def resubmit(self, changes: Mapping[str, Any] | None = None) -> AsyncJob:
        """Submits the spec again as a new job, whether or not this job has ended.

        `changes` is path → value, such as {"hardware.gpuCount": 4}; the value None removes the field.
        """
        from fournos.client.repeat import repeat
        from fournos.client.submission import manifest

        made, came = repeat(self._raw, changes or {})
        wanted = manifest(made, owner="", name=None, key=None)
        with translated():
            return AsyncJob(self._client, await self._client.api.create(FOURNOS_JOB, wanted), repeats=came)

    # --- shared --------------------------------------------------------------------------------------

    async def _children(self) -> Children:
        """The dependents that still exist; empty if they cannot be read.

        The failure of a job is then explained from its status alone.
        """
        try:
            return await children(self._client.api, self._raw)
        except KubeError:
            return Children()


def _reached(job: Obj, until: str) -> bool:
    """True if the job is or was in the phase, or has ended and can no longer reach it."""
    return is_terminal(job) or (until != ENDED and not _never_in(job, until))


def _never_in(job: Obj, until: str) -> bool:
    """True if the job is not, and never was, in this phase."""
    return phase_of(job) != until and until.lower() not in (status_of(job).get("phaseTimes") or {})


def _event(job: Obj, before: JobEvent | None) -> JobEvent:
    status = status_of(job)
    return JobEvent(
        phase_of(job),
        one_line(status.get("message")),
        int(status.get("attempt") or 0),
        before.phase if before else None,
        job,
    )


def _told(event: JobEvent) -> tuple[str, str, int]:
    return event.phase, event.message, event.attempt


Progress: TypeAlias = Callable[[int, int, AsyncJob], None]
"""Called with the number of ended jobs, the number of all jobs, and the job that ended last."""
