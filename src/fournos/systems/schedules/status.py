"""The status draft of a FournosSchedule.  Each pass has one draft and writes it once, if anything differs."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import datetime
from typing import Any, Self

from fournos.api.fournosschedule import (
    ActiveFire,
    FireOutcome,
    FournosScheduleStatus,
    LastFire,
    MissedReason,
)
from fournos.engine.api.times import format_time
from fournos.engine.runtime.status_draft import Draft, read

ACCEPTED = "Accepted"
"""The condition that says whether the spec can be used."""
OVERLAPPING = "Overlapping"
"""The condition that is True while a fire waits for, or was skipped because of, one before it."""
_MESSAGE_MAX = 1024


class StatusDraft(Draft):
    """A copy of the status with the changes of this pass, and the events to record with them."""

    # --- reading ---

    @property
    def active(self) -> tuple[ActiveFire, ...]:
        return self._read("active").active

    @property
    def last_fire(self) -> LastFire | None:
        return self._read("lastFire").last_fire

    @property
    def last_schedule_time(self) -> datetime | None:
        return self._read("lastScheduleTime").last_schedule_time

    @property
    def last_start_time(self) -> datetime | None:
        return self._read("lastStartTime").last_start_time

    @property
    def effective_since(self) -> datetime | None:
        return self._read("effectiveSince").effective_since

    @property
    def failures(self) -> int:
        return self._read("failures").failures or 0

    @property
    def last_trigger(self) -> str | None:
        return self._read("lastTrigger").last_trigger

    @property
    def observed_generation(self) -> int | None:
        return self._read("observedGeneration").observed_generation

    def _read(self, name: str) -> FournosScheduleStatus:
        return read(FournosScheduleStatus, self._status, name)

    # --- changing ---

    def times(self, **fields: datetime | None) -> Self:
        """Sets top-level times by their JSON names; None removes a field."""
        return self.put(**{name: format_time(time) if time else None for name, time in fields.items()})

    def fires(self, active: Iterable[ActiveFire]) -> Self:
        return self.put(active=[_rendered(fire) for fire in active] or None)

    def ended(self, fire: ActiveFire, outcome: FireOutcome, message: str) -> Self:
        """Takes a fire from the active ones, and counts its outcome."""
        self.fires(other for other in self.active if other.time != fire.time)
        text = message[:_MESSAGE_MAX] or None
        before = self.last_fire
        if before is None or before.time <= fire.time:  # with the policy Allow an older one may end later
            last = LastFire(time=fire.time, outcome=outcome, message=text, digest=fire.digest)
            self.put(lastFire=_rendered(last))
        if fire.trigger is not None:
            return self  # a try by hand moves no time, and suspends no schedule
        if outcome is FireOutcome.SUCCEEDED:
            self.times(lastSuccessTime=fire.time)
            return self.put(failures=None)
        return self.put(failures=self.failures + 1) if outcome is FireOutcome.FAILED else self

    def add_missed(self, missed: Mapping[MissedReason, int], newest: datetime) -> Self:
        if not missed:
            return self
        before: Mapping[str, Any] = self._status.get("missed") or {}
        count = int(before.get("count") or 0) + sum(missed.values())
        reason = [reason for reason in MissedReason if reason in missed][-1]
        return self.put(missed={"count": count, "reason": reason.value, "time": format_time(newest)})

    def overlapping(self, text: str) -> Self:
        """Sets the condition Overlapping; without a text to False, if it is there."""
        if text:
            return self.condition(OVERLAPPING, "True", "Active", text[:_MESSAGE_MAX])
        return self.condition(OVERLAPPING, "False", "Ended") if self.is_true(OVERLAPPING) else self


def _rendered(entry: ActiveFire | LastFire) -> dict[str, Any]:
    """Returns the JSON of an entry, with times as Kubernetes has them and without what is not set."""
    values: dict[str, Any] = entry.model_dump(by_alias=True, exclude_none=True, exclude_defaults=True)
    return {
        name: format_time(value) if isinstance(value, datetime) else value
        for name, value in (
            (name, list(value) if isinstance(value, tuple) else value) for name, value in values.items()
        )
    }
