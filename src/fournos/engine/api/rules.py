"""Rules about whole objects: CEL for the API server, and the same check in Python.

A rule refuses an object that can never work, with a message that contains the fix.  `when` determines the
treatment of objects that were stored before the rule existed:

- "always": the rule holds, or the stored object violated it already, so that such an object can still be
  stopped and labelled, and its finalizer removed;
- "create": checked at creation, never later;
- "update": compares the old object with the new one, where `spec` has changed.

CEL's `oldSelf` in the first two needs `optionalOldSelf`, on by default since Kubernetes 1.30.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, TypeAlias

from fournos.engine.api.values import RE2_CONTROL, has_control

Json: TypeAlias = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Rule:
    """One rule, in CEL and in Python."""

    id: str
    field: str
    """Path from the object's root, such as spec.cluster."""
    message: str
    cel: str
    """The CEL expression, true if the rule holds; `self` is the node `at`."""
    holds: Callable[[Json, Json], bool]
    """The same check in Python: holds(`self`, `oldSelf`); the second is {} unless `when` is "update"."""
    when: Literal["always", "create", "update"] = "always"
    at: str = "spec"
    """Path of the node that is `self`; "" is the whole object.  The rule is skipped where that node is
    absent.

    Use the nearest node: CEL's cost estimate does not support two levels of `oldSelf.value()`.
    """
    reason: Literal["FieldValueInvalid", "FieldValueRequired", "FieldValueForbidden"] = "FieldValueInvalid"
    """FieldValueDuplicate is not possible, because the API server then omits the message."""

    def validation(self) -> dict[str, Any]:
        """Returns the entry of x-kubernetes-validations at the node `at`.  Not for "update"."""
        if self.when == "always":
            before = re.sub(r"\bself\b", "oldSelf.value()", self.cel)
            rule = f"({self.cel}) || (oldSelf.hasValue() && !({before}))"
        else:
            rule = f"oldSelf.hasValue() || ({self.cel})"
        entry = {"rule": rule, "message": self.message, "reason": self.reason, "optionalOldSelf": True}
        return entry | _field_path(self.field, self.at)

    def violated(self, new: Json, old: Json | None) -> bool:
        """True if a write of `new` over `old` (None at creation) is refused; both are whole objects."""
        now, then = self._node(new), None if old is None else self._node(old)
        if now is None:
            return False
        if self.when == "update":
            return then is not None and not self.holds(now, then)
        if self.when == "create":
            return then is None and not self.holds(now, {})
        return not self.holds(now, {}) and (then is None or self.holds(then, {}))

    def _node(self, obj: Json) -> Json | None:
        node: Json | None = obj
        for name in filter(None, self.at.split(".")):
            node = None if node is None else node.get(name)
        return node


def validations(rules: Sequence[Rule]) -> list[dict[str, Any]]:
    """Returns x-kubernetes-validations of the node that all of these rules are at.

    The rules on changes are one entry, which begins with a comparison of the whole `spec`.  The API server
    evaluates each rule in every write of status and metadata, too, and for each field that a rule reads it
    copies the schemas of all fields beside it: one by one, ten rules took half of its time for a write.
    """
    entries = [rule.validation() for rule in rules if rule.when != "update"]
    changes = [rule for rule in rules if rule.when == "update"]
    return [*entries, _changes(changes)] if changes else entries


def _changes(rules: Sequence[Rule]) -> dict[str, Any]:
    at = rules[0].at
    unchanged = "dyn(self) == dyn(oldSelf)"
    if not at:
        unchanged = "!has(self.spec) || !has(oldSelf.spec) || dyn(self.spec) == dyn(oldSelf.spec)"
    entry = {"rule": f"{unchanged} || ({' && '.join(f'({rule.cel})' for rule in rules)})"}
    if len(rules) == 1:
        entry |= {"message": rules[0].message, "reason": rules[0].reason}
        return entry | _field_path(rules[0].field, at)
    texts = " + ".join(f"(({rule.cel}) ? '' : {json.dumps(rule.message + '. ')})" for rule in rules)
    reasons = {rule.reason for rule in rules}
    reason = reasons.pop() if len(reasons) == 1 else "FieldValueInvalid"
    entry |= {"messageExpression": texts, "reason": reason}
    return entry | _field_path("spec", at)


def _field_path(field: str, at: str) -> dict[str, str]:
    below = field.removeprefix(at).removeprefix(".")
    return {"fieldPath": f".{below}"} if below else {}


@dataclass(frozen=True, slots=True)
class Violation:
    """One reason to refuse an object: field, message and rule."""

    field: str
    message: str
    rule: str
    """Id of the rule; "schema" for types, bounds and unknown fields."""

    def __str__(self) -> str:
        return f"{self.field}: {self.message}"


def violations(rules: Iterable[Rule], new: Json, old: Json | None = None) -> list[Violation]:
    """Returns the violated rules of this write, as the API server would.  The objects must fit the schema."""
    return [Violation(rule.field, rule.message, rule.id) for rule in rules if rule.violated(new, old)]


def full_match(pattern: str, text: str) -> bool:
    """True if the whole text matches the pattern, as CEL's matches with ^...$."""
    return re.fullmatch(pattern, text, re.ASCII) is not None


def same_field(field: str, new: str = "self.spec", old: str = "oldSelf.spec") -> str:
    """Returns the CEL expression that a field is as before, absent or with the same value."""
    new, old = f"{new}.{field}", f"{old}.{field}"
    return f"has({new}) == has({old}) && (!has({new}) || {new} == {old})"


def text_rule(
    name: str, message: str, *, pattern: str, longest: int, at: str = "spec", empty: bool = False
) -> Rule:
    """Returns the rule that a text matches the pattern and is not too long; `empty`: "" counts as absent."""
    allowed = [f"!has(self.{name})", *([f"self.{name} == ''"] if empty else [])]
    fits = f"(self.{name}.size() <= {longest} && self.{name}.matches('^{pattern}$'))"

    def holds(new: Json, _: Json) -> bool:
        text = new.get(name)
        return text is None or (empty and text == "") or (len(text) <= longest and full_match(pattern, text))

    return Rule(
        id=f"{name.lower()}-text",
        at=at,
        field=f"{at}.{name}",
        message=message,
        cel=" || ".join((*allowed, fits)),
        holds=holds,
    )


def plain_rule(name: str) -> Rule:
    """Returns the rule that a text of the spec has no characters that could control a terminal."""
    return Rule(
        id=f"{name.lower()}-plain",
        field=f"spec.{name}",
        message="write one line of plain text: leave out control characters, such as escape sequences of a "
        "terminal, and those that turn the direction of writing round",
        cel=f"!has(self.{name}) || !self.{name}.matches(r'{RE2_CONTROL}')",
        holds=lambda new, _: not has_control(new.get(name) or ""),
    )
