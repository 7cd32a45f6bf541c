"""Host lists (`flux-[0-3],other`) and sets of ranks (`0-2,7`)."""

from __future__ import annotations

import re
from collections.abc import Iterable

_NAME = re.compile(r"^([^\[\]]*)\[([0-9,\-]+)\]([^\[\]]*)$")


class FormatError(ValueError):
    """The text is not a host list, or not a set of numbers."""


def _split(text: str) -> list[str]:
    """At commas outside of brackets."""
    parts, depth, start = [], 0, 0
    for at, char in enumerate(text):
        depth += (char == "[") - (char == "]")
        if depth not in (0, 1):
            raise FormatError(f"brackets do not match in {text!r}")
        if char == "," and not depth:
            parts.append(text[start:at])
            start = at + 1
    if depth:
        raise FormatError(f"brackets do not match in {text!r}")
    return [part for part in (*parts, text[start:]) if part]


def numbers(text: str) -> list[str]:
    """The numbers of `0-3,7` as they are written, with their leading zeros.  Raises FormatError."""
    found: list[str] = []
    for part in filter(None, text.split(",")):
        low, dash, high = part.partition("-")
        if not low.isdecimal() or (dash and not high.isdecimal()) or (dash and int(high) < int(low)):
            raise FormatError(f"{text!r} is not a set of numbers")
        width = len(low)
        found += [f"{n:0{width}}" for n in range(int(low), int(high or low) + 1)]
    return found


def expand(text: str) -> list[str]:
    """All hosts in order.  Raises FormatError."""
    hosts: list[str] = []
    for part in _split(text):
        match = _NAME.match(part)
        if match is None:
            if "[" in part or "]" in part:
                raise FormatError(f"{part!r} is not a host name")
            hosts.append(part)
            continue
        before, inner, after = match.groups()
        hosts += [f"{before}{number}{after}" for number in numbers(inner)]
    return hosts


def ranks(text: str, size: int) -> list[int]:
    """The ranks of `0-2,7` or `all`.  Raises FormatError."""
    found = range(size) if text == "all" else [int(number) for number in numbers(text)]
    if any(rank >= size for rank in found):
        raise FormatError(f"{text!r} names ranks beyond {size - 1}")
    return list(dict.fromkeys(found))


def idset(found: Iterable[int]) -> str:
    """`0-2,7` of the numbers."""
    parts: list[list[int]] = []
    for number in sorted(set(found)):
        if parts and number == parts[-1][1] + 1:
            parts[-1][1] = number
        else:
            parts.append([number, number])
    return ",".join(str(low) if low == high else f"{low}-{high}" for low, high in parts)


def folded(hosts: Iterable[str]) -> str:
    """`flux-[0-2]` of names that differ by a number at their end."""
    groups: dict[str, list[int]] = {}
    for host in hosts:
        match = re.match(r"^(.*?)(0|[1-9][0-9]*)$", host)
        groups.setdefault(match[1] if match else host, []).extend([int(match[2])] if match else [])
    parts = []
    for prefix, found in groups.items():
        if not found:
            parts.append(prefix)
        elif len(found) == 1:
            parts.append(f"{prefix}{found[0]}")
        else:
            parts.append(f"{prefix}[{idset(found)}]")
    return ",".join(parts)
