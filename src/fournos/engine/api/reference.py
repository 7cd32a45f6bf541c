"""The reference page of a kind, generated from its schema and its rules."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from fournos.engine.api.crd import PRESERVE, Definition, Schema, schema
from fournos.engine.api.rules import Rule


def reference(definition: Definition, rules: Sequence[Rule]) -> str:
    """Returns the page as Markdown: names, every field of spec and status, and every rule."""
    root = schema(definition.model)
    parts = [
        f"# {definition.kind}\n",
        "<!-- Generated from src/fournos/api by `python -m fournos.app.generate`. Do not edit. -->\n",
        f"{root['description']}\n",
        f"- API: `{definition.group}/{definition.version}`, namespaced\n"
        f"- Names for kubectl: `{definition.plural}`, `{definition.singular}`"
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
