"""The checks of `fournos dispatch check`, on the manager cluster and on each worker cluster."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any, Final

from fournos.engine.api.conditions import condition
from fournos.engine.kube.api import Api
from fournos.engine.kube.errors import ForbiddenError, KubeError, NoSuchResourceError, NotFoundError
from fournos.engine.kube.probe import ClusterApi
from fournos.engine.kube.resource import NAMESPACE, Key, Resource
from fournos.engine.queueing.kinds import CLUSTER_QUEUE, LOCAL_QUEUE, WORKLOAD
from fournos.engine.queueing.workload import BadNameError, name_of
from fournos.insight.dispatch import DispatchCheck, ManagerCluster, checks_by_name, worker
from fournos.insight.errors import FournosError
from fournos.insight.source import may
from fournos.systems.multikueue.config import parse_all

MANAGER: Final = "(manager)"
_IDENTITY: Final = "deploy/multikueue/worker/identity.yaml"
_OF_KINDS: Final = ("get", "list", "watch", "create", "delete")
_OF_WORKLOADS: Final = (*_OF_KINDS, "patch")


@dataclass(frozen=True, slots=True)
class CheckLine:
    worker: str
    what: str
    good: bool
    text: str = ""
    """What was found, or what to do."""

    def as_data(self) -> dict[str, Any]:
        return asdict(self)


def problems(lines: Iterable[CheckLine]) -> int:
    return sum(not line.good for line in lines)


def kinds_of(names: Sequence[str], variable: str) -> tuple[Resource, ...]:
    """Parses names of kinds, by default those of the operator's variable.  Raises FournosError."""
    try:
        return parse_all(names or [name for name in re.split(r"[,\s]+", variable) if name])
    except BadNameError as error:
        raise FournosError(str(error)) from None


async def inspect(manager: ManagerCluster, kinds: Sequence[Resource]) -> list[CheckLine]:
    """Returns one line for each requirement.  All workers are read concurrently."""
    checks = await checks_by_name(manager.api)
    queues = await _queues(manager, checks)
    lines = _manager(tuple(checks.values()), queues, kinds)
    for kind in kinds:
        lines.append(await _served(manager.api, MANAGER, kind, fix=_install(kind)))
    names = sorted({name for check in checks.values() for name in check.workers})
    asked = [_worker(manager, name, kinds, _leading_to(name, queues)) for name in names]
    for answered in await asyncio.gather(*asked):
        lines += answered
    return lines


@dataclass(frozen=True, slots=True)
class _Queue:
    """A ClusterQueue of the manager cluster whose jobs are dispatched, and its LocalQueues."""

    name: str
    active: Mapping[str, Any]
    checks: frozenset[str]
    workers: frozenset[str]
    locals: tuple[Key, ...]


def _install(kind: Resource) -> str:
    return f"install the CRD that serves {name_of(kind)}"


def _manager(
    dispatch_checks: Sequence[DispatchCheck], queues: Sequence[_Queue], kinds: Sequence[Resource]
) -> list[CheckLine]:
    if not dispatch_checks:
        text = "no AdmissionCheck takes jobs to workers: make one, see docs/multikueue.md"
        return [CheckLine(MANAGER, "AdmissionCheck", good=False, text=text)]
    lines = []
    for check in dispatch_checks:
        what = f"AdmissionCheck {check.name}"
        text = str(check.active.get("message") or f"no controller serves it ({check.whose}): {check.start}")
        lines.append(CheckLine(MANAGER, what, good=check.active.get("status") == "True", text=text))
        if not check.workers:
            text = "its MultiKueueConfig is missing or names no cluster: make it, list the MultiKueueClusters"
            lines.append(CheckLine(MANAGER, what, good=False, text=text))
        if not any(check.name in queue.checks for queue in queues):
            text = "no ClusterQueue asks for it: name it in the admissionChecksStrategy of one"
            lines.append(CheckLine(MANAGER, what, good=False, text=text))
    for queue in queues:
        what, good = f"ClusterQueue {queue.name}", queue.active.get("status") == "True"
        text = str(queue.active.get("message") or "Kueue has not looked at it: is it running?")
        lines.append(CheckLine(MANAGER, what, good=good, text=text))
        if not queue.locals:
            text = "no LocalQueue leads to it: make one in the namespace of the jobs"
            lines.append(CheckLine(MANAGER, what, good=False, text=text))
    if not kinds:
        text = "none named: use --kind PipelineRun.v1.tekton.dev, say, so that CRDs and rights are looked at"
        lines.append(CheckLine(MANAGER, "kinds", good=False, text=text))
    return lines


