"""Connects from the manager cluster to a worker cluster.

It reads the same objects as the MultiKueue adapter: the MultiKueueCluster and its kubeconfig Secret.
"""

from __future__ import annotations

import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from fournos.cli.command import Cli, Session
from fournos.cli.connect import World
from fournos.cli.errors import Fail
from fournos.cli.exits import Exit
from fournos.insight.access import may
from fournos.jobs.kinds import FOURNOS_JOB
from fournos.kube.errors import CredentialsError, ForbiddenError, NotFoundError
from fournos.kube.kinds import POD, SECRET
from fournos.kube.probe import ClusterApi
from fournos.kube.resource import Key, Obj, controls, key_of
from fournos.kube.untrusted_kubeconfig import check
from fournos.multikueue.kinds import MULTIKUEUE_CLUSTER
from fournos.multikueue.kubeconfig import PUT_KUBECONFIG, content_of
from fournos.multikueue.names import LOGS_OF
from fournos.queueing.kinds import WORKLOAD

KUEUE_NAMESPACE = "kueue-system"
UNAUTHORIZED = 401
LOGS_SUFFIX = "-logs"
"""The suffix of the name of the Secret for logs, after the name of the worker's own Secret."""
_HAVE_IT_MADE = "have Secret {own} made, and its get granted to you: docs/multikueue.md, Logs"


@asynccontextmanager
async def worker(world: World, session: Session, name: str, *, namespace: str) -> AsyncIterator[ClusterApi]:
    """Connects to a worker; `namespace` is Kueue's.

    Raises KubeError: the worker does not exist, its kubeconfig may not be read, or the kubeconfig is refused.
    """
    key = await _location(session, name, namespace)
    async with _dial(world, key, await _secret(session, key)) as api:
        yield api


async def _location(session: Session, name: str, namespace: str) -> Key:
    """Returns the key of the Secret with a worker's kubeconfig."""
    try:
        cluster = await session.api.get(MULTIKUEUE_CLUSTER, Key("", name))
    except NotFoundError:
        text = f"there is no MultiKueueCluster {name}: make it, or take the name out of the MultiKueueConfig"
        raise NotFoundError(text) from None
    source = (cluster["spec"].get("clusterSource") or {}).get("kubeConfig") or {}
    if source.get("locationType", "Secret") != "Secret" or not source.get("location"):
        raise CredentialsError(f"MultiKueueCluster {name} names no Secret: put its kubeconfig into one")
    return Key(namespace, str(source["location"]))


async def _secret(session: Session, key: Key) -> Obj:
    try:
        return await session.api.get(SECRET, key)
    except NotFoundError:
        raise NotFoundError(f"there is no Secret {key}: make it, and {PUT_KUBECONFIG}") from None


async def _for_logs(session: Session, key: Key) -> tuple[Key, Obj]:
    """Returns the Secret whose identity may read logs, otherwise the worker's own Secret, `key`.

    Raises Fail if neither may be read.
    """
    own = Key(key.namespace, f"{key.name}{LOGS_SUFFIX}")
    try:
        found = await session.api.get(SECRET, own)
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
        return key, await _secret(session, key)
    except ForbiddenError:
        text = f"{lacking}, and you may not get Secret {key}"
        raise Fail(text, fix=_HAVE_IT_MADE.format(own=own), code=Exit.SERVER) from None


@asynccontextmanager
async def _dial(world: World, key: Key, secret: Obj) -> AsyncIterator[ClusterApi]:
    checked = check(content_of(secret), now=world.now())
    async with world.dial(checked.credentials) as api:
        try:
            yield api
        except ForbiddenError as error:
            if error.status != UNAUTHORIZED:
                raise
            text = f"the worker refuses the credentials in Secret {key} (401): put valid ones in place"
            raise CredentialsError(text) from None


@asynccontextmanager
async def on_worker(cli: Cli, session: Session, job: Obj) -> AsyncIterator[tuple[Session, Obj]]:
    """Connects to the worker that a FournosJob was dispatched to, to read logs.

    Yields the session and the job's copy on the worker.  Raises Fail.
    """
    name, workloads = job["metadata"]["name"], await session.api.list(WORKLOAD, namespace=session.namespace)
    mine = (one for one in workloads.items if controls(job, one))
    cluster = next((str((one.get("status") or {}).get("clusterName") or "") for one in mine), "")
    if not cluster:
        fix = f"ask why: fournos dispatch explain {name}"
        raise Fail(f"{name} is on no worker yet", fix=fix, code=Exit.NOT_FOUND)
    namespace = os.environ.get("FOURNOS_MULTIKUEUE_KUEUE_NAMESPACE") or KUEUE_NAMESPACE
    location = await _location(session, cluster, namespace)
    key, secret = await _for_logs(session, location)
    async with _dial(cli.world, key, secret) as api:
        try:
            copy = await api.get(FOURNOS_JOB, key_of(job))
        except NotFoundError:
            fix = "set FOURNOS_MULTIKUEUE_KEEP_FINISHED_SEC to keep those that have ended for a while"
            raise Fail(f"{name} is gone from {cluster}", fix=fix, code=Exit.NOT_FOUND) from None
        await _may_read_logs(api, cluster, key, location, session.namespace)
        yield Session(api, session.namespace), copy


async def _may_read_logs(api: ClusterApi, cluster: str, key: Key, location: Key, namespace: str) -> None:
    """Raises Fail unless the identity may read logs.

    Without this check, pods that may not be read look like pods that were deleted.
    """
    if await may(api, POD, "get", namespace=namespace, subresource="log"):
        return
    own = Key(location.namespace, f"{location.name}{LOGS_SUFFIX}")
    fix = (
        "apply deploy/multikueue/worker/identity.yaml there" if key == own else _HAVE_IT_MADE.format(own=own)
    )
    text = f"the identity in Secret {key} may not read logs on {cluster}"
    raise Fail(text, fix=fix, code=Exit.SERVER)
