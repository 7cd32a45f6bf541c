"""Where a dispatched job stands: on the manager cluster, and on the workers that were asked."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final, TypeAlias

from fournos.api.kinds import FOURNOS_JOB
from fournos.engine.api.conditions import condition, is_true
from fournos.engine.kube.api import Api
from fournos.engine.kube.credentials import Credentials
from fournos.engine.kube.errors import CredentialsError, ForbiddenError, KubeError, NotFoundError
from fournos.engine.kube.probe import ClusterApi
from fournos.engine.kube.resource import POD, SECRET, Key, Obj, controller_of, controls, key_of
from fournos.engine.kube.untrusted_kubeconfig import check
from fournos.engine.queueing.kinds import ADMISSION_CHECK, WORKLOAD
from fournos.insight.errors import FournosError, MissingError, RightsError
from fournos.insight.source import KUEUE_NAMESPACE, Source, may
from fournos.insight.values import name_of, spec_of, status_of
from fournos.systems.multikueue.config import (
    MULTIKUEUE_CLUSTER,
    MULTIKUEUE_CONFIG,
    PUT_KUBECONFIG,
    content_of,
)
from fournos.systems.multikueue.names import CONTROLLER, LOGS_OF, MULTIKUEUE

RUNNING: Final = "Running"
QUEUED: Final = "Queued"
PENDING: Final = "Pending"
EVICTED: Final = "Evicted"

CONTROLLERS: Final = {
    MULTIKUEUE: ("Kueue's adapter", "is Kueue running, with MultiKueue on?"),
    CONTROLLER: ("our adapter", "start it: fournos run --enable multikueue"),
}


@dataclass(frozen=True, slots=True)
class DispatchCheck:
    """An AdmissionCheck that dispatches jobs to workers."""

    name: str
    whose: str
    """ "Kueue's adapter" or "our adapter"."""
    start: str
    """Advice if no controller serves the check."""
    active: Obj
    """Its condition Active; empty if no controller has reconciled it."""
    workers: tuple[str, ...]


async def checks_by_name(source: Source) -> dict[str, DispatchCheck]:
    """Returns the AdmissionChecks of Kueue's adapter and of ours, sorted by name."""
    checks: dict[str, DispatchCheck] = {}
    for admission_check in sorted((await source.list(ADMISSION_CHECK)).items, key=name_of):
        words = CONTROLLERS.get(admission_check["spec"].get("controllerName"))
        if words is None:
            continue
        parameters = admission_check["spec"].get("parameters") or {}
        try:
            config = await source.get(MULTIKUEUE_CONFIG, Key("", str(parameters.get("name"))))
        except NotFoundError:
            config = {}
        workers = tuple(spec_of(config).get("clusters") or ())
        name, active = name_of(admission_check), condition(admission_check, "Active") or {}
        checks[name] = DispatchCheck(name, *words, active=active, workers=workers)
    return checks


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


UNAUTHORIZED = 401
LOGS_SUFFIX = "-logs"
"""The suffix of the name of the Secret for logs, after the name of the worker's own Secret."""
_HAVE_IT_MADE = "have Secret {own} made, and its get granted to you: docs/multikueue.md, Logs"


Dial: TypeAlias = Callable[[Credentials], AbstractAsyncContextManager[ClusterApi]]
"""Connects to another cluster."""


@dataclass(frozen=True, slots=True)
class ManagerCluster:
    """The manager cluster, and how its workers are reached."""

    api: Api
    dial: Dial
    now: Callable[[], datetime]
    kueue_namespace: str = KUEUE_NAMESPACE
    """The namespace of Kueue and of the Secrets with the workers' kubeconfigs."""


@asynccontextmanager
async def worker(manager: ManagerCluster, name: str) -> AsyncIterator[ClusterApi]:
    """Connects to a worker.

    Raises KubeError: the worker does not exist, its kubeconfig may not be read, or the kubeconfig is refused.
    """
    key = await _location(manager, name)
    async with _dial(manager, key, await _secret(manager, key)) as api:
        yield api


async def elsewhere(manager: ManagerCluster, workload: Obj | None) -> dict[str, dict[str, str]]:
    """Returns where a Workload that goes to a worker stands, `here` and on the `workers` that were asked.

    Empty for one that no AdmissionCheck of MultiKueue dispatches.
    """
    if workload is None or not status_of(workload).get("admissionChecks"):
        return {}
    checks = await checks_by_name(manager.api)
    if not (entry := entry_of(workload, checks)):
        return {}
    facts = {"State": state_of(workload, entry), **dict(here(workload, entry, checks[entry["name"]]))}
    workers = {name: await _state_there(manager, name, workload) for name in asked(workload)}
    return {"here": facts, "workers": workers}


