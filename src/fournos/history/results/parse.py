"""Parses a file of results: JSON, JSON lines or YAML, of bounded size and depth.  Pure."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass, field
from io import StringIO
from itertools import islice
from typing import Any, Final

import orjson

from fournos.engine.kube.formats import load_all
from fournos.history.results.problems import MAX_REPORTED, ResultProblem

MAX_BYTES: Final = 16 * 2**20
MAX_YAML_BYTES: Final = 128 * 1024
"""YAML is parsed a hundred times slower than JSON."""
MAX_VALUES: Final = 1_000_000
"""Values that a file may have, lists and maps included: a few bytes of JSON are a hundred in memory."""
_LENIENT: Final = 2**20
"""Characters of JSON that are parsed a second time: with NaN, or for a better message."""
MAX_DEPTH: Final = 32
_MOST_LINES: Final = 25_000
"""Lines that are parsed: more than a file may have records and KPIs."""
_LINES: Final = (".jsonl", ".ndjson")
_YAML: Final = (".yaml", ".yml")


@dataclass(frozen=True, slots=True)
class Parsed:
    """The values of a file, each with its place, and what could not be parsed."""

    values: tuple[tuple[str, Any], ...] = ()
    problems: tuple[ResultProblem, ...] = field(default=())


def parse(content: bytes, name: str = "") -> Parsed:
    """Parses the content.

    The suffix of `name` decides on the format; without a known one JSON, JSON lines and YAML are tried in
    this order.
    """
    if len(content) > MAX_BYTES:
        return _refused(f"the file has {len(content)} bytes; at most {MAX_BYTES} are accepted")
    if sum(map(content.count, (b",", b"[", b"{"))) > MAX_VALUES:
        return _refused("the file has more values than one file may have; send its records in several files")
    try:
        text = content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        return _refused(f"the file is not UTF-8 text (byte {error.start})")
    if not text.strip():
        return _refused("the file is empty")
    if "\0" in text:
        return _refused("the file has NUL characters; it is not text")
    suffix = name.lower()
    if suffix.endswith(_YAML):
        return _yaml(text)
    if suffix.endswith(_LINES):
        return _lines(text)
    try:
        return _single(_json(text))
    except ValueError as error:
        if _looks_like_lines(text):
            return _lines(text)
        if suffix.endswith(".json") or text.lstrip()[0] in "{[":
            return _refused(f"the file is not JSON: {error}")
        return _yaml(text)


def _refused(message: str) -> Parsed:
    return Parsed(problems=(ResultProblem("", "", message),))


def _single(value: Any) -> Parsed:
    if _deeper(value):
        return _refused(f"the file is nested more than {MAX_DEPTH} levels deep")
    return Parsed((("", value),))


def _json(text: str) -> Any:
    """Raises ValueError.  NaN and infinity are accepted here, so that the check names their field."""
    try:
        return orjson.loads(text)
    except orjson.JSONDecodeError:
        if len(text) > _LENIENT:
            raise
    try:
        return json.loads(text)
    except RecursionError:
        raise ValueError("it is nested too deep") from None


def _looks_like_lines(text: str) -> bool:
    """True if the first line is an object by itself, and there are more lines."""
    lines = list(islice((line for line in StringIO(text) if line.strip()), 2))
    return len(lines) > 1 and lines[0].strip().startswith("{") and lines[0].strip().endswith("}")


def _lines(text: str) -> Parsed:
    values: list[tuple[str, Any]] = []
    problems: list[ResultProblem] = []
    lines = ((number, line) for number, line in enumerate(StringIO(text), start=1) if line.strip())
    for number, line in lines:
        if len(problems) > MAX_REPORTED:
            break
        if len(values) == _MOST_LINES:
            left = 1 + sum(1 for _ in lines)
            text = f"{left} lines from here on are not read: send at most {_MOST_LINES} in one file"
            problems.insert(0, ResultProblem(f"line {number}", "", text))
            break
        place = f"line {number}"
        try:
            value = _json(line)
        except ValueError as error:
            problems.append(ResultProblem(place, "", f"is not JSON: {error}"))
            continue
        if _deeper(value):
            problems.append(ResultProblem(place, "", f"is nested more than {MAX_DEPTH} levels deep"))
        else:
            values.append((place, value))
    return Parsed(tuple(values), tuple(problems))


def _yaml(text: str) -> Parsed:
    if len(text) > MAX_YAML_BYTES:
        return _refused(
            f"a YAML file may have {MAX_YAML_BYTES} bytes, this one has {len(text)}; write JSON instead"
        )
    try:
        documents = load_all(text, deepest=MAX_DEPTH)
    except ValueError as error:
        return _refused(f"the file {error}")
    named = [
        (f"document {place}" if len(documents) > 1 else "", value)
        for place, value in enumerate(documents, start=1)
        if value is not None
    ]
    return Parsed(tuple(named)) if named else _refused("the file is empty")


def _deeper(value: Any) -> bool:
    """True if the value is nested more than MAX_DEPTH levels deep."""
    level = [value]
    for _ in range(MAX_DEPTH):
        level = [inner for item in level for inner in _inside(item)]
        if not level:
            return False
    return True


def _inside(value: Any) -> Iterator[Any]:
    """The containers in a container."""
    inner = value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()
    return (item for item in inner if isinstance(item, dict | list))
