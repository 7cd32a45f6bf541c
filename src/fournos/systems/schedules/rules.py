"""Validation rules of a FournosSchedule: CEL for the API server, and the same checks in Python.

The API server checks the syntax.  That a day, a time zone and the combinations exist is checked by
`build.problem`, which the operator applies.
"""

from __future__ import annotations

from typing import Final

from fournos.api.fournosschedule import DEFINITION
from fournos.engine.api.rules import Json, Rule, Violation, full_match, text_rule, violations
from fournos.engine.api.schema_readers import schema_violations
from fournos.systems.schedules.names import MAX_NAME
from fournos.systems.schedules.times import DIALECT, PATTERN

_ZONE: Final = r"[A-Za-z][A-Za-z0-9_+-]*(/[A-Za-z0-9_+-]+)*"

RULES: Final[tuple[Rule, ...]] = (
    Rule(
        id="name-length",
        at="",
        when="create",
        field="metadata.name",
        message=f"use a name of at most {MAX_NAME} characters: it becomes a label of the jobs",
        cel=f"self.metadata.name.size() <= {MAX_NAME}",
        holds=lambda new, _: len((new.get("metadata") or {}).get("name") or "") <= MAX_NAME,
    ),
    Rule(
        id="schedules-dialect",
        field="spec.schedules",
        message=DIALECT,
        cel=f"self.schedules.all(s, s.matches('^{PATTERN}$'))",
        holds=lambda new, _: all(full_match(PATTERN, text) for text in new.get("schedules") or ()),
    ),
    text_rule(
        "timeZone",
        "write a time zone of the IANA database, such as Europe/Berlin or Etc/UTC",
        pattern=_ZONE,
        longest=64,
    ),
)


def check_manifest(new: Json) -> list[Violation]:
    """Returns the violations of an object that is not validated yet: its schema is checked first."""
    return schema_violations(DEFINITION, new) or violations(RULES, new)
