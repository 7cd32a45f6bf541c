"""The log of a container: which ones are stored, and the first line that shows why one failed.  Pure."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Final

from fournos.engine.kube.resource import Obj, is_terminating, owner_uids, uid_of
from fournos.history.records import api_row
from fournos.insight.children import RUN_LABEL, Children, label_of, task_of
from fournos.insight.failure import RESOLVER
from fournos.insight.values import created, moment, name_of, spec_of, status_of
from fournos.systems.jobs.names import ATTEMPT_LABEL

RESOLVER_ATTEMPT: Final = 0
"""The attempt of the resolver's log; those of runs start at 1."""
LONGEST: Final = 500
"""Characters that are kept of a failing line."""
_STEP: Final = "step-"


@api_row
@dataclass(frozen=True, slots=True)
class ContainerLog:
    """The log of one container of a run."""

    pod: str
    pod_uid: str
    container: str
    task: str
    """The task of the Pipeline; "resolver" for the resolve Job."""
    attempt: int
    """0 for the resolver."""
    position: int
    """The place of the container in its pod."""
    started_at: datetime
    ended_at: datetime | None = None
    """None: its pod was deleted while it ran."""
    exit_code: int | None = None
    bytes: int = 0
    """Of the stored text."""
    truncated: bool = False
    """True if lines are left out, because the run printed more than is stored."""
    failing_line: int | None = None
    """The number, from 1, of the first line that shows why the container failed; None if it did not fail."""
    failing_text: str = ""

    @property
    def id(self) -> tuple[str, str]:
        return self.pod_uid, self.container

    def source(self, logs: Iterable[ContainerLog]) -> str:
        """Returns the name in front of its lines: the task, with the step if the task has several."""
        alone = sum(log.pod_uid == self.pod_uid for log in logs) == 1
        return self.task if alone else f"{self.task}/{self.container.removeprefix(_STEP)}"


@dataclass(frozen=True, slots=True)
class StartedContainer:
    """A started container, as its pod shows it."""

    log: ContainerLog
    readable: bool
    """True if its log can be stored now: it has ended, or its pod is deleted and takes the log with it."""


def started_containers(children: Children) -> tuple[StartedContainer, ...]:
    """Returns the started containers of all attempts and of the resolver."""
    resolvers = frozenset(map(uid_of, children.resolve_jobs))
    attempts = {name_of(run): label_of(run, ATTEMPT_LABEL) for run in children.runs}
    result: list[StartedContainer] = []
    for pod in children.pods:
        if owner_uids(pod) & resolvers:
            result += _started(pod, RESOLVER, RESOLVER_ATTEMPT)
        else:
            number = attempts.get(label_of(pod, RUN_LABEL)) or label_of(pod, ATTEMPT_LABEL) or "1"
            result += _started(pod, task_of(pod), int(number))
    return tuple(result)


def _started(pod: Obj, task: str, attempt: int) -> Iterator[StartedContainer]:
    names = [one["name"] for one in spec_of(pod).get("containers") or ()]
    for status in status_of(pod).get("containerStatuses") or ():
        states = status.get("state") or {}
        end = states.get("terminated")
        state = states.get("running") if end is None else end
        if state is None:
            continue
        name = str(status["name"])
        began = moment(state.get("startedAt")) or moment(created(pod))
        assert began is not None
        container = ContainerLog(
            pod=name_of(pod),
            pod_uid=uid_of(pod),
            container=name,
            task=task,
            attempt=attempt,
            position=names.index(name) if name in names else len(names),
            started_at=began,
            ended_at=(moment(end.get("finishedAt")) or began) if end is not None else None,
            exit_code=int(end.get("exitCode") or 0) if end is not None else None,
        )
        yield StartedContainer(container, end is not None or is_terminating(pod))


def readable_ids(pod: Obj) -> list[tuple[str, str]]:
    """Returns `ContainerLog.id` of the containers of a pod whose logs can be stored."""
    return [one.log.id for one in _started(pod, "", RESOLVER_ATTEMPT) if one.readable]


def chosen(
    logs: Sequence[ContainerLog],
    *,
    task: str = "",
    container: str = "",
    attempt: int | None = None,
    resolver: bool = False,
) -> list[ContainerLog]:
    """Returns the logs that are asked for; without an attempt those of the newest one that has a log."""
    newest = max((log.attempt for log in logs), default=RESOLVER_ATTEMPT)
    number = RESOLVER_ATTEMPT if resolver else newest if attempt is None else attempt
    return [
        log
        for log in logs
        if log.attempt == number
        and task in ("", log.task)
        and container in ("", log.container, log.container.removeprefix(_STEP))
    ]


def first_failed(logs: Iterable[ContainerLog]) -> ContainerLog | None:
    """Returns the log of the container that failed first, of those that have a failing line."""
    failed = [log for log in logs if log.failing_line is not None and log.ended_at is not None]
    # Tekton ends the steps after a failed one in the same second.
    return min(failed, key=lambda log: (log.ended_at, log.position), default=None)


# --- the first line that shows a failure ----------------------------------------------------------------

_TRACEBACK: Final = re.compile(r"Traceback \(most recent call last\):")
_STRONG: Final = re.compile(
    r"^[ \t]*(?:panic|fatal error|Caused by): |\bFATAL\b|\bCRITICAL\b|^fatal: "
    r"|^[ \t]*[\w.]*(?:Error|Exception): "
    r"|Segmentation fault|core dumped|Out of memory: |OutOfMemoryError|CUDA out of memory"
    r"|: command not found$|: not found$|: No such file or directory$|: Permission denied$"
    r"|^error: |^ERROR: |^Error: |^E\d{4} |\bfailed with exit code\b|\bexit status [1-9]"
)
"""Signs of an end; they come before words that programs also print when nothing is wrong."""
_WEAK: Final = re.compile(r"\berror\b|\bERR\b|\bfailed\b|\bfailure\b|\bexception\b|\babort(?:ed|ing)\b", re.I)
_HARMLESS: Final = re.compile(
    r"\b(?:0|no|without|zero) (?:errors?|failures?|failed)\b|\b(?:errors?|failed|failures?)\s*[:=]\s*0\b",
    re.I,
)


class FailingLine:
    """The first line that shows a failure, of the lines that were fed until now."""

    def __init__(self) -> None:
        self._found: tuple[int, str] | None = None
        self._traceback: tuple[int, str] | None = None
        self._weak: tuple[int, str] | None = None
        self._last: tuple[int, str] | None = None

    def feed(self, number: int, line: str) -> None:
        """Takes the next line and its number."""
        if self._found is not None or not line.strip():
            return
        this = self._last = number, line
        if self._traceback is not None:
            if not line[0].isspace():
                self._found = this  # the last line of a traceback is the error
        elif _TRACEBACK.search(line):
            self._traceback = this
        elif _HARMLESS.search(line):
            return
        elif _STRONG.search(line):
            self._found = this
        elif self._weak is None and _WEAK.search(line):
            self._weak = this

    @property
    def certain(self) -> bool:
        """True if later lines change nothing."""
        return self._found is not None

    @property
    def found(self) -> tuple[int, str] | None:
        """The number and the text of the line of a container that has failed; None without lines."""
        result = self._found or self._traceback or self._weak or self._last
        return None if result is None else (result[0], result[1].strip()[:LONGEST])


def failing_line(lines: Iterable[str]) -> tuple[int, str] | None:
    """Returns the number, from 1, and the text of the first line that shows a failure."""
    line = FailingLine()
    for number, text in enumerate(lines, 1):
        line.feed(number, text)
        if line.certain:
            break
    return line.found
