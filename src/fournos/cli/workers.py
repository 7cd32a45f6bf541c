"""The way from the manager to a worker, by the same objects as the adapter: MultiKueueCluster and Secret."""

from __future__ import annotations

import base64
import binascii
import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass

from fournos.cli.connect import World
from fournos.cli.errors import Exit, Fail
from fournos.cli.verbs import Cli, Session
from fournos.jobs.kinds import FOURNOS_JOB
from fournos.kube.checked import check
from fournos.kube.errors import CredentialsError, ForbiddenError, NotFoundError
from fournos.kube.kinds import SECRET
from fournos.kube.probe import ClusterApi
from fournos.kube.resource import Key, Obj, controller_of, key_of, uid_of
from fournos.multikueue.kinds import MULTIKUEUE_CLUSTER, MULTIKUEUE_CONFIG
from fournos.multikueue.names import CONTROLLER, KUBECONFIG, MULTIKUEUE
from fournos.queueing.kinds import ADMISSION_CHECK, WORKLOAD

KUEUE_NAMESPACE = "kueue-system"
UNAUTHORIZED = 401
CONTROLLERS = {
    MULTIKUEUE: ("Kueue's", "Kueue's adapter", "is Kueue running, with MultiKueue on?"),
    CONTROLLER: ("ours", "our adapter", "start it: fournos run --enable multikueue"),
}


@dataclass(frozen=True, slots=True)
class DispatchCheck:
    """An AdmissionCheck that takes jobs to workers."""

    name: str
    adapter: str
    """ "Kueue's" or "ours"."""
    whose: str
    """ "Kueue's adapter" or "our adapter"."""
    start: str
    """What makes somebody serve it."""
    active: Obj
    """Its condition Active; empty: nobody has looked at it."""
    workers: tuple[str, ...]


async def checks(session: Session) -> list[DispatchCheck]:
    """Those of either adapter, in the order of their names."""
    found = []
    for one in (await session.api.list(ADMISSION_CHECK)).items:
        words = CONTROLLERS.get(one["spec"].get("controllerName"))
        if words is None:
            continue
        parameters = one["spec"].get("parameters") or {}
        try:
            config = await session.api.get(MULTIKUEUE_CONFIG, Key("", str(parameters.get("name"))))
        except NotFoundError:
            config = {}
        conditions = (one.get("status") or {}).get("conditions") or ()
        active: Obj = next((told for told in conditions if told["type"] == "Active"), {})
        workers = tuple((config.get("spec") or {}).get("clusters") or ())
        found.append(DispatchCheck(one["metadata"]["name"], *words, active=active, workers=workers))
    return sorted(found, key=lambda check: check.name)


@asynccontextmanager
async def worker(world: World, session: Session, name: str, *, namespace: str) -> AsyncIterator[ClusterApi]:
    """Connects; `namespace` is Kueue's.  Raises KubeError: no such worker, no right to read its kubeconfig, a
    kubeconfig that is refused."""
    try:
        cluster = await session.api.get(MULTIKUEUE_CLUSTER, Key("", name))
    except NotFoundError:
        text = f"there is no MultiKueueCluster {name}: make it, or take the name out of the MultiKueueConfig"
        raise NotFoundError(text) from None
    source = (cluster["spec"].get("clusterSource") or {}).get("kubeConfig") or {}
    if source.get("locationType", "Secret") != "Secret" or not source.get("location"):
        raise CredentialsError(f"MultiKueueCluster {name} names no Secret: put its kubeconfig into one")
    key = Key(namespace, str(source["location"]))
    put = f"put the worker's kubeconfig into it, under the key {KUBECONFIG}"
    try:
        secret = await session.api.get(SECRET, key)
    except NotFoundError:
        raise NotFoundError(f"there is no Secret {key}: make it, and {put}") from None
    encoded = (secret.get("data") or {}).get(KUBECONFIG)
    if not encoded:
        raise CredentialsError(f"Secret {key} has no key {KUBECONFIG}: {put}")
    try:
        content = base64.b64decode(encoded, validate=True)
    except (binascii.Error, ValueError):
        raise CredentialsError(f"Secret {key}: {KUBECONFIG} is not base64") from None
    checked = check(content, now=world.now())
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
    """The worker that a FournosJob was taken to, and its copy there.  Raises Fail."""
    name, workloads = job["metadata"]["name"], await session.api.list(WORKLOAD, namespace=session.namespace)
    mine = (one for one in workloads.items if (controller_of(one) or {}).get("uid") == uid_of(job))
    cluster = next((str((one.get("status") or {}).get("clusterName") or "") for one in mine), "")
    if not cluster:
        fix = f"ask why: fournos dispatch explain {name}"
        raise Fail(f"{name} is on no worker yet", fix=fix, code=Exit.NOT_FOUND)
    namespace = os.environ.get("FOURNOS_MULTIKUEUE_KUEUE_NAMESPACE") or KUEUE_NAMESPACE
    async with worker(cli.world, session, cluster, namespace=namespace) as api:
        try:
            copy = await api.get(FOURNOS_JOB, key_of(job))
        except NotFoundError:
            fix = "set FOURNOS_MULTIKUEUE_KEEP_FINISHED_SEC to keep those that have ended for a while"
            raise Fail(f"{name} is gone from {cluster}", fix=fix, code=Exit.NOT_FOUND) from None
        yield Session(api, session.namespace), copy
