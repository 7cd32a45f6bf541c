"""Connects from the manager cluster to a worker cluster.

It reads the same objects as the MultiKueue adapter: the MultiKueueCluster and its kubeconfig Secret.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import dataclass
from datetime import datetime
from typing import TypeAlias

from fournos.api.kinds import FOURNOS_JOB
from fournos.engine.kube.api import Api
from fournos.engine.kube.credentials import Credentials
from fournos.engine.kube.errors import CredentialsError, ForbiddenError, KubeError, NotFoundError
from fournos.engine.kube.probe import ClusterApi
from fournos.engine.kube.resource import POD, SECRET, Key, Obj, controls, key_of
from fournos.engine.kube.untrusted_kubeconfig import check
from fournos.engine.queueing.workload import WORKLOAD
from fournos.insight.access import may
from fournos.insight.dispatch import there
from fournos.insight.environment import KUEUE_NAMESPACE
from fournos.insight.errors import MissingError, RightsError
from fournos.systems.multikueue.config import MULTIKUEUE_CLUSTER, PUT_KUBECONFIG, content_of
from fournos.systems.multikueue.names import LOGS_OF

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


async def state_there(manager: ManagerCluster, name: str, workload: Obj) -> str:
    """Returns the state of the Workload's copy on the worker, or why the worker cannot be read."""
    try:
        async with worker(manager, name) as api:
            return there(await api.get(WORKLOAD, key_of(workload)))
    except NotFoundError:
        return "it has nothing of it yet; see: fournos dispatch check"
    except KubeError as error:
        return f"{error.message}; see: fournos dispatch check"


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
        fix = f"ask why: fournos dispatch explain {name}"
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
