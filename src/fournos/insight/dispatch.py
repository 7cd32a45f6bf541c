"""Where a dispatched job stands: on the manager cluster, and on the workers that were asked."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from fournos.engine.api.conditions import condition, is_true
from fournos.engine.kube.errors import NotFoundError
from fournos.engine.kube.resource import Key, Obj, controller_of
from fournos.engine.queueing.workload import ADMISSION_CHECK, WORKLOAD
from fournos.insight.errors import FournosError, MissingError
from fournos.insight.source import Source
from fournos.insight.values import name_of, spec_of, status_of
from fournos.systems.multikueue.config import MULTIKUEUE_CONFIG
from fournos.systems.multikueue.names import CONTROLLER, MULTIKUEUE

RUNNING: Final = "Running"
QUEUED: Final = "Queued"
PENDING: Final = "Pending"
EVICTED: Final = "Evicted"

CONTROLLERS: Final = {
    MULTIKUEUE: ("Kueue's", "Kueue's adapter", "is Kueue running, with MultiKueue on?"),
    CONTROLLER: ("ours", "our adapter", "start it: fournos run --enable multikueue"),
}


@dataclass(frozen=True, slots=True)
class DispatchCheck:
    """An AdmissionCheck that dispatches jobs to workers."""

    name: str
    adapter: str
    """ "Kueue's" or "ours"."""
    whose: str
    """ "Kueue's adapter" or "our adapter"."""
    start: str
    """Advice if no controller serves the check."""
    active: Obj
    """Its condition Active; empty if no controller has reconciled it."""
    workers: tuple[str, ...]


async def checks(source: Source) -> list[DispatchCheck]:
    """Returns the AdmissionChecks of Kueue's adapter and of ours, sorted by name."""
    checks_read = []
    for admission_check in (await source.list(ADMISSION_CHECK)).items:
        words = CONTROLLERS.get(admission_check["spec"].get("controllerName"))
        if words is None:
            continue
        parameters = admission_check["spec"].get("parameters") or {}
        try:
            config = await source.get(MULTIKUEUE_CONFIG, Key("", str(parameters.get("name"))))
        except NotFoundError:
            config = {}
        workers = tuple(spec_of(config).get("clusters") or ())
        active = condition(admission_check, "Active") or {}
        checks_read.append(DispatchCheck(name_of(admission_check), *words, active=active, workers=workers))
    return sorted(checks_read, key=lambda check: check.name)


async def checks_by_name(source: Source) -> dict[str, DispatchCheck]:
    return {check.name: check for check in await checks(source)}


def is_dispatched(job: Obj) -> bool:
    """True if MultiKueue runs the job on a worker cluster."""
    return spec_of(job).get("managedBy") == MULTIKUEUE


def entry_of(workload: Obj, by_name: Mapping[str, DispatchCheck]) -> dict[str, Any]:
    """The state of the AdmissionCheck that dispatches the Workload to a worker; empty if there is none."""
    entries = status_of(workload).get("admissionChecks") or ()
    return dict(next((one for one in entries if one["name"] in by_name), {}))


def job_name(workload: Obj) -> str:
    """Kind and name of the job of a Workload, such as FournosJob/run; the Workload's name without a job."""
    owner = controller_of(workload)
    return f"{owner['kind']}/{owner['name']}" if owner else name_of(workload)


def worker_of(workload: Obj) -> str:
    """The worker that took the job; "" while none has."""
    return str(status_of(workload).get("clusterName") or "")


def asked(workload: Obj) -> tuple[str, ...]:
    """The workers to read: the one that took the job, then those that are asked to take it."""
    return tuple(filter(None, [worker_of(workload), *_nominated(workload)]))


def _nominated(workload: Obj) -> tuple[str, ...]:
    return tuple(map(str, status_of(workload).get("nominatedClusterNames") or ()))


def state_of(workload: Obj, entry: Obj) -> str:
    """Queued, Pending, Running, Evicted, another state of the check, or the reason of the end."""
    if is_true(workload, "Finished"):
        return str((condition(workload, "Finished") or {}).get("reason") or "Finished")
    if is_true(workload, "Evicted"):
        return EVICTED
    if not is_true(workload, "QuotaReserved"):
        return QUEUED
    return RUNNING if entry.get("state") == "Ready" else str(entry.get("state") or PENDING)


def here(workload: Obj, entry: Obj, check: DispatchCheck) -> list[tuple[str, str]]:
    """What the manager cluster has of the job: label and text of each fact that is known."""
    quota = condition(workload, "QuotaReserved") or {}
    evicted = condition(workload, "Evicted") or {} if is_true(workload, "Evicted") else {}
    facts = [
        ("Quota here", quota.get("message") or "Kueue has not looked at it yet"),
        ("Evicted", evicted.get("message")),
        ("Check", f"{check.name} ({check.whose}): {entry.get('state')}"),
        ("Its message", entry.get("message")),
        ("Worker", worker_of(workload)),
        ("Asked", ", ".join(_nominated(workload))),
        ("Finished", (condition(workload, "Finished") or {}).get("message")),
    ]
    if check.active.get("status") != "True":
        why = check.active.get("message") or f"no controller serves it; {check.start}"
        facts.append(("Attention", f"the check is not active: {why}"))
    return [(label, str(text)) for label, text in facts if text]


def there(copy: Obj) -> str:
    """What the worker's own Kueue does with its copy of the Workload, in one line."""
    for type_ in ("Finished", "Evicted", "Admitted"):
        finished = condition(copy, type_) or {}
        if finished.get("status") == "True":
            return f"{type_}: {finished.get('message') or _NOT_SEEN}"
    finished = condition(copy, "QuotaReserved") or {}
    state = "QuotaReserved" if finished.get("status") == "True" else "waits"
    return f"{state}: {finished.get('message') or _NOT_SEEN}"


_NOT_SEEN: Final = "its Kueue has not looked at it yet: is there a LocalQueue?"


async def workload_named(source: Source, namespace: str, name: str) -> Obj:
    """Returns the Workload of the job of this name, or of this name itself.  Raises MissingError."""
    for workload in (await source.list(WORKLOAD, namespace=namespace)).items:
        owner = controller_of(workload)
        if name in (name_of(workload), owner["name"] if owner else ""):
            return workload
    raise MissingError(
        f"no queued job {name} in namespace {namespace}",
        fix="a job that is there needs a queue's name and its kind's controller, here on the manager",
    )


def dispatch_of(workload: Obj, by_name: Mapping[str, DispatchCheck]) -> tuple[dict[str, Any], DispatchCheck]:
    """Returns the entry of the check that dispatches the Workload, and the check.

    Raises FournosError for a Workload that no check dispatches.
    """
    entry = entry_of(workload, by_name)
    if not entry:
        queue = spec_of(workload).get("queueName")
        raise FournosError(
            f"{job_name(workload)} does not go to a worker: no AdmissionCheck of its queue takes it",
            fix=f"add one to the ClusterQueue of {queue}, see docs/multikueue.md",
        )
    return entry, by_name[entry["name"]]
