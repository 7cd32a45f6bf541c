"""Forms from a schema of the API: its fields, and their values as texts and back.  Pure."""

from __future__ import annotations

import json
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, Final

from fournos.engine.api.rules import Violation
from fournos.engine.kube.formats import dump, load_all

LARGEST: Final = 2**16
"""Maximum characters of a value in YAML."""
DEEPEST: Final = 50


class InputKind(StrEnum):
    TEXT = "text"
    NUMBER = "number"
    CHOICE = "choice"
    LINES = "lines"
    """A list of texts, one a line."""
    PAIRS = "pairs"
    """A map of texts, one NAME=VALUE a line."""
    YAML = "yaml"


@dataclass(frozen=True, slots=True)
class Field:
    """One input of the form."""

    path: str
    """Relative to the schema's root, such as hardware.gpuCount; also the name of the input."""
    help: str
    kind: InputKind
    choices: tuple[str, ...] = ()
    default: str = ""
    """What an empty input means; "" if that is nothing."""
    minimum: int | None = None
    maximum: int | None = None
    length: int | None = None


def fields(schema: Mapping[str, Any], *, skip: Collection[str] = (), at: str = "") -> Iterator[Field]:
    """Yields the fields of an object's schema, in its order; those of nested objects in place of these."""
    for name, property_schema in schema["properties"].items():
        path = f"{at}{name}"
        if path in skip:
            continue
        if "properties" in property_schema:
            yield from fields(property_schema, skip=skip, at=f"{path}.")
        else:
            yield _field(path, property_schema)


def _field(path: str, schema: Mapping[str, Any]) -> Field:
    choices: tuple[str, ...] = tuple(schema.get("enum") or ())
    match schema.get("type"):
        case "boolean":
            kind, choices = InputKind.CHOICE, ("true", "false")
        case "integer":
            kind = InputKind.NUMBER
        case "array":
            kind = InputKind.LINES
        case "object":
            texts = (schema.get("additionalProperties") or {}).get("type") == "string"
            kind = InputKind.PAIRS if texts else InputKind.YAML
        case _:
            kind = InputKind.CHOICE if choices else InputKind.TEXT
    return Field(
        path,
        str(schema.get("description") or ""),
        kind,
        choices,
        _scalar(schema.get("default")),
        schema.get("minimum"),
        schema.get("maximum"),
        schema.get("maxLength"),
    )


def text_of(field: Field, value: Any) -> str:
    """Returns the text that stands in the input for a value; "" for None."""
    if value is None:
        return ""
    match field.kind:
        case InputKind.LINES:
            return "\n".join(map(str, value))
        case InputKind.PAIRS:
            return "\n".join(f"{name}={_line(str(one))}" for name, one in value.items())
        case InputKind.YAML:
            return dump(value, width=100)
    return _scalar(value)


def value_of(field: Field, text: str) -> Any:
    """Returns the value of an input; None if it is empty.  Raises ValueError, whose text is for people."""
    given = text.replace("\r\n", "\n")
    if not given.strip():
        return None
    match field.kind:
        case InputKind.NUMBER:
            return _number(given.strip())
        case InputKind.CHOICE:
            return _choice(field, given.strip())
        case InputKind.LINES:
            return [line.strip() for line in given.splitlines() if line.strip()]
        case InputKind.PAIRS:
            return dict(_pair(line) for line in given.splitlines() if line.strip())
        case InputKind.YAML:
            return _mapping(given)
    return given.strip()


def values_of(inputs: Collection[Field], form: Mapping[str, str]) -> tuple[dict[str, Any], list[Violation]]:
    """Returns path → value of the inputs that are not empty, and what is wrong with the others."""
    values: dict[str, Any] = {}
    wrong: list[Violation] = []
    for field in inputs:
        try:
            value = value_of(field, form.get(field.path, ""))
        except ValueError as error:
            wrong.append(Violation(f"spec.{field.path}", str(error), "form"))
            continue
        if value is not None:
            values[field.path] = value
    return values, wrong


def _scalar(value: Any) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    return "" if value is None else str(value)


def _number(text: str) -> int:
    try:
        return int(text)
    except ValueError:
        raise ValueError("write a whole number") from None


def _choice(field: Field, text: str) -> Any:
    if text not in field.choices:
        raise ValueError(f"write one of {', '.join(field.choices)}")
    return text == "true" if field.choices == ("true", "false") else text


def _pair(line: str) -> tuple[str, str]:
    name, equals, value = line.partition("=")
    if not equals or not name.strip():
        raise ValueError(f"{line.strip()!r:.60} is not NAME=VALUE")
    if value.startswith('"'):
        try:
            value = str(json.loads(value))
        except ValueError:
            raise ValueError(f"the value of {name.strip()} begins with a quote: write it as JSON") from None
    return name.strip(), value


def _line(value: str) -> str:
    """A value of several lines, or that begins with a quote, stands as JSON on one line."""
    return json.dumps(value) if len(f"{value}.".splitlines()) > 1 or value.startswith('"') else value


def _mapping(text: str) -> dict[str, Any]:
    if len(text) > LARGEST:
        raise ValueError(f"it is longer than {LARGEST} characters")
    try:
        documents = load_all(text, deepest=DEEPEST)
    except ValueError as error:
        raise ValueError(f"it {error}") from None
    if len(documents) != 1 or not isinstance(documents[0], dict):
        raise ValueError("write a map, such as forge: {project: llmd}")
    return documents[0]
