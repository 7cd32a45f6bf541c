"""The stored logs of a run.  Pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from enum import Enum, auto

from fournos.engine.kube.resource import Key
from fournos.history.records import api_row

_STEP = "step-"
RESOLVER_ATTEMPT = 0
"""The attempt of the resolver's log; those of runs start at 1."""


@dataclass(frozen=True, slots=True)
class StartedContainer:
    """A started container of a run, as its pod shows it."""

    pod: Key
    pod_uid: str
    name: str
    task: str
    """The task of the Pipeline; "resolver" for the resolve Job."""
    attempt: int
    position: int
    """Its place among the containers of the pod."""
    started_at: datetime
    ended_at: datetime | None = None
    exit_code: int | None = None
    """None while it runs."""

    @property
    def id(self) -> tuple[str, str]:
        return self.pod_uid, self.name

    @property
    def ended(self) -> bool:
        return self.exit_code is not None


@dataclass(frozen=True, slots=True)
class Position:
    """The last stored line of a container's log, by which its stream is resumed."""

    at: int = 0
    """The timestamp of the line, in nanoseconds since 1970."""
    same: int = 0
    """How many stored lines at the end have this timestamp."""


@dataclass(frozen=True, slots=True)
class Chunk:
    """A part of a container's log: some lines in one compressed blob."""

    number: int
    first: int
    """The number of its first line, from 0."""
    lines: int
    bytes: int
    """Of the lines, before compression."""
    key: str


class Put(Enum):
    """What became of a write of a log's state."""

    STORED = auto()
    NO_RUN = auto()
    BEHIND = auto()
    """Another process has stored lines since the state that the write begins at."""


@dataclass(frozen=True, slots=True)
class Log:
    """The stored log of one container."""

    container: StartedContainer
    lines: int = 0
    bytes: int = 0
    position: Position = Position()
    complete: bool = False
    """True if nothing more will be stored."""
    cut: bool = False
    """True if lines were left out."""
    failing_line: int | None = None
    """The first line, from 0, that shows why the container failed; None if it did not fail."""
    failing_text: str = ""


# --- what the API shows ---------------------------------------------------------------------------------


@api_row
@dataclass(frozen=True, slots=True)
class LogPart:
    """The log of one container, as a part of the log that was asked for."""

    attempt: int
    """0 for the resolver."""
    task: str
    container: str
    pod: str
    first_line: int
    """The number of its first line, from 1, within all lines that were asked for."""
    lines: int
    bytes: int
    complete: bool
    """False while lines may follow."""
    cut: bool
    """True if lines were left out, because the run printed more than is kept."""
    started_at: datetime
    ended_at: datetime | None
    exit_code: int | None

    def source(self, parts: Sequence[LogPart]) -> str:
        """Returns the name in front of its lines: the task, with the step if the task has several."""
        alone = sum((one.attempt, one.pod) == (self.attempt, self.pod) for one in parts) == 1
        return self.task if alone else f"{self.task}/{self.container.removeprefix(_STEP)}"


@api_row
@dataclass(frozen=True, slots=True)
class StoredLine:
    """A line of a log."""

    line: int
    """Its number, from 1."""
    part: int
    """The index of its part in `LogPage.parts`."""
    at: str
    """When it was printed, by the clock of the node."""
    text: str


@api_row
@dataclass(frozen=True, slots=True)
class FailingLine:
    """The first line that shows why the run failed."""

    line: int
    """Its number, from 1."""
    task: str
    container: str
    exit_code: int
    text: str


@api_row
@dataclass(frozen=True, slots=True)
class LogPage:
    """Some lines of a run's log.

    Lines are numbered through the containers in the order in which these started.  The numbers of a container
    that has ended, and of one container alone, never change.
    """

    parts: tuple[LogPart, ...]
    lines: tuple[StoredLine, ...]
    total: int
    """The number of all lines that were asked for."""
    next: int | None
    """The number of the line after these; None after the last line of a complete log."""
    failure: FailingLine | None
    complete: bool
    """False while lines may follow, also of containers that have not started."""
