"""The system that keeps our AdmissionChecks' conditions: whether any worker can be used, and since when each.

Kueue lets nothing through a check that does not say Active.  The conditions about single workers are the
clock by which a lost worker's jobs are given to others; they outlive this process.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime
from functools import partial
from typing import Any

from fournos.api.conditions import Condition, condition, upsert
from fournos.kube.resource import Key, Obj, key_of
from fournos.multikueue import names
from fournos.multikueue.kinds import MULTIKUEUE_CLUSTER, MULTIKUEUE_CONFIG
from fournos.multikueue.observe import CONFIG, clusters_of, config_of
from fournos.multikueue.settings import MultiKueueSettings
from fournos.multikueue.workers import Workers
from fournos.queueing.external import name_of
from fournos.queueing.kinds import ADMISSION_CHECK
from fournos.runtime.decision import Decision, Facts, Note
from fournos.runtime.projection import pick
from fournos.runtime.system import Caches, System, Watch

CHECKS = "multikueue-checks"


@dataclass(frozen=True, slots=True)
class Worker:
    name: str
    exists: bool
    """There is a MultiKueueCluster of this name."""
    probed: bool
    hindrance: str
    missing: tuple[str, ...] = ()
    """Kinds that it cannot take."""


@dataclass(frozen=True, slots=True)
class Check:
    check: Obj
    problem: str
    """Why its parameters say nothing."""
    workers: tuple[Worker, ...] = ()


def decide(seen: Check, facts: Facts, now: datetime) -> Decision:
    """Pure."""
    if facts.failure is not None:
        return Decision(retry=True)
    wanted = [_about(worker) for worker in seen.workers]
    known = {
        worker.name: condition(seen.check, f"{names.WORKER_CONDITION}{worker.name}")
        for worker in seen.workers
    }
    # Right after a start nothing is known of a worker: what was known before stays.
    told = [
        new
        for worker, new in zip(seen.workers, wanted, strict=True)
        if worker.probed or not known[worker.name]
    ]
    types = {f"{names.WORKER_CONDITION}{worker.name}" for worker in seen.workers}
    conditions: list[Any] = [
        one
        for one in (seen.check.get("status") or {}).get("conditions") or ()
        if one["type"] in types or not one["type"].startswith(names.WORKER_CONDITION)
    ]
    generation = seen.check["metadata"].get("generation")
    for new in told:
        conditions = upsert(conditions, new, now=now, generation=generation)
    active = _active(seen, {one["type"]: one["status"] for one in conditions})
    conditions = upsert(conditions, active, now=now, generation=generation)
    before = condition(seen.check, "Active") or {}
    changed = (before.get("status"), before.get("reason")) != (active.status, active.reason)
    kind = "Normal" if active.status == "True" else "Warning"
    notes = (Note(kind, active.reason, active.message),) if changed else ()  # type: ignore[arg-type]
    return Decision(status={"conditions": conditions}, notes=notes)


def _about(worker: Worker) -> Condition:
    type_ = f"{names.WORKER_CONDITION}{worker.name}"
    if not worker.exists:
        return Condition(
            type_, "False", "NoMultiKueueCluster", f"there is no MultiKueueCluster {worker.name}"
        )
    if not worker.probed:
        return Condition(type_, "Unknown", "NotProbed", "not connected yet")
    if worker.hindrance:
        return Condition(type_, "False", "Unusable", worker.hindrance[:1024])
    if worker.missing:
        text = f"cannot take {', '.join(worker.missing)}: install the CRDs there, grant the rights"
        return Condition(type_, "True", "SomeKinds", text[:1024])
    return Condition(type_, "True", "Connected", "Connected")


def _active(seen: Check, status: dict[str, str]) -> Condition:
    if seen.problem:
        return Condition(
            "Active", "False", "BadConfig", f"Cannot load the AdmissionChecks parameters: {seen.problem}"
        )
    missing = [worker.name for worker in seen.workers if not worker.exists]
    good = [one.name for one in seen.workers if status.get(f"{names.WORKER_CONDITION}{one.name}") == "True"]
    inactive = [one.name for one in seen.workers if one.exists and one.name not in good]
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


def checks_system(settings: MultiKueueSettings, workers: Workers, known: set[Key]) -> System[Check]:
    """`known` gets the keys of all AdmissionChecks, for those who have to wake them."""

    def observe(caches: Caches, key: Key) -> Check | None:
        known.add(key)
        check = caches[ADMISSION_CHECK].get(key)
        if check is None or check["spec"].get("controllerName") != settings.controller_name:
            return None
        wanted = next(iter(config_of(check)), "")
        if not wanted:
            return Check(check, "spec.parameters must name a MultiKueueConfig (kind and name)")
        config = caches[MULTIKUEUE_CONFIG].get(Key("", wanted))
        if config is None:
            return Check(check, f"there is no MultiKueueConfig {wanted}")
        return Check(check, "", tuple(worker(caches, name) for name in clusters_of(config)))

    def worker(caches: Caches, name: str) -> Worker:
        return Worker(
            name,
            exists=caches[MULTIKUEUE_CLUSTER].get(Key("", name)) is not None,
            probed=workers.probed(name),
            hindrance=workers.hindrance(name),
            missing=tuple(name_of(kind) for kind in settings.kinds if workers.hindrance(name, kind)),
        )

    def of_config(config: Obj, caches: Caches) -> Iterable[Key]:
        return tuple(
            key_of(check) for check in caches[ADMISSION_CHECK].by(CONFIG, config["metadata"]["name"])
        )

    def everybody(obj: Obj, caches: Caches) -> Iterable[Key]:
        return tuple(key_of(check) for check in caches[ADMISSION_CHECK])

    return System(
        name=CHECKS,
        # With projections of its own it shares no cache with the system of the Workloads: its writes wake
        # that one.
        watches=(
            Watch(
                ADMISSION_CHECK,
                wakes=lambda check, caches: (key_of(check),),
                project=_project,
                indexes={CONFIG: config_of},
            ),
            Watch(MULTIKUEUE_CONFIG, wakes=of_config),
            Watch(MULTIKUEUE_CLUSTER, wakes=everybody, project=_project_cluster),
        ),
        observe=observe,
        decide=partial(decide),
        primary=lambda seen: seen.check,
        collect=lambda caches: tuple(key_of(check) for check in caches[ADMISSION_CHECK]),
    )


def _project(check: Obj) -> Obj:
    return {
        "metadata": pick(
            check["metadata"], ("name", "uid", "resourceVersion", "generation", "deletionTimestamp")
        ),
        "spec": check["spec"],
        "status": pick(check.get("status"), ("conditions",)),
    }


def _project_cluster(cluster: Obj) -> Obj:
    """That it exists: its status is Kueue's."""
    return {"metadata": pick(cluster["metadata"], ("name", "uid", "resourceVersion", "deletionTimestamp"))}
