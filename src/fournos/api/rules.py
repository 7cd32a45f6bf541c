"""Rules about whole objects: CEL for the API server and the same check in Python.

A row refuses what can never work, with a message that says the fix.  `when` says how it treats objects
that were stored before it existed:

- "always": the rule holds, or the stored object broke it already, so that such an object can still be
  stopped, labelled, and rid of its finalizer;
- "create": looked at when the object is made, never after;
- "update": compares the old object with the new one.

CEL's `oldSelf` in the first two needs `optionalOldSelf`, on by default since Kubernetes 1.30.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Literal, TypeAlias

from fournos.api.text import RE2_CONTROL, has_control

Json: TypeAlias = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Rule:
    id: str
    field: str
    """Path from the object's root, such as spec.cluster."""
    message: str
    cel: str
    """True when all is well; `self` is the node `at`."""
    holds: Callable[[Json, Json], bool]
    """The same in Python: holds(`self`, `oldSelf`); the second is {} unless `when` is "update"."""
    when: Literal["always", "create", "update"] = "always"
    at: str = "spec"
    """Path of the node that is `self`; "" is the whole object.  Not looked at where that node is absent.
    The nearest node is best: CEL's cost estimate cannot look through two levels of `oldSelf.value()`."""
    reason: Literal["FieldValueInvalid", "FieldValueRequired", "FieldValueForbidden"] = "FieldValueInvalid"
    """Not FieldValueDuplicate: the API server then leaves the message out."""

    def validation(self) -> dict[str, Any]:
        """The entry of x-kubernetes-validations at the node `at`."""
        rule = self.cel
        if self.when == "always":
            before = re.sub(r"\bself\b", "oldSelf.value()", self.cel)
            rule = f"({self.cel}) || (oldSelf.hasValue() && !({before}))"
        elif self.when == "create":
            rule = f"oldSelf.hasValue() || ({self.cel})"
        entry: dict[str, Any] = {"rule": rule, "message": self.message, "reason": self.reason}
        below = self.field.removeprefix(self.at).removeprefix(".")
        if below:
            entry["fieldPath"] = f".{below}"
        if self.when != "update":
            entry["optionalOldSelf"] = True
        return entry

    def violated(self, new: Json, old: Json | None) -> bool:
        """Whether writing `new` (over `old`, None when it is created) is refused; both are whole objects."""
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


@dataclass(frozen=True, slots=True)
class Violation:
    field: str
    message: str
    rule: str
    """Id of the rule; "schema" for types, bounds and unknown fields."""

    def __str__(self) -> str:
        return f"{self.field}: {self.message}"


def violations(rules: Iterable[Rule], new: Json, old: Json | None = None) -> list[Violation]:
    """The rules that the API server would refuse this write for.  The objects must fit the schema."""
    return [Violation(rule.field, rule.message, rule.id) for rule in rules if rule.violated(new, old)]


def full_match(pattern: str, text: str) -> bool:
    """Whether the text is in full of this pattern, as CEL's matches of ^...$ sees it."""
    return re.fullmatch(pattern, text, re.ASCII) is not None


def text_rule(
    name: str, message: str, *, pattern: str, longest: int, at: str = "spec", empty: bool = False
) -> Rule:
    """A text in full of this pattern and at most this long; `empty`: "" counts as absent."""
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
    """A text of the spec that is shown in a line of a terminal, and must not steer it."""
    return Rule(
        id=f"{name.lower()}-plain",
        field=f"spec.{name}",
        message="write one line of plain text: leave out control characters, such as escape sequences of a "
        "terminal, and those that turn the direction of writing round",
        cel=f"!has(self.{name}) || !self.{name}.matches(r'{RE2_CONTROL}')",
        holds=lambda new, _: not has_control(new.get(name) or ""),
    )
