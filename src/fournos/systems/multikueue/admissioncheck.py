"""Sets the conditions of our AdmissionChecks from the workers' state: Active, and one for each worker.

Kueue admits nothing through a check that is not Active.  The conditions of the workers, with the time of
their last change, define when a lost worker's jobs are dispatched again.  They survive a restart of this
process.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from functools import partial
from typing import Any, Final

from fournos.engine.api.conditions import Condition, condition, upsert
from fournos.engine.kube.resource import Key, Obj, key_of
from fournos.engine.queueing.kinds import ADMISSION_CHECK
from fournos.engine.queueing.workload import name_of
from fournos.engine.runtime.controller import Caches, Controller, Watch, own_key, pick, waking_all, waking_by
from fournos.engine.runtime.decision import Decision, EventRecord, Facts
from fournos.systems.multikueue import names
from fournos.systems.multikueue.config import MULTIKUEUE_CLUSTER, MULTIKUEUE_CONFIG
from fournos.systems.multikueue.observe import (
    CONFIG,
    clusters_of,
    config_of,
    exists,
    is_ours,
    project_cluster,
    reported_workers,
)
from fournos.systems.multikueue.remote_clients import RemoteClients
from fournos.systems.multikueue.settings import MultiKueueSettings

ADMISSION_CHECKS = "multikueue-checks"
_LOOK: Final = timedelta(seconds=15)
"""How often a worker that has left the MultiKueueConfig is looked at: nothing tells that it is empty."""


@dataclass(frozen=True, slots=True)
class Worker:
    """A worker of the check's MultiKueueConfig."""

    name: str
    exists: bool
    """True if a MultiKueueCluster of this name exists."""
    probed: bool
    unusable_reason: str
    missing: tuple[str, ...] = ()
    """Kinds that cannot be dispatched to the worker."""
    listed: bool = True
    """False for a worker that has left the MultiKueueConfig, and may still run jobs."""


@dataclass(frozen=True, slots=True)
class Observed:
    """An AdmissionCheck of this adapter, and its workers."""

    check: Obj
    problem: str
    """Why the check's parameters give no workers, or ""."""
    workers: tuple[Worker, ...] = ()


def observe(
    caches: Caches, key: Key, *, settings: MultiKueueSettings, workers: RemoteClients
) -> Observed | None:
    """Returns the check with the state of its workers; None for a check of another controller."""
    check = caches[ADMISSION_CHECK].get(key)
    if check is None or not is_ours(check):
        return None
    config_name = next(iter(config_of(check)), "")
    if not config_name:
        return Observed(check, "spec.parameters must name a MultiKueueConfig (kind and name)")
    config = caches[MULTIKUEUE_CONFIG].get(Key("", config_name))
    if config is None:
        known = tuple(_worker(caches, name, settings, workers) for name in reported_workers(check))
        left = tuple(replace(worker, listed=False) for worker in known if worker.exists)
        return Observed(check, f"there is no MultiKueueConfig {config_name}", left)
    listed = clusters_of(config)
    members = [_worker(caches, name, settings, workers) for name in listed]
    for name in reported_workers(check):
        if name not in listed and exists(caches, name):
            leaving = _worker(caches, name, settings, workers)
            if not leaving.probed or leaving.unusable_reason or workers.holds(name):
                members.append(replace(leaving, listed=False))
    return Observed(check, "", tuple(members))


def _worker(caches: Caches, name: str, settings: MultiKueueSettings, workers: RemoteClients) -> Worker:
    return Worker(
        name,
        exists=exists(caches, name),
        probed=workers.probed(name),
        unusable_reason=workers.unusable_reason(name),
        missing=tuple(name_of(kind) for kind in settings.kinds if workers.unusable_reason(name, kind)),
    )


def watches() -> tuple[Watch, ...]:
    """Returns the watches of this controller.

    Their projections differ from those of the Workload controller, so the two share no cache.  Conditions
    written here reach the Workload controller by its own watch.
    """
    return (
        Watch(ADMISSION_CHECK, wakes=own_key, project=_project_check, indexes={CONFIG: config_of}),
        Watch(MULTIKUEUE_CONFIG, wakes=waking_by(ADMISSION_CHECK, CONFIG)),
        Watch(MULTIKUEUE_CLUSTER, wakes=waking_all(ADMISSION_CHECK), project=project_cluster),
    )


def _project_check(check: Obj) -> Obj:
    return {
        "metadata": pick(
            check["metadata"], ("name", "uid", "resourceVersion", "generation", "deletionTimestamp")
        ),
        "spec": check["spec"],
        "status": pick(check.get("status"), ("conditions",)),
    }


# --- decide ----------------------------------------------------------------------------------------------


