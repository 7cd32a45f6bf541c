"""The checks of the schema in Python: types, bounds, names of fields.

These are the API server's checks before it evaluates any rule, for the command line without a cluster.  They
are stricter in one point: an unknown field is refused, because it is probably misspelt (the API server drops
it, kubectl refuses it).
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime
from functools import lru_cache
from typing import Any

from fournos.engine.api.crd import PRESERVE, Definition, Schema, schema
from fournos.engine.api.rules import Violation

_TYPES: dict[str, tuple[type, ...]] = {
    "object": (Mapping,),
    "array": (list, tuple),
    "string": (str,),
    "integer": (int,),
    "number": (int, float),
    "boolean": (bool,),
}
_NAMES = {
    "object": "a map",
    "array": "a list",
    "string": "a text (in quotes, if it looks like something else)",
    "integer": "a whole number",
    "number": "a number",
    "boolean": "true or false",
}


def takes_texts(definition: Definition, path: Sequence[str]) -> bool:
    """Whether the field at a path holds a text or a list of texts."""
    node: Any = _schema(definition)
    for part in path:
        node = (node.get("properties") or {}).get(part) or node.get("additionalProperties") or {}
    return "string" in (node.get("type"), (node.get("items") or {}).get("type"))


def schema_violations(definition: Definition, obj: Mapping[str, Any]) -> list[Violation]:
    """Returns the violations of the kind's schema; rules may be checked only if there are none."""
    root = _schema(definition)
    violations: list[Violation] = []
    for field, expected in (
        ("apiVersion", f"{definition.group}/{definition.version}"),
        ("kind", definition.kind),
    ):
        if obj.get(field) != expected:
            violations.append(Violation(field, f"write {field}: {expected}", "schema"))
    if not isinstance(obj.get("metadata", {}), Mapping):
        violations.append(Violation("metadata", "write a map", "schema"))
    return [*violations, *structural_violations(root, obj)]


def structural_violations(root: Schema, obj: Mapping[str, Any]) -> Iterator[Violation]:
    """Yields the violations of the schema of a whole object, but for its metadata."""
    yield from _object(root, {key: value for key, value in obj.items() if key != "metadata"}, "")


@lru_cache(maxsize=16)
def _schema(definition: Definition) -> Schema:
    return schema(definition.model)


def _is(kind: str, value: Any) -> bool:
    """True if the value has the JSON type.  In Python True is an int, in JSON it is not."""
    return isinstance(value, _TYPES[kind]) and (kind == "boolean" or not isinstance(value, bool))


def _node(node: Schema, value: Any, path: str) -> Iterator[Violation]:
    if node.get("x-kubernetes-int-or-string"):
        if isinstance(value, bool) or not isinstance(value, int | str):
            yield Violation(path, "write a whole number or a text", "schema")
        yield from _pattern(node, value, path)
        return
    kind = node.get("type")
    if kind is None:
        return  # a field of any content
    if not _is(kind, value):
        yield Violation(path, f"write {_NAMES[kind]}", "schema")
        return
    if "enum" in node and value not in node["enum"]:
        yield Violation(path, "write one of " + ", ".join(map(str, node["enum"])), "schema")
    yield from _bounds(node, value, path)
    yield from _pattern(node, value, path)
    match kind:
        case "object":
            yield from _object(node, value, path)
        case "array":
            for index, item in enumerate(value):
                yield from _node(node["items"], item, f"{path}[{index}]")
        case "string" if node.get("format") == "date-time":
            try:
                datetime.fromisoformat(value)
            except ValueError:
                yield Violation(path, "write a time such as 2026-01-31T12:00:00Z", "schema")


def _bounds(node: Schema, value: Any, path: str) -> Iterator[Violation]:
    if "minimum" in node and value < node["minimum"]:
        yield Violation(path, f"write at least {node['minimum']}", "schema")
    if "maximum" in node and value > node["maximum"]:
        yield Violation(path, f"write at most {node['maximum']}", "schema")
    for measure, unit in (("Length", "character"), ("Items", "item"), ("Properties", "key")):
        least, most = node.get(f"min{measure}"), node.get(f"max{measure}")
        if least is not None and len(value) < least:
            yield Violation(path, f"write at least {_counted(least, unit)}", "schema")
        if most is not None and len(value) > most:
            yield Violation(path, f"write at most {_counted(most, unit)}", "schema")


def _counted(number: int, unit: str) -> str:
    return f"{number} {unit}" if number == 1 else f"{number} {unit}s"


def _pattern(node: Schema, value: Any, path: str) -> Iterator[Violation]:
    if "pattern" in node and isinstance(value, str) and not re.search(node["pattern"], value):
        yield Violation(path, f"write a text that fits {node['pattern']}", "schema")


def _object(node: Schema, value: Mapping[str, Any], path: str) -> Iterator[Violation]:
    prefix = f"{path}." if path else ""
    properties: Schema = node.get("properties", {})
    for name in node.get("required", ()):
        if value.get(name) is None:
            yield Violation(f"{prefix}{name}", "write it, it is required", "schema")
    for name, child in value.items():
        if child is None:
            continue  # the API server drops nulls
        if name in properties:
            yield from _node(properties[name], child, f"{prefix}{name}")
        elif isinstance(node.get("additionalProperties"), dict):
            yield from _node(node["additionalProperties"], child, f"{prefix}{name}")
        elif PRESERVE not in node:
            near = difflib.get_close_matches(str(name), properties, n=1)
            fix = f"did you mean {near[0]}?" if near else "remove it; known are " + ", ".join(properties)
            yield Violation(f"{prefix}{name}", f"unknown field: {fix}", "schema")
