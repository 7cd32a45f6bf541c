"""Decides how a job is stopped, held and released.  Pure."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

from fournos.api.phase import HOLDING
from fournos.engine.kube.resource import Obj
from fournos.insight.values import is_terminal, name_of, phase_of, since, spec_of, status_of


@dataclass(frozen=True, slots=True)
class StopVerdict:
    """The result of a request to stop a job."""

    message: str
    shutdown: str | None = None
    """The value of spec.shutdown to write; None if no write is needed."""
    ended: bool = False
    """True if the job has already ended."""

    @property
    def change(self) -> Obj | None:
        """The merge patch; None if no write is needed."""
        return {"spec": {"shutdown": self.shutdown}} if self.shutdown else None


def decide_stop(job: Obj, *, now: bool, clock: datetime) -> StopVerdict:
    """Returns the value of spec.shutdown to write, and the message for the user.

    `now` requests Terminate instead of Stop; `clock` is the current time.
    """
    name, phase = name_of(job), phase_of(job)
    shutdown = "Terminate" if now else "Stop"
    current = spec_of(job).get("shutdown")
    if is_terminal(job):
        return StopVerdict(f"{_ended(job, clock)} Nothing to stop.", ended=True)
    if job["metadata"].get("deletionTimestamp"):
        return StopVerdict(f"{name} is being deleted, which stops it.")
    if current == shutdown:
        return StopVerdict(f"{name} is being stopped already ({current}).")
    if current == "Terminate":
        return StopVerdict(f"{name} is being terminated already; a gentler stop is no longer possible.")
    how = "terminating, finally tasks are skipped" if now else "stopping, its finally tasks run"
    if phase not in HOLDING:
        how = "stopping, nothing of it runs yet"
    return StopVerdict(f"{name}: {how}. Follow it: fournos watch {name}", shutdown=shutdown)


@dataclass(frozen=True, slots=True)
class HoldVerdict:
    """The result of a request to hold or release a job."""

    message: str
    suspend: bool | None = None
    """The value of spec.suspend to write; None if no write is needed."""
    ended: bool = False
    """True if the job has already ended."""

    @property
    def change(self) -> Obj | None:
        """The merge patch; None if no write is needed."""
        return None if self.suspend is None else {"spec": {"suspend": self.suspend}}


def decide_hold(job: Obj, *, clock: datetime) -> HoldVerdict:
    """Returns what keeps a job from running until it is released, and the message for the user."""
    name, spec = name_of(job), spec_of(job)
    if is_terminal(job):
        return HoldVerdict(f"{_ended(job, clock)} Nothing to hold.", ended=True)
    if job["metadata"].get("deletionTimestamp") or spec.get("shutdown"):
        return HoldVerdict(f"{name} is being stopped: it does not run again.")
    if spec.get("suspend"):
        return HoldVerdict(f"{name} is held already.")
    under_way = phase_of(job) in HOLDING
    how = "its run is stopped, its finally tasks run" if under_way else "it leaves the queue"
    return HoldVerdict(f"{name} is held: {how}. Queue it again: fournos release {name}", suspend=True)


def decide_release(job: Obj, *, clock: datetime) -> HoldVerdict:
    """Returns what lets a held job go on, and the message for the user."""
    name = name_of(job)
    if is_terminal(job):
        return HoldVerdict(f"{_ended(job, clock)} Nothing to release.", ended=True)
    if not spec_of(job).get("suspend"):
        return HoldVerdict(f"{name} is not held.")
    return HoldVerdict(f"{name} is released: it is queued again.", suspend=False)


def _ended(job: Obj, clock: datetime) -> str:
    finished = (status_of(job).get("phaseTimes") or {}).get("finished")
    ago = f" {since(finished, clock)} ago" if finished else ""
    return f"{name_of(job)} has ended already: {phase_of(job)}{ago}."