def decide(observed: Observed, facts: Facts, now: datetime) -> Decision:
    """Returns the status with all conditions, and an event if Active changes.  Pure."""
    if facts.failure is not None:
        return Decision(retry=True)
    worker_conditions = [_condition_of(worker) for worker in observed.workers]
    reported = {
        worker.name: condition(observed.check, f"{names.WORKER_CONDITION}{worker.name}")
        for worker in observed.workers
    }
    # Right after a start no worker has been probed: the condition written before is kept.
    shown = [
        new
        for worker, new in zip(observed.workers, worker_conditions, strict=True)
        if worker.probed or not reported[worker.name]
    ]
    types = {f"{names.WORKER_CONDITION}{worker.name}" for worker in observed.workers}
    conditions: list[Any] = [
        entry
        for entry in (observed.check.get("status") or {}).get("conditions") or ()
        if entry["type"] in types or not entry["type"].startswith(names.WORKER_CONDITION)
    ]
    generation = observed.check["metadata"].get("generation")
    for new in shown:
        conditions = upsert(conditions, new, now=now, generation=generation)
    active = _active(observed, {entry["type"]: entry["status"] for entry in conditions})
    conditions = upsert(conditions, active, now=now, generation=generation)
    before = condition(observed.check, "Active") or {}
    changed = (before.get("status"), before.get("reason")) != (active.status, active.reason)
    kind = "Normal" if active.status == "True" else "Warning"
    events = (EventRecord(kind, active.reason, active.message),) if changed else ()  # type: ignore[arg-type]
    leaving = any(not worker.listed for worker in observed.workers)
    return Decision(
        status={"conditions": _fitting(conditions)}, events=events, wake_at=now + _LOOK if leaving else None
    )


def _fitting(conditions: Sequence[Obj]) -> list[Obj]:
    """Leaves out what is beyond Kueue's limit: first workers that are usable, then those lost last.

    A worker without a condition counts as usable.  The order does not depend on what was left out before, so
    that the next pass leaves out the same ones.
    """
    of_workers = [one for one in conditions if one["type"].startswith(names.WORKER_CONDITION)]
    room = max(0, names.MAX_CONDITIONS - (len(conditions) - len(of_workers)))
    surplus = {one["type"] for one in sorted(of_workers, key=_worth)[room:]}
    return [one for one in conditions if one["type"] not in surplus]


def _worth(condition: Obj) -> tuple[int, str, str]:
    """Orders conditions by what they tell: since when a worker is lost, then what people have to know."""
    if condition["status"] == "False":
        return 0, str(condition["lastTransitionTime"]), condition["type"]
    return (
        (1 if condition["status"] == "Unknown" else 2 if condition["reason"] == "SomeKinds" else 3),
        "",
        condition["type"],
    )


def _condition_of(worker: Worker) -> Condition:
    type_ = f"{names.WORKER_CONDITION}{worker.name}"
    if not worker.exists:
        return Condition(
            type_, "False", "NoMultiKueueCluster", f"there is no MultiKueueCluster {worker.name}"
        )
    if not worker.probed:
        return Condition(type_, "Unknown", "NotProbed", "not connected yet")
    if worker.unusable_reason:
        return Condition(type_, "False", "Unusable", worker.unusable_reason[:1024])
    if worker.missing:
        text = f"cannot take {', '.join(worker.missing)}: install the CRDs there, grant the rights"
        return Condition(type_, "True", "SomeKinds", text[:1024])
    return Condition(type_, "True", "Connected", "Connected")


def _active(observed: Observed, status: dict[str, str]) -> Condition:
    if observed.problem:
        return Condition(
            "Active", "False", "BadConfig", f"Cannot load the AdmissionChecks parameters: {observed.problem}"
        )
    listed = [worker for worker in observed.workers if worker.listed]
    missing = [worker.name for worker in listed if not worker.exists]
    good = [one.name for one in listed if status.get(f"{names.WORKER_CONDITION}{one.name}") == "True"]
    inactive = [one.name for one in listed if one.exists and one.name not in good]
    text = ", ".join(
        f"{what} clusters: [{' '.join(found)}]"
        for what, found in (("Missing", missing), ("Inactive", inactive))
        if found
    )
    if not good:
        return Condition(
            "Active", "False", "NoUsableClusters", text or "the MultiKueueConfig names no cluster"
        )
    if text:
        return Condition("Active", "True", "SomeActiveClusters", text)
    return Condition("Active", "True", "Active", "The admission check is active")


# --- the controller --------------------------------------------------------------------------------------


def admission_checks(settings: MultiKueueSettings, workers: RemoteClients) -> Controller[Observed]:
    """Returns the controller that reconciles this adapter's AdmissionChecks."""
    return Controller(
        name=ADMISSION_CHECKS,
        watches=watches(),
        observe=partial(observe, settings=settings, workers=workers),
        decide=decide,
        primary=lambda observed: observed.check,
        collect=_keys,
    )


def _keys(caches: Caches) -> Iterable[Key]:
    return tuple(key_of(check) for check in caches[ADMISSION_CHECK])
