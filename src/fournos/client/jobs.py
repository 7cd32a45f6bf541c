"""The handle of a job.

What only some calls need is imported there: rules and reasons are most of what there is to load.
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
    """A change of a job: of its phase, its message or its attempt."""

    phase: str
    message: str
    attempt: int
    before: str | None
    """The phase of the event before; None for the first, which is the job as it is."""
    raw: Obj

    @property
    def ended(self) -> bool:
        return is_terminal(self.raw)


class AsyncJob(AsyncHandle, JobView):
    """A job of an API server: this one, by its UID, not another one of the same name."""

    _resource = FOURNOS_JOB
    _noun = "job"

    def __init__(self, client: AsyncClient, raw: Obj, *, repeats: Repeat | None = None) -> None:
        super().__init__(client, raw)
        self.repeats = repeats
        """What it took over from the job that it repeats, and what is found out anew."""

    # --- reading -------------------------------------------------------------------------------------

    async def watch(self) -> AsyncIterator[JobEvent]:
        """The job as it is, then every change until it ends.  A watch that breaks is resumed."""
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
        """Wait until the job has ended, or has reached a phase such as "Running".

        Raises JobFailed or JobStopped where it ended so, and WaitTimeout, which leaves it running.
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
        """As `wait`, whatever the end: `phase` has it afterwards."""
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
        """Lines of its tasks, or of its resolver, in the order in which they started.

        With `follow` it waits for the first line and goes on until the job ends; `tail` is of each
        container.  Raises NoLogError.
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
        """The tasks of the current attempt and how far each is; empty before its run began."""
        await self.refresh()
        found = await children(self._client.api, self._raw)
        return tasks(found.run(self._raw), found.task_runs)

    @typed
    async def explain(self) -> Explanation:
        """Why it waits, what it does or how it ended, and what to do."""
        from fournos.insight.facts import gather
        from fournos.insight.reasons import explain

        await self.refresh()
        facts = await gather(self._client.api, self._raw, queue=self._client.queue_name)
        return explain(facts, datetime.now(UTC))

    # --- changing ------------------------------------------------------------------------------------

    @typed
    async def stop(self, *, now: bool = False) -> Verdict:
        """Stop it; its finally tasks still run, unless `now`.  Nothing happens to one that has ended."""
        await self.refresh()
        verdict = decide_stop(self._raw, now=now, clock=datetime.now(UTC))
        if verdict.shutdown:
            body = {"metadata": {"uid": self.uid}, "spec": {"shutdown": verdict.shutdown}}
            try:
                self._take(await self._client.api.patch(FOURNOS_JOB, key_of(self._raw), body))
            except NotFoundError:
                raise self._deleted() from None
            except (ConflictError, InvalidError):
                await self.refresh()  # the UID may be another job's
                raise
        return verdict

    @typed
    async def delete(self) -> None:
        """Delete it, with all that was made for it; a run that is under way is stopped first."""
        try:
            await self._client.api.delete(FOURNOS_JOB, key_of(self._raw), uid=self.uid)
        except (NotFoundError, ConflictError):
            raise self._deleted() from None

    async def retry(self, /, **changes: Any) -> AsyncJob:
        """Once more, as a new job, with other values for fields of the spec, such as priority="high".

        Only a job that has ended; `repeats` of the new one has what it took over.
        """
        from fournos.client.repeat import fields

        await self.refresh()
        if not self.ended:
            raise NotEndedError(f"{self.name} has not ended: it is {self.phase}", fix="wait, or resubmit()")
        return await self.resubmit(fields(changes))

    async def resubmit(self, changes: Mapping[str, Any] | None = None) -> AsyncJob:
        """The same spec as a new job, changed by path, such as {"hardware.gpuCount": 4}; None removes."""
        from fournos.client.repeat import repeat
        from fournos.client.submission import manifest

        made, came = repeat(self._raw, changes or {})
        wanted = manifest(made, owner="", name=None, key=None)
        with translated():
            return AsyncJob(self._client, await self._client.api.create(FOURNOS_JOB, wanted), repeats=came)

    # --- shared --------------------------------------------------------------------------------------

    async def _children(self) -> Children:
        """What is left of it; nothing where that cannot be learnt."""
        try:
            return await children(self._client.api, self._raw)
        except KubeError:
            return Children()


def _reached(job: Obj, until: str) -> bool:
    """Whether it is or was in the phase, or has ended, so that waiting on is in vain."""
    return is_terminal(job) or (until != ENDED and not _never_in(job, until))


def _never_in(job: Obj, until: str) -> bool:
    """Whether it has not been in this phase."""
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
"""How many have ended, of how many, and the one that ended last."""
