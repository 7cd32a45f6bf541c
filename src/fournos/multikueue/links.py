"""The system that connects to workers: MultiKueueClusters and their kubeconfig Secrets, which it only reads.

Kueue itself keeps the status of MultiKueueClusters: what we find out stands in our AdmissionChecks.
"""

from __future__ import annotations

import base64
import binascii
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime
from functools import partial
from typing import Any

from fournos.kube.api import Api
from fournos.kube.errors import CredentialsError
from fournos.kube.kinds import SECRET
from fournos.kube.resource import Key, Obj, is_terminating, key_of, uid_of
from fournos.multikueue.kinds import MULTIKUEUE_CLUSTER, MULTIKUEUE_CONFIG
from fournos.multikueue.names import KUBECONFIG
from fournos.multikueue.observe import clusters_of, config_of
from fournos.multikueue.settings import MultiKueueSettings
from fournos.multikueue.workers import Workers
from fournos.queueing.kinds import ADMISSION_CHECK
from fournos.runtime.decision import Decision, Facts, Note
from fournos.runtime.projection import pick
from fournos.runtime.steps import Custom
from fournos.runtime.system import Caches, Executor, System, Watch

_SECRET = "secret"  # noqa: S105 - the name of an index


@dataclass(frozen=True, slots=True)
class Connect(Custom):
    """Use the kubeconfig of this Secret; its bytes are read and handed on without passing a decision."""

    worker: str
    secret: Key
    version: str


@dataclass(frozen=True, slots=True)
class Refuse(Custom):
    worker: str
    version: str
    text: str


@dataclass(frozen=True, slots=True)
class Forget(Custom):
    worker: str


@dataclass(frozen=True, slots=True)
class Link:
    """A MultiKueueCluster, its Secret without data, and what the process is connected to."""

    name: str
    cluster: Obj | None
    wanted: bool
    """A check of ours names it."""
    secret: Obj | None
    connected: str | None
    refused: str | None
    known: bool


def decide(seen: Link, facts: Facts, now: datetime, *, namespace: str) -> Decision:
    """Pure."""
    failure = facts.failure
    if failure is not None:
        if failure.transient:
            return Decision(retry=True)
        if isinstance(failure.step, Connect) and failure.error in ("NotFoundError", "ForbiddenError"):
            return Decision((Refuse(seen.name, failure.step.version, failure.message),), retry=True)
        return Decision(
            notes=(Note("Warning", failure.reason or "KubeconfigRefused", failure.message[:1024]),)
        )
    if seen.cluster is None or is_terminating(seen.cluster) or not seen.wanted:
        return Decision((Forget(seen.name),) if seen.known else ())
    source = seen.cluster["spec"].get("clusterSource") or {}
    kubeconfig = source.get("kubeConfig") or {}
    if kubeconfig.get("locationType", "Secret") != "Secret" or not kubeconfig.get("location"):
        what = (
            "clusterProfileRef"
            if source.get("clusterProfileRef")
            else f"locationType {kubeconfig.get('locationType')}"
        )
        return _refused(
            seen, "spec", f"{what} is not supported: put the kubeconfig into a Secret in {namespace}"
        )
    key = Key(namespace, str(kubeconfig["location"]))
    if seen.secret is None:
        return _refused(seen, "missing", f"there is no Secret {key}")
    if not seen.secret["hasKubeconfig"]:
        return _refused(seen, version_of(seen.secret), f"Secret {key} has no key {KUBECONFIG}")
    version = version_of(seen.secret)
    if version in (seen.connected, seen.refused):
        return Decision()
    return Decision((Connect(seen.name, key, version),))


def _refused(seen: Link, version: str, text: str) -> Decision:
    return Decision((Refuse(seen.name, version, text),) if seen.refused != version else ())


def version_of(secret: Obj) -> str:
    return f"{uid_of(secret)}/{secret['version']}"


