"""Forms from a schema of the API: fields, their values as texts and back, and the form of a job.  Pure."""

from __future__ import annotations

import json
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from enum import StrEnum
from functools import cache
from typing import Any, Final

from fournos.api.fournosjob import FournosJobSpec
from fournos.engine.api.crd import schema
from fournos.engine.api.rules import Violation
from fournos.engine.kube.formats import dump, load_all
from fournos.engine.kube.resource import Obj
from fournos.insight.manifests import assign, check, field_path, place, rename, skeleton
from fournos.insight.values import SpecDifference, differences, spec_of
from fournos.web.runs.subject import JobSubject

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


# --- the form of a job ----------------------------------------------------------------------------


_LEFT_OUT: Final = ("apiVersion", "kind", "metadata", "shutdown")
_FIRST: Final = (
    "owner",
    "displayName",
    "pipeline",
    "cluster",
    "hardware.gpuType",
    "hardware.gpuCount",
    "exclusive",
    "priority",
    "executionEngine",
    "env",
)
"""The fields that most jobs need; the others are folded away."""
_CHANGED: Final = (
    "cluster",
    "hardware.gpuType",
    "hardware.gpuCount",
    "priority",
    "executionEngine",
    "env",
)
"""The fields that are changed from one run to the next; those of an earlier job that stay are folded away."""
LABELS: Final = Field("labels", "Labels of the job, to find it by.", InputKind.PAIRS)


@cache
def inputs() -> tuple[Field, ...]:
    """The inputs of the spec, in the order of its schema."""
    return tuple(fields(schema(FournosJobSpec), skip=_LEFT_OUT))


def groups(*, again: bool) -> tuple[list[Field], list[Field]]:
    """The inputs that are shown at once, and those that are folded away; `again`: to repeat a job."""
    first = _CHANGED if again else _FIRST
    by_path = {one.path: one for one in inputs()}
    return [by_path[path] for path in first], [one for one in inputs() if one.path not in first]


def input_of(path: str) -> str:
    """The input of a field: its own, the one that holds it, or the first one in it; else the path."""
    if path.startswith("metadata.labels"):
        return LABELS.path
    for field in inputs():
        if path == field.path or path.startswith((f"{field.path}.", f"{field.path}[")):
            return field.path
    return next((field.path for field in inputs() if field.path.startswith(f"{path}.")), path)


@dataclass(frozen=True, slots=True)
class AskedJob:
    """The job that a filled-in form makes."""

    manifest: dict[str, Any]
    wrong: tuple[Violation, ...]
    """All that the API server would refuse."""


def wanted(form: Mapping[str, str], base: Obj, namespace: str) -> AskedJob:
    """Returns the job of a filled-in form.  Metadata of `base` are kept where the form has none."""
    values, wrong = values_of(inputs(), form)
    manifest = skeleton()
    own = base.get("metadata") or {}
    manifest["metadata"] = {name: value for name, value in own.items() if name not in ("labels", "namespace")}
    manifest["spec"] = {}
    for path, value in values.items():
        assign(manifest, field_path(path), value, asked=path)
    try:
        labels = value_of(LABELS, form.get(LABELS.path, ""))
        manifest["metadata"] |= {"labels": labels} if labels else {}
    except ValueError as error:
        wrong.append(Violation("metadata.labels", str(error), "form"))
    rename(manifest, name=form.get("name", "").strip() or None, generate_name=None)
    place(manifest, asked=None, otherwise=namespace)
    return AskedJob(manifest, tuple(dict.fromkeys(wrong or check(manifest))))


def filled(manifest: Obj) -> dict[str, str]:
    """Returns the inputs of a form for a manifest."""
    form = {LABELS.path: text_of(LABELS, (manifest.get("metadata") or {}).get("labels") or None)}
    for field in inputs():
        value: Any = spec_of(manifest)
        for part in field.path.split("."):
            value = (value or {}).get(part)
        form[field.path] = text_of(field, value)
    return form


@dataclass(frozen=True, slots=True)
class Origin:
    """The job that a form was filled in from."""

    about: JobSubject
    manifest: Obj
    """What repeats it without a change."""


def changes(origin: Origin, asked: AskedJob) -> list[SpecDifference]:
    """How the spec of the wanted job differs from that of the earlier one.

    An empty field means its default, so a default that the API server has written is not a difference.
    """
    return [
        difference
        for difference in differences(origin.manifest, asked.manifest)
        if _meaning(difference.path, difference.first) != _meaning(difference.path, difference.second)
    ]


def _meaning(path: str, value: Any) -> Any:
    if field := {one.path: one for one in inputs()}.get(path):
        return text_of(field, value) or field.default
    holds_fields = any(one.path.startswith(f"{path}.") for one in inputs())
    return None if value == {} and holds_fields else value
