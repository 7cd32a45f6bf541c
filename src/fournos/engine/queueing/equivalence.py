"""Whether a Workload still requests what its job needs, by the rule of Kueue's job framework."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from fournos.engine.api.conditions import is_true
from fournos.engine.api.values import parse_quantity
from fournos.engine.kube.resource import Obj
from fournos.engine.queueing.workload import PodSet

_DEFAULTS: dict[str, Any] = {
    # The Workload CRD sets these defaults in the stored copy; the job's own template may leave them out.
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
    """Compares containers, counts and tolerations by position; names, labels and selectors are ignored.

    A running job that was admitted with fewer pods is compared by the admitted count.
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
    """Returns the pod set with the admitted count; only partial admission (`minCount`) changes a count."""
    if granted is None or pod_set.get("minCount") is None:
        return pod_set
    return {**pod_set, "count": granted}


def _alike(pod_sets: Sequence[PodSet], stored: Sequence[Obj], tolerations: bool) -> bool:
    return len(pod_sets) == len(stored) and all(
        _same(wanted, present, tolerations) for wanted, present in zip(pod_sets, stored, strict=True)
    )


def _same(pod_set: PodSet, present: Obj, tolerations: bool) -> bool:
    if pod_set.count != present.get("count", 1) or pod_set.min_count != present.get("minCount"):
        return False
    fields = ("initContainers", "containers", *(("tolerations",) if tolerations else ()))
    a, b = pod_set.template.get("spec") or {}, (present.get("template") or {}).get("spec") or {}
    return all(_normal(a.get(field)) == _normal(b.get(field)) for field in fields)


def _normal(value: Any, key: str = "") -> Any:
    """Returns the value without empty parts and defaults, for comparison.

    Quantities are compared by value; of two environment variables with one name the last counts.
    """
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
    """Returns the quantity's value; an unreadable quantity equals only itself."""
    try:
        return parse_quantity(amount)
    except ValueError:
        return amount
