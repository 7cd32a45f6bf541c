"""Checks an object against the structural schema of its CRD, without formats and CEL rules."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any

_TYPES: dict[str, tuple[type, ...]] = {
    "object": (dict,),
    "array": (list,),
    "string": (str,),
    "integer": (int,),
    "number": (int, float),
    "boolean": (bool,),
}
_LIMITS = {
    "minimum": lambda value, limit: value >= limit,
    "maximum": lambda value, limit: value <= limit,
    "maxLength": lambda value, limit: len(value) <= limit,
    "minItems": lambda value, limit: len(value) >= limit,
    "maxItems": lambda value, limit: len(value) <= limit,
    "maxProperties": lambda value, limit: len(value) <= limit,
    "pattern": lambda value, limit: re.search(limit, value) is not None,
    "enum": lambda value, limit: value in limit,
}
_WITHOUT_MEANING = frozenset({"description", "default", "format", "x-kubernetes-validations"}) | {
    f"x-kubernetes-{name}" for name in ("list-type", "list-map-keys", "embedded-resource")
}
_WORDS = frozenset(
    {"type", "properties", "required", "additionalProperties", "items", "nullable", "anyOf"}
    | {"x-kubernetes-preserve-unknown-fields", "x-kubernetes-int-or-string", *_LIMITS, *_WITHOUT_MEANING}
)


def violations(value: Any, schema: Mapping[str, Any], path: str = "") -> Iterator[str]:
    """Yields what is wrong with the value, by its path.

    Raises AssertionError for a word of schemas that it does not know.
    """
    assert schema.keys() <= _WORDS, f"{path}: {sorted(schema.keys() - _WORDS)}"
    if value is None and schema.get("nullable"):
        return
    if not _has_type(value, schema):
        yield f"{path}: {value!r} is no {schema.get('type', 'integer or string')}"
        return
    for word, holds in _LIMITS.items():
        if word in schema and not holds(value, schema[word]):
            yield f"{path}: {word} {schema[word]}"
    if isinstance(value, dict):
        yield from _in_object(value, schema, path)
    if isinstance(value, list):
        for number, item in enumerate(value):
            yield from violations(item, schema["items"], f"{path}[{number}]")


def _has_type(value: Any, schema: Mapping[str, Any]) -> bool:
    if schema.get("x-kubernetes-int-or-string"):
        return isinstance(value, int | str) and not isinstance(value, bool)
    kind = schema.get("type")
    if kind is None:
        return True
    return isinstance(value, _TYPES[kind]) and (kind == "boolean" or not isinstance(value, bool))


def _in_object(value: Mapping[str, Any], schema: Mapping[str, Any], path: str) -> Iterator[str]:
    for name in schema.get("required", ()):
        if name not in value:
            yield f"{path}.{name} is required"
    fields, others = schema.get("properties", {}), schema.get("additionalProperties")
    for name, item in value.items():
        if path == "" and name == "metadata":
            continue  # the API server checks it
        if name in fields:
            yield from violations(item, fields[name], f"{path}.{name}")
        elif isinstance(others, Mapping):
            yield from violations(item, others, f"{path}.{name}")
        elif not schema.get("x-kubernetes-preserve-unknown-fields") and others is not True:
            yield f"{path}.{name} is unknown"
