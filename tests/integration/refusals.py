"""Which rules an answer of the API server names."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from fournos.engine.api.rules import Rule


def refused(rules: Iterable[Rule], answer: Mapping[str, Any]) -> set[str]:
    """Returns the ids of the violated rules, by field and message; other causes as they are."""
    ids: set[str] = set()
    for cause in answer.get("details", {}).get("causes", ()):
        field, message = cause["field"], f"{cause['message'].strip().removesuffix('.')}."
        assert "evaluating rule" not in message, cause
        # Rules on changes are told together, at the spec.
        named = {
            rule.id
            for rule in rules
            if (field == rule.field and message.endswith(f": {rule.message}."))
            or (field == "spec" and rule.when == "update" and f" {rule.message}." in message)
        }
        ids |= named or {f"{field}: {cause['message']}"}
    return ids
