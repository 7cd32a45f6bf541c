"""What is wrong with a file of results, by record and field."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass
from itertools import islice
from typing import Any, Final

from pydantic import ValidationError

from fournos.engine.api.values import escaped_line

MAX_REPORTED: Final = 1_000
"""Problems, and warnings, of one file: nothing is looked for after more of them."""
MAX_SHOWN: Final = 60
"""Characters shown of a wrong value."""


@dataclass(frozen=True, slots=True)
class ResultProblem:
    """One error or warning."""

    record: str
    """The place of the record in the file, such as tests[3] or line 7; "" for the whole file."""
    field: str
    """The path in the record, such as kpis[2].value; "" for the whole record."""
    message: str

    def __str__(self) -> str:
        place = ".".join(part for part in (self.record, self.field) if part)
        return f"{place}: {self.message}" if place else self.message

    def as_data(self) -> dict[str, Any]:
        return asdict(self)


def problems_of(error: ValidationError, record: str, field: str = "") -> list[ResultProblem]:
    """Returns a problem for each finding of pydantic."""
    return [
        ResultProblem(record, _path(field, found["loc"]), _message(found))
        for found in islice(error.errors(include_url=False, include_context=False), MAX_REPORTED + 1)
    ]


def _path(start: str, parts: Iterable[int | str]) -> str:
    path = start
    for part in parts:
        if part == "[key]":
            continue
        path = f"{path}[{part}]" if isinstance(part, int) else f"{path}.{part}" if path else str(part)
    return escaped_line(path)


def _message(problem: Mapping[str, Any]) -> str:
    text = str(problem["msg"]).removeprefix("Value error, ")
    text = text.replace("Input should be", "must be").replace("Field required", "is missing")
    if problem["type"] == "missing" or isinstance(problem["input"], Mapping | list | tuple):
        return text
    return f"{text}, not {shown(problem['input'])}"


def shown(value: object) -> str:
    """A wrong value as text on one line, cut to a readable length."""
    try:
        text = escaped_line(repr(value)[: MAX_SHOWN + 1])
    except ValueError:  # an integer of more digits than Python converts
        return "a number of thousands of digits"
    return text if len(text) <= MAX_SHOWN else f"{text[:MAX_SHOWN]}…"
