"""What is made from a schema: checks of an object in Python, and the reference page of a kind."""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import datetime
from functools import lru_cache
from typing import Any

from fournos.engine.api.crd import PRESERVE, Definition, Schema, schema
from fournos.engine.api.rules import Rule, Violation

# --- checks in Python -------------------------------------------------------------------------------
# These are the API server's checks before it evaluates any rule, for the command line without a cluster.
# They are stricter in one point: an unknown field is refused, because it is probably misspelt (the API
# server drops it, kubectl refuses it).

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
        ("apiVersion", f"{definition.resource.group}/{definition.resource.version}"),
        ("kind", definition.resource.kind),
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


# --- reference pages --------------------------------------------------------------------------------
# The reference page of a kind, generated from its schema and its rules.


def reference(definition: Definition, rules: Sequence[Rule]) -> str:
    """Returns the page as Markdown: names, every field of spec and status, and every rule."""
    root = schema(definition.model)
    parts = [
        f"# {definition.resource.kind}\n",
        "<!-- Generated from src/fournos/api by `python -m fournos.app.generate`. Do not edit. -->\n",
        f"{root['description']}\n",
        f"- API: `{definition.resource.group}/{definition.resource.version}`, namespaced\n"
        f"- Names for kubectl: `{definition.resource.plural}`, `{definition.singular}`"
        + "".join(f", `{name}`" for name in definition.short_names)
        + "\n- Needs Kubernetes 1.30 or later (rules that compare an object with its stored state)\n",
    ]
    for part in ("spec", "status"):
        if part in root["properties"]:
            parts.append(f"## {part}\n\n{root['properties'][part]['description']}\n")
            parts.append(
                _table(("Field", "Type", "Default", "Meaning"), _rows(root["properties"][part], part))
            )
    offline = f"; `{definition.checked_by}` says the same without a cluster" if definition.checked_by else ""
    parts.append(
        f"## Rules\n\nThe API server refuses a write that breaks one, with its message{offline}. An object "
        "that was stored before a rule existed can still be stopped, labelled and deleted.\n"
    )
    parts.append(_table(("Rule", "Field", "Looked at", "Message"), _rule_rows(rules)))
    return "\n".join(parts)


def _table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    lines = [head, ["---"] * len(head), *rows]
    return "".join("| " + " | ".join(_cell(cell) for cell in line) + " |\n" for line in lines)


def _cell(text: str) -> str:
    """Returns the text escaped for a table; Markdown reads <name> as HTML, but not within backticks."""
    text = text.replace("|", "\\|")
    return text if text.startswith("`") else text.replace("<", "&lt;")


def _rows(node: Schema, path: str) -> Iterator[tuple[str, str, str, str]]:
    for name, child in node.get("properties", {}).items():
        at = f"{path}.{name}"
        default = f"`{_literal(child['default'])}`" if "default" in child else ""
        yield f"`{at}`", _type(child), default, child.get("description", "")
        inner = child.get("items", child)
        suffix = "[]" if "items" in child else ""
        yield from _rows(inner, at + suffix)


def _literal(value: Any) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


def _type(node: Schema) -> str:
    if node.get("x-kubernetes-int-or-string"):
        return "integer or string"
    if "enum" in node:
        return "one of " + ", ".join(f"`{value}`" for value in node["enum"])
    if PRESERVE in node:
        return "object of any content" if "type" in node else "anything"
    match node.get("type"):
        case "array":
            return f"list of {_type(node['items'])}"
        case "object" if "additionalProperties" in node:
            return f"map to {_type(node['additionalProperties'])}"
        case "integer" if "minimum" in node and "maximum" in node:
            return f"integer, {node['minimum']} to {node['maximum']}"
        case "integer" if "minimum" in node:
            return f"integer, at least {node['minimum']}"
        case "string" if node.get("format") == "date-time":
            return "time"
        case other:
            return str(other)


_WHEN = {"always": "at creation and at changes", "create": "at creation", "update": "at changes"}


def _rule_rows(rules: Iterable[Rule]) -> Iterator[tuple[str, str, str, str]]:
    for rule in rules:
        yield f"`{rule.id}`", f"`{rule.field}`", _WHEN[rule.when], rule.message
