"""Rules on which fields of a FournosJob may change, and until which phase.

A field that a decision was based on is immutable after that decision: hardware and secretRefs once the job is
resolved, the others once Kueue has admitted it.  A later change of cluster, priority or engine would have no
effect or a partial one.  This also applies to a job that waits for its next attempt.  Fields without a rule
may change at any time.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, Literal

from fournos.api.fournosjob import DEFAULT_PIPELINE, Phase
from fournos.engine.api.rules import Json, Rule, same_field
from fournos.engine.queueing.managed_by import fixed_rule

_RESOLVED: Final = tuple(str(phase) for phase in Phase if phase is not Phase.RESOLVING)
_ADMITTED: Final = tuple(phase for phase in _RESOLVED if phase != Phase.PENDING)


def _same_dynamic(field: str) -> str:
    """Returns the comparison for a field of arbitrary content, which CEL can read only as dyn."""
    return same_field(field, "dyn(self.spec)", "dyn(oldSelf.spec)")


def _same_flag(field: str) -> str:
    """Returns the comparison for a boolean field; absent means false."""
    new, old = f"self.spec.{field}", f"oldSelf.spec.{field}"
    return f"(has({new}) && {new}) == (has({old}) && {old})"


def _frozen(
    field: str,
    *,
    since: Literal["resolved", "admitted"] = "admitted",
    default: object = None,
    compare: Callable[[str], str] = same_field,
) -> Rule:
    """Returns the rule that a field is immutable from a phase on.

    It is at the root, because it reads the phase.
    """
    phases = _ADMITTED if since == "admitted" else _RESOLVED
    listed = ", ".join(f"'{phase}'" for phase in phases)
    free = f"!(oldSelf.status.phase in [{listed}])"
    if since == "admitted":
        free = f"({free} && !(has(oldSelf.status.attempt) && oldSelf.status.attempt > 0))"

    def holds(new: Json, old: Json) -> bool:
        now, then = new.get("spec"), old.get("spec")
        status = old.get("status") or {}
        if now is None or then is None or not status.get("phase"):
            return True
        again = since == "admitted" and (status.get("attempt") or 0) > 0
        if status["phase"] not in phases and not again:
            return True
        values = (default if spec.get(field) is None else spec[field] for spec in (now, then))
        return next(values) == next(values)

    return Rule(
        id=f"{field.lower()}-frozen",
        at="",
        when="update",
        field=f"spec.{field}",
        reason="FieldValueForbidden",
        message=f"{field} cannot change once the job is {since}: submit a new job with the other value",
        cel=f"!has(oldSelf.status) || !has(oldSelf.status.phase) || {free} || ({compare(field)})",
        holds=holds,
    )


def _raised(new: Json, old: Json) -> bool:
    now, then = new.get("spec"), old.get("spec")
    if now is None or then is None or then.get("shutdown") is None:
        return True
    return now.get("shutdown") in (then["shutdown"], "Terminate")


CHANGES: Final[tuple[Rule, ...]] = (
    Rule(
        id="shutdown-raised",
        at="",
        when="update",
        field="spec.shutdown",
        reason="FieldValueForbidden",
        message="a shutdown is never taken back, only raised from Stop to Terminate: "
        "keep the value, or submit a new job",
        cel="!has(oldSelf.spec.shutdown) || (has(self.spec.shutdown) && "
        "(self.spec.shutdown == oldSelf.spec.shutdown || self.spec.shutdown == 'Terminate'))",
        holds=_raised,
    ),
    fixed_rule("managedBy cannot change: submit a new job with the other value"),
    _frozen("pipeline", default=DEFAULT_PIPELINE),
    _frozen("cluster"),
    _frozen("exclusive", default=True),
    _frozen("executionEngine", compare=_same_dynamic),
    _frozen("params", compare=_same_dynamic),
    _frozen("priority"),
    _frozen("clusterless", default=False, compare=_same_flag),
    _frozen("lockOnly", default=False, compare=_same_flag),
    _frozen("hardware", since="resolved"),
    _frozen("secretRefs", since="resolved"),
)
