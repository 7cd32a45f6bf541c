"""Text of users as shell code: the words of a command, a script with its escapes taken out."""

from __future__ import annotations

import re
import shlex
from typing import Final

_SPECIAL: Final = frozenset(";&|<>(){}#~!")
"""Unquoted these would start something; a command is a list of words, and nothing else."""
_EXPANDS: Final = re.compile(r"[A-Za-z0-9_({@*#?$!-]")
_CLOSING: Final = {"(": ")", "{": "}"}
_OPENING: Final = {closing: opening for opening, closing in _CLOSING.items()}
_ESCAPED: Final = re.compile(r"\\([$`\\\n])")

quote = shlex.quote


def words(text: str) -> str:
    """The words of a command, as they may stand within the parentheses of a bash array.

    Quotes group, variables, $(…) and patterns expand in the entrypoint, lines are joined; operators such as
    && are words.  Where quotes do not match they are ordinary characters.
    """
    text = text.strip()
    return _words(text, literal=False) or _words(text, literal=True) or ""


def _words(text: str, *, literal: bool) -> str | None:
    """None if a quote or a $( is not closed; `literal` takes all of these for ordinary characters."""
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
            # A line that goes on; and a backslash at the very end would take what comes after it along.
            if following == "\n":
                out.append(" ")
            else:
                out.append(char + (following or "\\"))
            position += 1
        elif literal and char in "'\"`$":
            out.append(f"\\{char}")
        elif char == "$" and not _EXPANDS.match(following):
            out.append("\\$")  # $[…], $'…' and $"…" are more of bash than was meant
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
            out.append("\\[")  # at the start of a word it would be a subscript
        else:
            out.append(f"\\{char}" if char in _SPECIAL else char)
    return None if quoted else "".join(out)


def _expansion(text: str, start: int) -> int | None:
    """Where the expansion that begins here ends: None if there is none, -1 if it is not closed."""
    if text[start] == "`":
        end = text.find("`", start + 1)
        return end + 1 if end >= 0 else -1
    closing = _CLOSING.get(text[start + 1 : start + 2])
    return None if closing is None else _closed(text, start + 2, closing)


_DEEPEST = 50
"""Expansions inside each other that are followed: no command has as many."""


def _closed(text: str, position: int, closing: str, depth: int = 0) -> int:
    """Behind the next `closing` that no quote or inner bracket hides; -1 if there is none."""
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
    """A script of the user's, as upstream writes it through a here-document: `\\$` becomes `$`."""
    return _ESCAPED.sub(lambda match: "" if match[1] == "\n" else match[1], script)


def lines(text: str) -> str:
    """Shell code of the user's, ending with a newline."""
    return text if text.endswith("\n") else f"{text}\n"
