"""Rules on what may change of a FournosJob, and until when.

What Kueue was asked for stays as it is once it has answered: a cluster, a priority, an engine changed
later would have no effect or half of one.  The rest stays free.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from fournos.api.fournosjob import DEFAULT_PIPELINE, Phase
from fournos.api.rules import Json, Rule

RESOLVED_PHASES: Final = tuple(str(phase) for phase in Phase if phase is not Phase.RESOLVING)
ADMITTED_PHASES: Final = tuple(phase for phase in RESOLVED_PHASES if phase != Phase.PENDING)


def _same(field: str, new: str = "self", old: str = "oldSelf") -> str:
    new, old = f"{new}.{field}", f"{old}.{field}"
    return f"has({new}) == has({old}) && (!has({new}) || {new} == {old})"


def _same_value(field: str) -> str:
    return _same(field, "self.spec", "oldSelf.spec")


def _same_engine(field: str) -> str:
    """Of unknown content: CEL reaches it as dyn only."""
    return _same(field, "dyn(self.spec)", "dyn(oldSelf.spec)")


def _same_flag(field: str) -> str:
    """Absent means false."""
    new, old = f"self.spec.{field}", f"oldSelf.spec.{field}"
    return f"(has({new}) && {new}) == (has({old}) && {old})"


def _frozen(
    field: str,
    *,
    phases: tuple[str, ...] = ADMITTED_PHASES,
    since: str = "admitted",
    default: object = None,
    compare: Callable[[str], str] = _same_value,
) -> Rule:
    """At the root, because the phase decides.  A write of status or metadata alone always passes."""
    listed = ", ".join(f"'{phase}'" for phase in phases)
    same = compare(field)

    def holds(new: Json, old: Json) -> bool:
        now, then = new.get("spec"), old.get("spec")
        if now is None or then is None or (old.get("status") or {}).get("phase") not in phases:
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
        cel="!has(self.spec) || !has(oldSelf.spec) || !has(oldSelf.status) || !has(oldSelf.status.phase) || "
        f"!(oldSelf.status.phase in [{listed}]) || ({same})",
        holds=holds,
    )


def _raised(new: Json, old: Json) -> bool:
    before, after = old.get("shutdown"), new.get("shutdown")
    return before is None or after == before or after == "Terminate"


CHANGES: Final[tuple[Rule, ...]] = (
    Rule(
        id="shutdown-raised",
        when="update",
        field="spec.shutdown",
        reason="FieldValueForbidden",
        message="a shutdown is never taken back, only raised from Stop to Terminate: "
        "keep the value, or submit a new job",
        cel="!has(oldSelf.shutdown) || "
        "(has(self.shutdown) && (self.shutdown == oldSelf.shutdown || self.shutdown == 'Terminate'))",
        holds=_raised,
    ),
    Rule(
        id="managedby-fixed",
        when="update",
        field="spec.managedBy",
        reason="FieldValueForbidden",
        message="managedBy cannot change: submit a new job with the other value",
        cel=_same("managedBy"),
        holds=lambda new, old: bool(new.get("managedBy") == old.get("managedBy")),
    ),
    _frozen("pipeline", default=DEFAULT_PIPELINE),
    _frozen("cluster"),
    _frozen("exclusive", default=True),
    _frozen("executionEngine", compare=_same_engine),
    _frozen("priority"),
    _frozen("clusterless", default=False, compare=_same_flag),
    _frozen("lockOnly", default=False, compare=_same_flag),
    _frozen("hardware", phases=RESOLVED_PHASES, since="resolved"),
    _frozen("secretRefs", phases=RESOLVED_PHASES, since="resolved"),
)
