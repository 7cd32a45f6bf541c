"""Label selectors in the syntax of the API server: `a=b,c!=d,e in (f,g),h notin (i),j,!k`."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from functools import lru_cache

_TERM = re.compile(
    r"\s*+(?:(?P<absent>!)\s*+)?(?P<key>[^\s=!,()]++)\s*+"
    r"(?:(?P<op>==|=|!=)\s*+(?P<value>[^\s,()]*+)|(?P<set>in|notin)\s*+\((?P<values>[^)]*+)\))?\s*+(?:,|$)"
)

Matcher = Callable[[Mapping[str, str]], bool]


@lru_cache(maxsize=256)
def matcher(selector: str) -> Matcher:
    """Returns a test of labels; the empty selector matches all.  ValueError: the selector is invalid."""
    terms: list[Matcher] = []
    position = 0
    while position < len(selector):
        match = _TERM.match(selector, position)
        if match is None:
            raise ValueError(f"not a label selector: {selector!r}")
        terms.append(_term(match))
        position = match.end()
    return lambda labels: all(term(labels) for term in terms)


def _term(match: re.Match[str]) -> Matcher:
    key, value = match["key"], match["value"]
    values = frozenset(part.strip() for part in (match["values"] or "").split(","))
    if match["absent"]:
        return lambda labels: key not in labels
    if match["op"] == "!=":
        return lambda labels: labels.get(key) != value
    if match["op"]:
        return lambda labels: labels.get(key) == value
    if match["set"] == "in":
        return lambda labels: labels.get(key) in values
    if match["set"] == "notin":
        return lambda labels: labels.get(key) not in values
    return lambda labels: key in labels