async def _state_there(manager: ManagerCluster, name: str, workload: Obj) -> str:
    """Returns the state of the Workload's copy on the worker, or why the worker cannot be read."""
    try:
        async with worker(manager, name) as api:
            return there(await api.get(WORKLOAD, key_of(workload)))
    except NotFoundError:
        return "it has nothing of it yet; see: fournos doctor"
    except KubeError as error:
        return f"{error.message}; see: fournos doctor"


async def _location(manager: ManagerCluster, name: str) -> Key:
    """Returns the key of the Secret with a worker's kubeconfig."""
    try:
        cluster = await manager.api.get(MULTIKUEUE_CLUSTER, Key("", name))
    except NotFoundError:
        text = f"there is no MultiKueueCluster {name}: make it, or take the name out of the MultiKueueConfig"
        raise NotFoundError(text) from None
    source = (cluster["spec"].get("clusterSource") or {}).get("kubeConfig") or {}
    if source.get("locationType", "Secret") != "Secret" or not source.get("location"):
        raise CredentialsError(f"MultiKueueCluster {name} names no Secret: put its kubeconfig into one")
    return Key(manager.kueue_namespace, str(source["location"]))


async def _secret(manager: ManagerCluster, key: Key) -> Obj:
    try:
        return await manager.api.get(SECRET, key)
    except NotFoundError:
        raise NotFoundError(f"there is no Secret {key}: make it, and {PUT_KUBECONFIG}") from None


async def _for_logs(manager: ManagerCluster, key: Key) -> tuple[Key, Obj]:
    """Returns the Secret whose identity may read logs, otherwise the worker's own Secret, `key`.

    Raises RightsError if neither may be read.
    """
    own = Key(key.namespace, f"{key.name}{LOGS_SUFFIX}")
    try:
        found = await manager.api.get(SECRET, own)
        if (found["metadata"].get("labels") or {}).get(LOGS_OF) == key.name:
            return own, found
        lacking = f"Secret {own} lacks the label {LOGS_OF}={key.name}"
    except NotFoundError:
        lacking = f"there is no Secret {own}"
    except ForbiddenError as error:
        if error.status == UNAUTHORIZED:
            raise
        lacking = f"you may not get Secret {own}"
    try:
        return key, await _secret(manager, key)
    except ForbiddenError:
        text = f"{lacking}, and you may not get Secret {key}"
        raise RightsError(text, fix=_HAVE_IT_MADE.format(own=own)) from None


@asynccontextmanager
async def _dial(manager: ManagerCluster, key: Key, secret: Obj) -> AsyncIterator[ClusterApi]:
    checked = check(content_of(secret), now=manager.now())
    async with manager.dial(checked.credentials) as api:
        try:
            yield api
        except ForbiddenError as error:
            if error.status != UNAUTHORIZED:
                raise
            text = f"the worker refuses the credentials in Secret {key} (401): put valid ones in place"
            raise CredentialsError(text) from None


@asynccontextmanager
async def on_worker(manager: ManagerCluster, job: Obj) -> AsyncIterator[tuple[ClusterApi, Obj]]:
    """Connects to the worker that a FournosJob was dispatched to, to read logs.

    Yields the connection and the job's copy on the worker.  Raises MissingError, or RightsError.
    """
    namespace, name = key_of(job)
    workloads = await manager.api.list(WORKLOAD, namespace=namespace)
    mine = (one for one in workloads.items if controls(job, one))
    cluster = next((str((one.get("status") or {}).get("clusterName") or "") for one in mine), "")
    if not cluster:
        fix = f"ask why: fournos explain {name}"
        raise MissingError(f"{name} is on no worker yet", fix=fix)
    location = await _location(manager, cluster)
    key, secret = await _for_logs(manager, location)
    async with _dial(manager, key, secret) as api:
        try:
            copy = await api.get(FOURNOS_JOB, key_of(job))
        except NotFoundError:
            fix = "a copy is deleted when it has ended: a history on that cluster has its logs"
            raise MissingError(f"{name} is gone from {cluster}", fix=fix) from None
        await _may_read_logs(api, cluster, key, location, namespace)
        yield api, copy


async def _may_read_logs(api: ClusterApi, cluster: str, key: Key, location: Key, namespace: str) -> None:
    """Raises RightsError unless the identity may read logs.

    Without this check, pods that may not be read look like pods that were deleted.
    """
    if await may(api, POD, "get", namespace=namespace, subresource="log"):
        return
    own = Key(location.namespace, f"{location.name}{LOGS_SUFFIX}")
    fix = (
        "apply deploy/multikueue/worker/identity.yaml there" if key == own else _HAVE_IT_MADE.format(own=own)
    )
    text = f"the identity in Secret {key} may not read logs on {cluster}"
    raise RightsError(text, fix=fix)
