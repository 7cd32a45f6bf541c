"""Whether a Workload still asks for what its job needs (Kueue's rule: what is compared, and what is not)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from fournos.api.conditions import is_true
from fournos.api.quantities import parse_quantity
from fournos.kube.resource import Obj
from fournos.queueing.workload import PodSet

_DEFAULTS: dict[str, Any] = {
    # The Workload CRD fills these into the stored copy; the job's own template may leave them out.
    "protocol": "TCP",
    "service": "",
    "terminationMessagePath": "/dev/termination-log",
    "terminationMessagePolicy": "File",
}


def equivalent(
    pod_sets: Sequence[PodSet],
    max_execution_seconds: int | None,
    workload: Obj,
    *,
    suspended: bool,
) -> bool:
    """Compares containers, counts and tolerations by position; names, labels and selectors do not matter.

    A job that was admitted with fewer pods shows their number while it runs.
    """
    spec = workload["spec"]
    if max_execution_seconds != spec.get("maximumExecutionTimeSeconds"):
        return False
    stored: list[Obj] = list(spec["podSets"])
    tolerations = not is_true(workload, "Admitted")
    if is_true(workload, "QuotaReserved"):
        assigned = ((workload.get("status") or {}).get("admission") or {}).get("podSetAssignments") or ()
        counts = {one["name"]: one.get("count") for one in assigned}
        running = [_running(pod_set, counts.get(pod_set["name"])) for pod_set in stored]
        if _alike(pod_sets, running, tolerations):
            return True
        return suspended and _alike(pod_sets, stored, tolerations)
    return _alike(pod_sets, stored, tolerations)


def _running(pod_set: Obj, granted: int | None) -> Obj:
    """Counts move with partial admission only."""
    if granted is None or pod_set.get("minCount") is None:
        return pod_set
    return {**pod_set, "count": granted}


def _alike(pod_sets: Sequence[PodSet], stored: Sequence[Obj], tolerations: bool) -> bool:
    return len(pod_sets) == len(stored) and all(
        _same(mine, theirs, tolerations) for mine, theirs in zip(pod_sets, stored, strict=True)
    )


def _same(mine: PodSet, theirs: Obj, tolerations: bool) -> bool:
    if mine.count != theirs.get("count", 1) or mine.min_count != theirs.get("minCount"):
        return False
    fields = ("initContainers", "containers", *(("tolerations",) if tolerations else ()))
    a, b = mine.template.get("spec") or {}, (theirs.get("template") or {}).get("spec") or {}
    return all(_normal(a.get(field)) == _normal(b.get(field)) for field in fields)


def _normal(value: Any, key: str = "") -> Any:
    """Without what is empty or a default; quantities by value; of two variables of a name the last."""
    if isinstance(value, Mapping):
        if key in ("requests", "limits"):
            return {name: _number(amount) for name, amount in value.items()} or None
        inner = {name: _normal(child, name) for name, child in value.items()}
        return {
            name: child for name, child in inner.items() if child is not None and child != _DEFAULTS.get(name)
        } or None
    if isinstance(value, list | tuple):
        if key == "env":
            value = list({one.get("name"): one for one in value}.values())
        return [_normal(child) for child in value] or None
    return value


def _number(amount: Any) -> Any:
    """One that cannot be read is only equal to itself."""
    try:
        return parse_quantity(amount)
    except ValueError:
        return amount
