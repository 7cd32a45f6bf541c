"""The look of `fournos doctor` at MultiKueue: whether every worker can take the jobs of its queues."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Mapping, Sequence

from fournos.engine.api.conditions import condition
from fournos.engine.kube.errors import CredentialsError, ForbiddenError, KubeError, NoSuchResourceError
from fournos.engine.kube.probe import ClusterApi
from fournos.engine.kube.resource import Key, Resource, key_of
from fournos.engine.queueing.kinds import CLUSTER_QUEUE, LOCAL_QUEUE, WORKLOAD
from fournos.engine.queueing.workload import BadNameError
from fournos.engine.queueing.workload import name_of as name_of_kind
from fournos.insight.dispatch import DispatchCheck, ManagerCluster, checks_by_name, worker
from fournos.insight.doctor_access import DoctorFinding, Findings, fault, ok, unreadable
from fournos.insight.source import Source, may
from fournos.insight.values import name_of, spec_of
from fournos.systems.multikueue.config import BadConfigError, parse_all, read_file

_CONFIGURATION = "FOURNOS_MULTIKUEUE_CONFIG_FILE"
"""The file that names the kinds that are taken to workers, as the operator has it."""
_IDENTITY = "see deploy/multikueue/worker/identity.yaml"
_VERBS = ("get", "list", "watch", "create", "delete")


async def check_workers(manager: ManagerCluster) -> Findings:
    """Looks at the AdmissionChecks, the queues that ask for them, and each worker."""
    try:
        checks = await checks_by_name(manager.api)
    except NoSuchResourceError:
        return
    if not checks:
        return
    try:
        frameworks = read_file(os.environ.get(_CONFIGURATION, "")).external_frameworks
        kinds = (WORKLOAD, *parse_all(framework.name for framework in frameworks))
    except (BadConfigError, BadNameError) as error:
        yield fault(_CONFIGURATION, str(error), "see docs/multikueue.md, Configuration")
        return
    queues = await _queues(manager.api, checks)
    for name, check in checks.items():
        yield _check(check, asked=any(name in names for names, _ in queues.values()))
    for name, (_, local_queues) in queues.items():
        if not local_queues:
            fix = "make one in the namespace of the jobs"
            yield fault(f"ClusterQueue {name}", "no LocalQueue leads to it", fix)
    ways: dict[str, set[Key]] = {name: set() for check in checks.values() for name in check.workers}
    for names, local_queues in queues.values():
        for name in {each for check in names for each in checks[check].workers}:
            ways[name] |= local_queues
    looks = [_worker(manager, name, kinds, sorted(ways[name])) for name in sorted(ways)]
    for findings in await asyncio.gather(*looks):
        for finding in findings:
            yield finding


def _check(check: DispatchCheck, *, asked: bool) -> DoctorFinding:
    what = f"AdmissionCheck {check.name}"
    if check.active.get("status") != "True":
        text = str(check.active.get("message") or f"no controller serves it ({check.whose})")
        return fault(what, text, check.start)
    if not check.workers:
        fix = "make it, and list the MultiKueueClusters"
        return fault(what, "its MultiKueueConfig is missing or names no cluster", fix)
    if not asked:
        fix = "name it in the admissionChecksStrategy of one"
        return fault(what, "no ClusterQueue asks for it", fix)
    return ok(what, str(check.active.get("message") or ""))


async def _queues(
    source: Source, checks: Mapping[str, DispatchCheck]
) -> dict[str, tuple[frozenset[str], set[Key]]]:
    """Returns ClusterQueue → those of the checks that it asks for, and the LocalQueues that lead to it."""
    ways: dict[str, set[Key]] = {}
    for local_queue in (await source.list(LOCAL_QUEUE)).items:
        ways.setdefault(str(spec_of(local_queue).get("clusterQueue")), set()).add(key_of(local_queue))
    asked = {}
    for queue in sorted((await source.list(CLUSTER_QUEUE)).items, key=name_of):
        strategy = spec_of(queue).get("admissionChecksStrategy") or {}
        names = {str(check.get("name")) for check in strategy.get("admissionChecks") or ()}
        if names := (names | set(spec_of(queue).get("admissionChecks") or ())) & checks.keys():
            asked[name_of(queue)] = frozenset(names), ways.get(name_of(queue), set())
    return asked


async def _worker(
    manager: ManagerCluster, name: str, kinds: Sequence[Resource], queues: Sequence[Key]
) -> list[DoctorFinding]:
    what = f"worker {name}"
    try:
        async with worker(manager, name) as api:
            findings = [ok(what, f"Kubernetes {await api.server_version()}")]
            findings += await asyncio.gather(*(_kind(api, what, kind) for kind in kinds))
            return findings + await asyncio.gather(*(_queue(api, what, queue) for queue in queues))
    except (KubeError, TimeoutError) as error:
        if isinstance(error, ForbiddenError) and not isinstance(error, CredentialsError):
            return [unreadable(what, error)]
        problem, _, fix = (getattr(error, "message", "") or "no answer").partition(": ")
        return [fault(what, problem, fix or "see whether it answers, with the kubeconfig in its Secret")]


async def _kind(api: ClusterApi, what: str, kind: Resource) -> DoctorFinding:
    """Looks whether the worker serves the kind, and lets the identity do with it what dispatching needs."""
    what = f"{what}: {kind}"
    try:
        # No object has this label: the request only finds out whether the kind is served and may be listed.
        await api.list(kind, selector="fournos.dev/nothing=true", page_size=1)
    except NoSuchResourceError:
        name = "Kueue 0.15 or newer" if kind == WORKLOAD else f"the CRD that serves {name_of_kind(kind)}"
        return fault(what, f"it does not serve {kind.version}", f"install {name}")
    except ForbiddenError:
        return fault(what, "its identity may not list them", _IDENTITY)
    verbs = (*_VERBS, "patch") if kind == WORKLOAD else _VERBS
    allowed = await asyncio.gather(*(may(api, kind, verb) for verb in verbs))
    if lacking := [verb for verb, allows in zip(verbs, allowed, strict=True) if not allows]:
        return fault(what, f"its identity lacks {', '.join(lacking)}", _IDENTITY)
    return ok(what)


async def _queue(api: ClusterApi, what: str, queue: Key) -> DoctorFinding:
    what = f"{what}: LocalQueue {queue}"
    try:
        local_queue = await api.get(LOCAL_QUEUE, queue)
    except ForbiddenError:
        return fault(what, "its identity may not read it", _IDENTITY)
    except KubeError as error:
        return fault(what, error.message, "make the namespace, and a LocalQueue of the same name, there")
    active = condition(local_queue, "Active") or {}
    if active.get("status") == "False":
        return fault(what, f"not active: {active.get('message')}", "make what the message names")
    return ok(what, f"ClusterQueue {spec_of(local_queue).get('clusterQueue')}")
