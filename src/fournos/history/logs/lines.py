"""Lines of a container's log as the kubelet sends them: split, bounded, and compared on resumption.  Pure."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import UTC, datetime
from typing import Final

from fournos.history.logs.models import Position

LONGEST: Final = 64 * 1024
"""Bytes of a line; the rest of a longer one is left out."""
_CUT: Final = b" [the rest of this line is left out]"
_STAMP: Final = 40
"""A timestamp is shorter than this."""
_NANOSECONDS: Final = 1_000_000_000


class LineSplitter:
    """Splits a stream of bytes into lines, and holds at most one bounded line in memory."""

    def __init__(self) -> None:
        self._rest = b""
        self._skipping = False

    def feed(self, piece: bytes) -> list[bytes]:
        """Returns the lines that are complete with this piece."""
        *whole, rest = piece.split(b"\n")
        if not whole:
            self._keep(rest)
            return []
        first, *others = whole
        lines = [_bounded(line) for line in others]
        if self._skipping:
            lines.insert(0, self._rest)
        else:
            lines.insert(0, _bounded(self._rest + first))
        self._rest, self._skipping = b"", False
        self._keep(rest)
        return lines

    def rest(self) -> list[bytes]:
        """Returns the last line, which has no line break, when the stream has ended."""
        last, self._rest, self._skipping = self._rest, b"", False
        return [last] if last else []

    def _keep(self, rest: bytes) -> None:
        if self._skipping:
            return
        self._rest += rest
        if len(self._rest) > LONGEST:
            self._rest, self._skipping = _bounded(self._rest), True


def _bounded(line: bytes) -> bytes:
    return line if len(line) <= LONGEST else line[:LONGEST] + _CUT


def timestamp(line: bytes) -> int:
    """Returns the timestamp in front of a line, in nanoseconds; 0 if there is none."""
    return nanoseconds(line[:_STAMP].partition(b" ")[0].decode("ascii", "replace"))


def nanoseconds(text: str) -> int:
    """Returns an RFC 3339 time as nanoseconds since 1970; 0 if it is none."""
    seconds, _, fraction = text.partition(".")
    digits = fraction.rstrip("Z")
    zone = "Z"
    for sign in "+-":
        number, found, offset = digits.partition(sign)
        if found:
            digits, zone = number, sign + offset
    try:
        at = datetime.fromisoformat((seconds if not fraction else seconds + zone).replace("Z", "+00:00"))
        return int(at.timestamp()) * _NANOSECONDS + int(digits[:9].ljust(9, "0"))
    except ValueError:
        return 0


def written(at: int) -> str:
    """Returns nanoseconds since 1970 as the kubelet writes a timestamp."""
    seconds, rest = divmod(at, _NANOSECONDS)
    return f"{datetime.fromtimestamp(seconds, UTC):%Y-%m-%dT%H:%M:%S}.{rest:09}Z"


def text_of(line: bytes) -> tuple[str, str]:
    """Returns the timestamp and the text of a line; a message of the kubelet itself has no timestamp."""
    whole = line.decode(errors="replace")
    at, space, text = whole.partition(" ")
    return (at, text) if at[10:11] == "T" and at[4:5] == "-" and (space or len(at) < _STAMP) else ("", whole)


class Resumption:
    """Drops the lines of a resumed stream that are stored already.

    The kubelet resumes by whole seconds, so that it sends some lines again.
    """

    def __init__(self, position: Position) -> None:
        self._position = position
        self._left = position.same
        self._over = not position.at

    def new(self, lines: Sequence[bytes]) -> Sequence[bytes]:
        """Returns those of the lines that follow the position."""
        if self._over:
            return lines
        for number, line in enumerate(lines):
            at = timestamp(line)
            if at == self._position.at and self._left:
                self._left -= 1
            elif at >= self._position.at:
                self._over = True
                return lines[number:]
        return []


def advance(position: Position, lines: Iterable[bytes]) -> Position:
    """Returns the position after these lines."""
    last, same = position.at, position.same
    lines = list(lines)
    if not lines:
        return position
    at = timestamp(lines[-1]) or last
    count = 0
    for line in reversed(lines):
        if timestamp(line) != at:
            return Position(at, max(count, 1))
        count += 1
    return Position(at, count + (same if at == last else 0))