def executors(workers: Workers) -> Mapping[type[Custom], Executor]:
    async def connect(step: Connect, api: Api) -> None:
        secret = await api.get(SECRET, step.secret)
        try:
            content = base64.b64decode((secret.get("data") or {}).get(KUBECONFIG) or "", validate=True)
        except (binascii.Error, ValueError):
            raise CredentialsError(f"Secret {step.secret}: {KUBECONFIG} is not base64") from None
        workers.connect(step.worker, content, version=step.version)

    async def refuse(step: Refuse, api: Api) -> None:
        workers.refuse(step.worker, step.version, step.text)

    async def forget(step: Forget, api: Api) -> None:
        workers.forget(step.worker)

    return {Connect: connect, Refuse: refuse, Forget: forget}


def links_system(settings: MultiKueueSettings, workers: Workers) -> System[Link]:
    def observe(caches: Caches, key: Key) -> Link | None:
        name = key.name
        cluster = caches[MULTIKUEUE_CLUSTER].get(key)
        known = workers.version_of(name) is not None or workers.refused(name) is not None
        if cluster is None and not known:
            return None
        location = next(iter(_location(cluster)), "") if cluster is not None else ""
        return Link(
            name,
            cluster,
            wanted=any(name in _names(caches, check) for check in caches[ADMISSION_CHECK]),
            secret=caches[SECRET].get(Key(settings.kueue_namespace, location)) if location else None,
            connected=workers.version_of(name),
            refused=workers.refused(name),
            known=known,
        )

    def _names(caches: Caches, check: Obj) -> tuple[str, ...]:
        if check["spec"].get("controllerName") != settings.controller_name:
            return ()
        config = next((caches[MULTIKUEUE_CONFIG].get(Key("", one)) for one in config_of(check)), None)
        return clusters_of(config)

    def of_secret(secret: Obj, caches: Caches) -> Iterable[Key]:
        return tuple(
            key_of(one) for one in caches[MULTIKUEUE_CLUSTER].by(_SECRET, secret["metadata"]["name"])
        )

    def everybody(obj: Obj, caches: Caches) -> Iterable[Key]:
        return tuple(key_of(cluster) for cluster in caches[MULTIKUEUE_CLUSTER])

    def primary(seen: Link) -> Obj:
        return seen.cluster or {"metadata": {"name": seen.name, "uid": ""}}

    return System(
        name="multikueue-workers",
        watches=(
            Watch(
                MULTIKUEUE_CLUSTER,
                wakes=lambda cluster, caches: (key_of(cluster),),
                project=_project_cluster,
                indexes={_SECRET: _location},
            ),
            Watch(SECRET, namespace=settings.kueue_namespace, wakes=of_secret, project=project_secret),
            Watch(ADMISSION_CHECK, wakes=everybody, project=_project_check),
            Watch(MULTIKUEUE_CONFIG, wakes=everybody),
        ),
        observe=observe,
        decide=partial(decide, namespace=settings.kueue_namespace),
        primary=primary,
        executors=executors(workers),
    )


def _location(cluster: Obj) -> Iterable[str]:
    found = ((cluster["spec"].get("clusterSource") or {}).get("kubeConfig") or {}).get("location")
    return (str(found),) if found else ()


def project_secret(secret: Obj) -> Obj:
    """Without a byte of its content."""
    meta: dict[str, Any] = pick(
        secret["metadata"], ("name", "namespace", "uid", "resourceVersion", "deletionTimestamp", "labels")
    )
    return {
        "metadata": meta,
        "version": meta.get("resourceVersion"),
        "hasKubeconfig": bool((secret.get("data") or {}).get(KUBECONFIG)),
    }


def _project_cluster(cluster: Obj) -> Obj:
    meta = pick(cluster["metadata"], ("name", "uid", "resourceVersion", "deletionTimestamp"))
    return {"metadata": meta, "spec": cluster["spec"]}


def _project_check(check: Obj) -> Obj:
    return {"metadata": pick(check["metadata"], ("name", "uid", "resourceVersion")), "spec": check["spec"]}
