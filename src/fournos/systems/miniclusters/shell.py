"""Converts users' text to shell code: the words of a command, or a script without its escapes."""

from __future__ import annotations

import re
import shlex
from typing import Final

_SPECIAL: Final = frozenset(";&|<>(){}#~!")
"""Unquoted, these characters are shell syntax. A command is only a list of words, so they are escaped."""
_EXPANDS: Final = re.compile(r"[A-Za-z0-9_({@*#?$!-]")
_CLOSING: Final = {"(": ")", "{": "}"}
_OPENING: Final = {closing: opening for opening, closing in _CLOSING.items()}
_ESCAPED: Final = re.compile(r"\\([$`\\\n])")

quote = shlex.quote


def words(text: str) -> str:
    """Returns the words of a command, for use within the parentheses of a bash array.

    Quotes group words. Variables, $(…) and patterns expand in the entrypoint. Lines are joined. Operators
    such as && are words. Quotes that do not match are ordinary characters.
    """
    text = text.strip()
    return _words(text, literal=False) or _words(text, literal=True) or ""


def _words(text: str, *, literal: bool) -> str | None:
    """Returns the words; None if a quote or a $( is not closed.

    With `literal` quotes and expansions are ordinary characters.
    """
    out: list[str] = []
    position, quoted = 0, ""
    while position < len(text):
        char = text[position]
        following = text[position + 1 : position + 2]
        position += 1
        if char == "\x00":
            continue
        if quoted == "'":
            quoted = "" if char == "'" else quoted
            out.append(char)
        elif char == "\\":
            # A backslash joins lines. At the very end it is doubled, because it would escape the next
            # character.
            if following == "\n":
                out.append(" ")
            else:
                out.append(char + (following or "\\"))
            position += 1
        elif literal and char in "'\"`$":
            out.append(f"\\{char}")
        elif char == "$" and not _EXPANDS.match(following):
            out.append("\\$")  # $[…], $'…' and $"…" are bash syntax that users do not mean
        elif char in "$`" and (end := _expansion(text, position - 1)) is not None:
            if end < 0:
                return None
            out.append(text[position - 1 : end])
            position = end
        elif char == '"':
            quoted = "" if quoted else '"'
            out.append(char)
        elif quoted:
            out.append(char)
        elif char == "'":
            quoted = "'"
            out.append(char)
        elif char in "\r\n":
            out.append(" ")
        elif char == "[" and (not out or out[-1].isspace()):
            out.append("\\[")  # at the start of a word, bash would read it as a subscript
        else:
            out.append(f"\\{char}" if char in _SPECIAL else char)
    return None if quoted else "".join(out)


def _expansion(text: str, start: int) -> int | None:
    """Returns the position behind the expansion that begins here; None if none, -1 if it is not closed."""
    if text[start] == "`":
        end = text.find("`", start + 1)
        return end + 1 if end >= 0 else -1
    closing = _CLOSING.get(text[start + 1 : start + 2])
    return None if closing is None else _closed(text, start + 2, closing)


_DEEPEST = 50
"""The greatest depth of nested expansions that is parsed."""


def _closed(text: str, position: int, closing: str, depth: int = 0) -> int:
    """Returns the position behind the next `closing` outside quotes and inner brackets; -1 if none."""
    opening = _OPENING.get(closing, "")
    if depth > _DEEPEST:
        return -1
    while 0 <= position < len(text):
        char = text[position]
        position += 1
        if char == closing:
            return position
        if char == "\\":
            position += 1
        elif char == "'" and closing != '"':
            position = text.find("'", position) + 1 or -1
        elif char == '"':
            position = _closed(text, position, '"', depth + 1)
        elif char == "$" and (inner := _CLOSING.get(text[position : position + 1])):
            position = _closed(text, position + 1, inner, depth + 1)
        elif char == opening:
            position = _closed(text, position, closing, depth + 1)
    return -1


def unescaped(script: str) -> str:
    """Returns a user's script without the escapes that upstream's here-document needs: `\\$` becomes `$`."""
    return _ESCAPED.sub(lambda match: "" if match[1] == "\n" else match[1], script)


def lines(text: str) -> str:
    """Returns the user's shell code with a newline at its end."""
    return text if text.endswith("\n") else f"{text}\n"
