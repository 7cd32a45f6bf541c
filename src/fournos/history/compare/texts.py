"""Texts of runs that are compared: without the run's own name, and the lines that differ.  Pure."""

from __future__ import annotations

import re


def without_own_name(text: str, name: str) -> str:
    """Replaces a run's name: of one line as the value or its begin, as in the names of what is made for it.

    In a text of several lines, such as a script in which Tekton has put parameters, it is replaced anywhere.
    """
    if not name:
        return text
    if "\n" in text:
        return re.sub(rf"(?<![\w.-]){re.escape(name)}(?![\w.])", "<job>", text)
    return f"<job>{text[len(name) :]}" if text == name or text.startswith(f"{name}-") else text


def differing_lines(values: tuple[str, ...]) -> tuple[str, ...]:
    """Returns the lines of texts of several lines in which they differ, without those before and after."""
    if not any("\n" in value for value in values):
        return values
    texts = [value.splitlines() for value in values]
    shortest, start, end = min(map(len, texts)), 0, 0
    while start < shortest and len({lines[start] for lines in texts}) == 1:
        start += 1
    while end < shortest - start and len({lines[-1 - end] for lines in texts}) == 1:
        end += 1
    return tuple("\n".join(lines[start : len(lines) - end]) for lines in texts)
