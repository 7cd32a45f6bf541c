"""The handle of a schedule: jobs at certain times.

Modules that only some methods need are imported inside of them: the models take most of the import time.
"""

from __future__ import annotations

import secrets
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, Final

from fournos.api.kinds import FOURNOS_SCHEDULE
from fournos.client.connection import Handles
from fournos.client.errors import DeletedError, typed
from fournos.client.handles import PATIENCE, AsyncWork, Seconds
from fournos.client.jobs import AsyncJob
from fournos.client.views import View
from fournos.engine.kube.resource import Obj
from fournos.insight.values import moment, spec_of, status_of

if TYPE_CHECKING:
    from fournos.api.fournosschedule import FournosScheduleSpec, FournosScheduleStatus
    from fournos.client.submission import JobSpec

_STATES: Final = ("Invalid", "Suspended", "Overlapping", "Active", "Idle")


class ScheduleView(View):
    """A typed view of a schedule as last read; `raw` is the whole object."""

    @property
    def spec(self) -> FournosScheduleSpec:
        """The spec as a typed model."""
        from fournos.insight.schedules import spec

        return spec(self.raw)

    @property
    def status(self) -> FournosScheduleStatus:
        """The status as a typed model."""
        from fournos.insight.schedules import status

        return status(self.raw)

    @property
    def phase(self) -> str:
        """Idle, Active, Overlapping (a fire was skipped), Suspended or Invalid."""
        from fournos.insight.schedules import state

        return state(self.raw, datetime.now(UTC)).value

    @property
    def message(self) -> str:
        """Why it is in this phase, else how the last fire failed; "" if there is nothing to say."""
        from fournos.insight.schedules import message

        return message(self.raw, datetime.now(UTC))

    @property
    def times(self) -> tuple[str, ...]:
        """The times as cron expressions."""
        return tuple(map(str, spec_of(self.raw).get("schedules") or ()))

    @property
    def time_zone(self) -> str:
        """The time zone of the times."""
        return str(spec_of(self.raw).get("timeZone") or "")

    @property
    def next_time(self) -> datetime | None:
        """When the next jobs are created, as the operator has noted it; None if there is no such time."""
        return moment(status_of(self.raw).get("nextTime"))

    @property
    def last_outcome(self) -> str | None:
        """Succeeded, Failed or Stopped: how the last fire ended; None before the first has."""
        outcome = (status_of(self.raw).get("lastFire") or {}).get("outcome")
        return None if outcome is None else str(outcome)

    def next_times(self, number: int = 3) -> list[datetime]:
        """Returns when the next jobs are created, in the time zone of the schedule.

        The list is shorter for a suspended schedule without an end.  Raises FournosError if its times do not
        exist.
        """
        from fournos.insight.schedules import next_times

        return next_times(self.raw, number, datetime.now(UTC))

    def _columns(self) -> dict[str, Any]:
        return {
            **super()._columns(),
            "times": ", ".join(self.times),
            "time_zone": self.time_zone,
            "last_outcome": self.last_outcome,
            "next_time": self.next_time,
        }


def schedule_body(
    name: str,
    job: JobSpec,
    times: str | Sequence[str],
    time_zone: str,
    *,
    owner: str,
    matrix: Mapping[str, Sequence[Any]],
    options: Mapping[str, Any],
) -> dict[str, Any]:
    """Returns the checked manifest of a schedule of a job: a typed spec, a mapping or a file.

    `options`: further fields of its spec, by their names in Python or JSON.  Raises FournosError and
    ManifestError.
    """
    from fournos.api.fournosschedule import FournosScheduleSpec
    from fournos.client.submission import base_document, combinations, fields
    from fournos.insight.manifests import with_owner
    from fournos.insight.schedule_manifests import schedule_manifest

    combinations(matrix)  # refuses an axis without a list of values
    return schedule_manifest(
        name,
        with_owner(base_document(job), owner),
        [times] if isinstance(times, str) else times,
        time_zone,
        matrix=matrix,
        fields=fields(options, FournosScheduleSpec, "schedule"),
    )


class AsyncSchedule(AsyncWork, ScheduleView):
    """The handle of one schedule, identified by its UID."""

    _resource = FOURNOS_SCHEDULE
    _noun = "schedule"
    _phases = _STATES
    _ends = False

    @typed
    async def suspend(self, reason: str = "", *, until: datetime | None = None) -> None:
        """Suspends the schedule: it creates no jobs until `until`, else until `resume`.  What runs goes on.

        Raises FournosError for an end that has passed.
        """
        from fournos.insight.schedule_manifests import suspend_change

        await self._patch(lambda: suspend_change(reason=reason, until=until, now=self._client.now()))

    @typed
    async def resume(self) -> None:
        """Ends the suspension.  Times that have passed are not made up for.

        Raises FournosError if it is not suspended.
        """
        from fournos.insight.schedule_manifests import resume_change

        await self._patch(lambda: resume_change(self._raw))

    @typed
    async def trigger(self, *, timeout: Seconds = PATIENCE) -> Handles[AsyncJob]:
        """Makes a fire by hand and returns its jobs; `timeout=0` does not wait for them.

        It also works while the schedule is suspended, counts as an active fire and moves no time.  Raises
        WaitTimeout after `timeout`; the request stays in force.
        """
        from fournos.insight.schedule_manifests import taken_up, trigger_change
        from fournos.insight.schedules import jobs_of_trigger

        trigger = secrets.token_hex(5)
        await self._patch(lambda: trigger_change(self._raw, trigger, self._client.now()))
        if not timeout:
            return Handles()
        await self._effect(
            lambda: taken_up(self._raw, trigger), timeout, f"the operator has not taken up trigger {trigger}"
        )
        return self._handles(await jobs_of_trigger(self._client.api, self._raw, trigger))

    @typed
    async def jobs(self) -> Handles[AsyncJob]:
        """Returns the jobs of the schedule that are still there, newest first."""
        from fournos.insight.schedules import jobs_of

        return self._handles(await jobs_of(self._client.api, self._raw))

    @typed
    async def delete(self, *, cascade: bool = False) -> None:
        """Deletes the schedule.  Its jobs stay, and those that run go on; with `cascade` they are deleted."""
        await super().delete()
        for job in await self.jobs() if cascade else ():
            with suppress(DeletedError):
                await job.delete()

    def _handles(self, jobs: Iterable[Obj]) -> Handles[AsyncJob]:
        return Handles(AsyncJob(self._client, job) for job in jobs)
