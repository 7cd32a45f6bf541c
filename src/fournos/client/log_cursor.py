"""Which lines of a stored log have been read, container by container.  Pure."""

from __future__ import annotations

from typing import TYPE_CHECKING

from fournos.client.logs import LogLine

if TYPE_CHECKING:
    from fournos.history.logs.models import LogPage, LogPart


class LogCursor:
    """The position of a reader.

    Lines are numbered through the containers, so each line of one moves the numbers of those behind it: what
    counts is the place of a line in its container.
    """

    def __init__(self, *, first: int = 1, tail: int | None = None) -> None:
        """Begins at the line `first`, or at the last lines of each container; both of the first page."""
        self._first = first
        self._tail = tail
        self._read: dict[tuple[object, ...], int] = {}
        """Container → how many of its lines have been read, or are left out."""
        self._begun = False

    def take(self, page: LogPage) -> list[LogLine]:
        """Returns the lines of the page that were not read before."""
        if page.parts and not self._begun:
            self._begin(page)
        sources = [part.source(page.parts) for part in page.parts]
        lines: list[LogLine] = []
        for line in page.lines:
            part = page.parts[line.part]
            place = line.line - part.first_line
            if place == self._place(part):
                self._read[_id(part)] = place + 1
                lines.append(LogLine(sources[line.part], line.text))
        return lines

    def following(self, page: LogPage) -> int:
        """Returns the number of the first line that was not read; after all lines that of the next one."""
        unread = [part.first_line + place for part in page.parts if (place := self._place(part)) < part.lines]
        return min(unread, default=page.total + 1)

    def _begin(self, page: LogPage) -> None:
        self._begun = True
        for part in page.parts:
            left_out = self._first - part.first_line
            if self._tail is not None:
                left_out = part.lines - self._tail
            # Only the last container may still have lines before `first` to come.
            most = left_out if part is page.parts[-1] else part.lines
            self._read[_id(part)] = max(0, min(left_out, most))

    def _place(self, part: LogPart) -> int:
        return self._read.get(_id(part), 0)


def _id(part: LogPart) -> tuple[object, ...]:
    return part.attempt, part.task, part.container, part.pod
