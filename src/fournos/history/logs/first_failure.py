"""The first line of a log that shows why its container failed.  Pure.

Signs of an end (a traceback, a panic, a fatal error) come before words such as "error", which programs also
print when nothing is wrong.  Of a traceback its last line counts, because that is the error.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from typing import Final

from fournos.history.logs.models import Log, StartedContainer

LONGEST: Final = 500
"""Characters that are kept of the line."""
_DEEPEST: Final = 400
"""Lines of a traceback after which its end is not looked for any more."""

_TRACEBACK: Final = re.compile(r"Traceback \(most recent call last\):")
_STRONG: Final = re.compile(
    r"Traceback \(most recent call last\):"
    r"|^[ \t]*(?:panic|fatal error|Caused by): |\bFATAL\b|\bCRITICAL\b|^fatal: "
    r"|^[ \t]*[\w.]*(?:Error|Exception): "
    r"|Segmentation fault|core dumped|Out of memory: |OutOfMemoryError|CUDA out of memory"
    r"|: command not found$|: not found$|: No such file or directory$|: Permission denied$"
    r"|^error: |^ERROR: |^Error: |^E\d{4} |\bfailed with exit code\b|\bexit status [1-9]"
)
_ANY_STRONG: Final = re.compile(_STRONG.pattern, re.M)
"""_STRONG in a text of several lines."""
_WEAK: Final = re.compile(r"\berror\b|\bERR\b|\bfailed\b|\bfailure\b|\bexception\b|\babort(?:ed|ing)\b", re.I)
_HARMLESS: Final = re.compile(
    r"\b(?:0|no|without|zero) (?:errors?|failures?|failed)\b|\b(?:errors?|failed|failures?)\s*[:=]\s*0\b",
    re.I,
)


class FailureScanner:
    """Finds the line while the lines come; what it keeps is bounded."""

    def __init__(self) -> None:
        self._strong: tuple[int, str] | None = None
        self._weak: tuple[int, str] | None = None
        self._last: tuple[int, str] | None = None
        self._traceback: int | None = None
        """The number of the line with which a traceback began, whose end has not come."""

    def feed(self, first: int, lines: Sequence[str]) -> None:
        """Reads the next lines; `first` is the number of the first of them."""
        if not lines:
            return
        if self._strong is None:
            text = "\n".join(lines)
            # One search for all lines: most have no sign.
            if self._traceback is not None or _WEAK.search(text) or _ANY_STRONG.search(text):
                self._each(first, lines)
        for number in range(len(lines) - 1, -1, -1):
            if lines[number].strip():
                self._last = (first + number, lines[number])
                break

    def _each(self, first: int, lines: Iterable[str]) -> None:
        for number, line in enumerate(lines, first):
            if self._traceback is not None:
                if self._ends_traceback(number, line):
                    return
                continue
            if _TRACEBACK.search(line):
                self._traceback = number
            elif _STRONG.search(line) and not _HARMLESS.search(line):
                self._strong = (number, line)
                return
            elif self._weak is None and _WEAK.search(line) and not _HARMLESS.search(line):
                self._weak = (number, line)

    def _ends_traceback(self, number: int, line: str) -> bool:
        assert self._traceback is not None
        if line.strip() and not line[0].isspace():
            self._strong = (number, line)
        elif number - self._traceback > _DEEPEST:
            self._strong = (self._traceback, "Traceback (most recent call last):")
        return self._strong is not None

    @property
    def certain(self) -> bool:
        """True if later lines change nothing."""
        return self._strong is not None

    def found(self) -> tuple[int, str] | None:
        """Returns the number and the text of the line of a container that has failed; None without lines."""
        traceback = (
            None if self._traceback is None else (self._traceback, "Traceback (most recent call last):")
        )
        result = self._strong or traceback or self._weak or self._last
        return None if result is None else (result[0], result[1].strip()[:LONGEST])


def first_failed(logs: Iterable[Log]) -> Log | None:
    """Returns the log of the container that failed first, of those that have a failing line."""
    failed = [log for log in logs if log.container.exit_code and log.failing_line is not None]
    return min(failed, key=lambda log: _order(log.container), default=None)


def _order(container: StartedContainer) -> tuple[str, int]:
    """Returns the key to sort by: the end, then the position.

    Tekton ends the steps after a failed one in the same second.
    """
    assert container.ended_at is not None
    return container.ended_at.isoformat(), container.position
