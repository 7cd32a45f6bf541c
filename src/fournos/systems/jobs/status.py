"""The status draft of a FournosJob: collects the changes of one pass, which are written once."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import Any, Self

from fournos.api.fournosjob import (
    MAX_ATTEMPTS_KEPT,
    Attempt,
    FournosJobStatus,
    Outcome,
    PhaseTimes,
    Waiting,
)
from fournos.api.phase import PHASE_TIME
from fournos.engine.api.values import format_time
from fournos.engine.kube.resource import Obj
from fournos.engine.runtime.status_draft import Draft, read
from fournos.systems.jobs.names import display_name

MESSAGE_MAX = 4096

_EMPTY = FournosJobStatus()
"""What is read of a field that is absent."""


class StatusDraft(Draft):
    """A copy of a FournosJob's status with the changes and events of this pass."""

    def __init__(self, job: Obj, now: datetime) -> None:
        super().__init__(job, now)
        self._parsed: dict[str, tuple[Any, FournosJobStatus]] = {}
        """Field → its JSON value and the parsed status, because a pass reads a field often."""
        self._display_name = display_name(job)

    # --- reading: each field by its own type, so that an invalid field does not affect the others ---

    def _read(self, name: str) -> FournosJobStatus:
        value = self._status.get(name)
        if value is None:
            return _EMPTY
        parsed = self._parsed.get(name)
        if parsed is None or parsed[0] is not value:  # a changed field is a new object
            parsed = self._parsed[name] = (value, read(FournosJobStatus, self._status, name))
        return parsed[1]

    @property
    def attempt(self) -> int:
        """The number of the current attempt; 0 before the first."""
        return self._read("attempt").attempt or 0

    @property
    def attempts(self) -> tuple[Attempt, ...]:
        """The most recent attempts, oldest first."""
        return self._read("attempts").attempts

    @property
    def last_attempt(self) -> Attempt:
        """The last attempt; before the first, an empty one with number 0."""
        return next(reversed(self.attempts), Attempt(number=0))

    @property
    def cluster(self) -> str:
        """The cluster that Kueue assigned; "" before that."""
        return self._read("cluster").cluster or ""

    @property
    def phase_times(self) -> PhaseTimes:
        return self._read("phaseTimes").phase_times or PhaseTimes()

    @property
    def is_resolved(self) -> bool:
        return self._read("resolved").resolved is not None

    @property
    def retry_at(self) -> datetime | None:
        return self._read("retryAt").retry_at

    @property
    def stop_requested_at(self) -> datetime | None:
        return self._read("stopRequestedAt").stop_requested_at

    @property
    def archived_at(self) -> datetime | None:
        return self._read("archivedAt").archived_at

    @property
    def suspected_at(self) -> datetime | None:
        return self._read("suspectedAt").suspected_at

    @property
    def observed_generation(self) -> int | None:
        return self._read("observedGeneration").observed_generation

    @property
    def resolved_hardware(self) -> Mapping[str, Any]:
        """The hardware that resolving came to, as JSON; empty if there is none."""
        return (self._status.get("resolved") or {}).get("hardware") or {}

    def resolve_hardware(self, hardware: Mapping[str, Any]) -> Self:
        """Sets the GPUs that the job has, of those that it accepts."""
        return self.put(resolved={**(self._status.get("resolved") or {}), "hardware": dict(hardware)})

    # --- changing ---

    def enter(self, phase: str, message: str) -> Self:
        """Sets the phase and the time of entering it; a phase that repeats keeps the last time."""
        if phase != self.phase:
            times = dict(self._status.get("phaseTimes") or {})
            times[PHASE_TIME[phase]] = format_time(self._now)
            self._status["phaseTimes"] = times
            self._status["phase"] = phase
            # What was recorded before is not the end that this phase leads to, or is.
            self._status.pop("archivedAt", None)
            self._status.pop("suspectedAt", None)
        return self.set_message(message)

    def started_running(self, at: datetime) -> Self:
        """Sets the start time of a run that was too short for a Running phase.

        An existing time is kept, unless it is that of an earlier attempt.
        """
        running, attempt = self.phase_times.running, self.last_attempt.started_at
        if running is None or (attempt is not None and running < attempt):
            times = self._status.get("phaseTimes") or {}
            self._status["phaseTimes"] = {**times, "running": format_time(at)}
        return self

    def set_message(self, message: str, waiting: Waiting | None = None) -> Self:
        """Sets the message, cut to MESSAGE_MAX characters, and with it what a queued job waits for."""
        self._status["message"] = message[:MESSAGE_MAX]
        return self.put(waiting=waiting and waiting.model_dump(by_alias=True, exclude_none=True))

    def begin_attempt(self, *, cluster: str, workload: str | None, run: str | None) -> Self:
        """Adds the next attempt; its number, cluster and object names are the claim.

        Only MAX_ATTEMPTS_KEPT attempts are kept: all that failed, as `spec.retry` counts them, and the last
        of the others.
        """
        number = self.attempt + 1
        entry: dict[str, Any] = {
            "number": number,
            "cluster": cluster,
            "startedAt": format_time(self._now),
        }
        if workload:
            entry["workload"] = workload
        if run:
            entry["pipelineRun"] = run
        self._status["attempt"] = number
        attempts = [*(self._status.get("attempts") or ()), entry]
        if len(attempts) > MAX_ATTEMPTS_KEPT:
            others = (place for place, each in enumerate(attempts) if each.get("outcome") != Outcome.FAILED)
            del attempts[next(others, 0)]
        self._status["attempts"] = attempts
        return self

    def amend_attempt(self, **fields: Any) -> Self:
        """Changes fields of the current attempt's entry."""
        attempts = list(self._status.get("attempts") or ())
        if attempts and attempts[-1].get("number") == self.attempt:
            attempts[-1] = {**attempts[-1], **fields}
            self._status["attempts"] = attempts
        return self

    def end_attempt(self, outcome: str, message: str = "") -> Self:
        """Records how the current attempt ended; an existing outcome is kept."""
        if self.last_attempt.outcome is not None:
            return self
        ended: dict[str, Any] = {"outcome": outcome, "finishedAt": format_time(self._now)}
        if message:
            ended["message"] = message[:1024]
        return self.amend_attempt(**ended)

    def render(self) -> Mapping[str, Any]:
        """Returns the status to write, with observedGeneration and displayName unless it is empty."""
        status = super().render()
        if self._generation is None or not status:
            return status
        return {**status, "observedGeneration": self._generation, "displayName": self._display_name}
