"""The lines of a log as its page shows them: numbered, a part of them, with the first error.  Pure."""

from __future__ import annotations

import re
from collections import deque
from dataclasses import dataclass, field
from typing import Final

from fournos.client.logs import LogLine
from fournos.engine.api.values import escaped_line
from fournos.history.logs.stored import FailingLine

LONGEST: Final = 4_000
"""Characters of a line that are shown."""
MATCHES: Final = 500
"""Lines that a search shows."""
_COLOUR: Final = re.compile(r"\x1b\[[0-9;:?]*[ -/]*[@-~]|\x1b\][^\x07\x1b]*(?:\x07|\x1b\\)")
"""Terminal sequences: of colours and movements, and of titles."""


@dataclass(frozen=True, slots=True)
class ShownLine:
    number: int
    """From 1; 0 for a notice, which is not part of the log."""
    source: str
    text: str


def plain(text: str) -> str:
    """The text without terminal sequences; other control characters are visible, long lines are cut."""
    line = escaped_line(_COLOUR.sub("", text).replace("\t", "    ").rstrip("\r"))
    if len(line) <= LONGEST:
        return line
    return f"{line[:LONGEST]}… ({len(line) - LONGEST} characters more: download the log)"


@dataclass(slots=True)
class Window:
    """Takes all lines of a log one by one, and keeps those of a part of it."""

    most: int
    first: int = 0
    """The number of the first line that is kept; 0: the last lines are kept."""
    search: str = ""
    total: int = 0
    failed: bool = False
    """True for the log of a job that has failed."""
    matches: list[ShownLine] = field(default_factory=list)
    more_matches: int = 0
    kept: deque[ShownLine] = field(default_factory=deque)
    sources: dict[str, None] = field(default_factory=dict)
    _failing: FailingLine = field(default_factory=FailingLine)

    def feed(self, line: LogLine) -> None:
        if line.notice:
            self._keep(ShownLine(0, line.source, plain(line.text)))
            return
        self.total += 1
        self.sources[line.source] = None
        self._failing.feed(self.total, line.text)
        if self.search and self.search.lower() in line.text.lower():
            self._match(line)
        if not self.first or self.first <= self.total < self.first + self.most:
            self._keep(ShownLine(self.total, line.source, plain(line.text)))

    @property
    def error(self) -> int:
        """The number of the first line that shows why the job failed; 0 if it did not fail."""
        found = self._failing.found if self.failed else None
        return found[0] if found else 0

    def _match(self, line: LogLine) -> None:
        if len(self.matches) < MATCHES:
            self.matches.append(ShownLine(self.total, line.source, plain(line.text)))
        else:
            self.more_matches += 1

    def _keep(self, line: ShownLine) -> None:
        self.kept.append(line)
        if len(self.kept) > self.most:
            self.kept.popleft() if not self.first else self.kept.pop()

    @property
    def start(self) -> int:
        """The number of the first kept line; 0 without one."""
        return next((line.number for line in self.kept if line.number), 0)

    @property
    def end(self) -> int:
        """The number of the last kept line; 0 without one."""
        return next((line.number for line in reversed(self.kept) if line.number), 0)