async def _queues(manager: ManagerCluster, checks: Mapping[str, DispatchCheck]) -> list[_Queue]:
    locals_of: dict[str, list[Key]] = {}
    for local in (await manager.api.list(LOCAL_QUEUE)).items:
        key = Key(local["metadata"]["namespace"], local["metadata"]["name"])
        locals_of.setdefault(str(local["spec"].get("clusterQueue")), []).append(key)
    result = []
    for queue in (await manager.api.list(CLUSTER_QUEUE)).items:
        strategy = queue["spec"].get("admissionChecksStrategy") or {}
        names = {str(check["name"]) for check in strategy.get("admissionChecks") or ()}
        names |= set(queue["spec"].get("admissionChecks") or ())
        names &= checks.keys()
        if names:
            name = queue["metadata"]["name"]
            workers = frozenset(worker for check in names for worker in checks[check].workers)
            ways = tuple(sorted(locals_of.get(name, ())))
            result.append(_Queue(name, condition(queue, "Active") or {}, frozenset(names), workers, ways))
    return sorted(result, key=lambda queue: queue.name)


def _leading_to(worker: str, queues: Iterable[_Queue]) -> tuple[Key, ...]:
    """The LocalQueues of the manager cluster whose jobs can be dispatched to the worker."""
    return tuple(sorted({key for queue in queues if worker in queue.workers for key in queue.locals}))


async def _worker(
    manager: ManagerCluster,
    name: str,
    kinds: Sequence[Resource],
    queues: Sequence[Key],
) -> list[CheckLine]:
    try:
        async with worker(manager, name) as api:
            version = await api.server_version()
            lines = [CheckLine(name, "connection", good=True, text=f"Kubernetes {version}")]
            lines.append(await _served(api, name, WORKLOAD, fix="install Kueue 0.15 or newer"))
            for kind in kinds:
                lines.append(await _served(api, name, kind, fix=_install(kind)))
            lines += await _rights(api, name, kinds)
            for queue in queues:
                lines.append(await _queue(api, name, queue))
            return lines
    except (KubeError, TimeoutError) as error:
        return [CheckLine(name, "connection", good=False, text=getattr(error, "message", "") or "no answer")]


async def _served(api: Api, name: str, resource: Resource, *, fix: str) -> CheckLine:
    what = f"{resource} {resource.version}"
    try:
        # No object has this label: the request only finds out whether the kind is served and may be listed.
        await api.list(resource, selector="fournos.dev/nothing=true", page_size=1)
    except NoSuchResourceError:
        return CheckLine(name, what, good=False, text=fix)
    except ForbiddenError:
        whose = "you" if name == MANAGER else "its identity"
        fix = "" if name == MANAGER else f": see {_IDENTITY}"
        return CheckLine(name, what, good=False, text=f"{whose} may not list them{fix}")
    return CheckLine(name, what, good=True)


async def _rights(api: ClusterApi, name: str, kinds: Sequence[Resource]) -> list[CheckLine]:
    needed = [(WORKLOAD, verb) for verb in _OF_WORKLOADS] + [
        (kind, verb) for kind in kinds for verb in _OF_KINDS
    ]
    allowed = await asyncio.gather(*(may(api, resource, verb) for resource, verb in needed))
    lines = []
    for resource in (WORKLOAD, *kinds):
        lacking = [
            verb for (of, verb), may in zip(needed, allowed, strict=True) if of == resource and not may
        ]
        text = f"lacks {', '.join(lacking)}: allow it in {_IDENTITY}, and apply that there" if lacking else ""
        lines.append(CheckLine(name, f"rights on {resource}", good=not lacking, text=text))
    return lines


async def _queue(api: ClusterApi, name: str, queue: Key) -> CheckLine:
    what = f"LocalQueue {queue}"
    try:
        await api.get(NAMESPACE, Key("", queue.namespace))
    except NotFoundError:
        return CheckLine(
            name, what, good=False, text=f"there is no namespace {queue.namespace}: make it there"
        )
    except ForbiddenError:
        pass  # not a failure by itself: the LocalQueue, read below, is what is required
    try:
        local_queue = await api.get(LOCAL_QUEUE, queue)
    except NotFoundError:
        return CheckLine(name, what, good=False, text="there is none: make one of the same name there")
    except ForbiddenError:
        return CheckLine(name, what, good=False, text=f"its identity may not read it: see {_IDENTITY}")
    active = condition(local_queue, "Active") or {}
    if active.get("status") == "False":
        return CheckLine(name, what, good=False, text=f"not active: {active.get('message')}")
    return CheckLine(name, what, good=True, text=f"ClusterQueue {local_queue['spec'].get('clusterQueue')}")
