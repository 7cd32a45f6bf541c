"""Connects to the workers of MultiKueueClusters through their kubeconfig Secrets; writes neither of them.

Kueue itself writes the status of MultiKueueClusters, so the results are reported in our AdmissionChecks.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from functools import partial
from typing import Any, Final

from fournos.engine.kube.api import Api
from fournos.engine.kube.errors import KubeError
from fournos.engine.kube.resource import SECRET, Key, Obj, absent, is_terminating, uid_of
from fournos.engine.queueing.kinds import ADMISSION_CHECK
from fournos.engine.runtime.controller import (
    Caches,
    Controller,
    Executor,
    Watch,
    own_key,
    pick,
    waking_all,
    waking_by,
)
from fournos.engine.runtime.decision import Custom, Decision, EventRecord, Facts
from fournos.systems.multikueue.config import MULTIKUEUE_CLUSTER, MULTIKUEUE_CONFIG, content_of
from fournos.systems.multikueue.names import KUBECONFIG
from fournos.systems.multikueue.observe import clusters_of, config_for, is_ours, reported_workers
from fournos.systems.multikueue.remote_clients import RemoteClients
from fournos.systems.multikueue.settings import MultiKueueSettings

log = logging.getLogger(__name__)

_LOOK: Final = timedelta(seconds=15)
"""How often a worker whose MultiKueueCluster is gone is looked at, until nothing of ours is there."""
_SECRET = "secret"  # noqa: S105 - the name of an index


@dataclass(frozen=True, slots=True)
class Observed:
    """A MultiKueueCluster and the state of its connection."""

    name: str
    cluster: Obj | None
    is_listed: bool
    """True if a check of this adapter lists the cluster, or has a condition of it: it has left the list."""
    secret: Obj | None
    connected: str | None
    """The version of the kubeconfig in use, or None."""
    refused: str | None
    """The version of the kubeconfig that cannot be used, or None."""
    in_use: bool = False
    """True if objects of this adapter are on the worker, which can be reached."""

    @property
    def has_connection_state(self) -> bool:
        return self.connected is not None or self.refused is not None


def observe(
    caches: Caches, key: Key, *, settings: MultiKueueSettings, workers: RemoteClients
) -> Observed | None:
    """Returns the MultiKueueCluster; None if it neither exists nor has a connection."""
    cluster = caches[MULTIKUEUE_CLUSTER].get(key)
    location = next(iter(_location(cluster)), "") if cluster is not None else ""
    observed = Observed(
        key.name,
        cluster,
        is_listed=any(
            key.name in (*clusters_of(config_for(caches, check)), *reported_workers(check))
            for check in caches[ADMISSION_CHECK]
            if is_ours(check)
        ),
        secret=caches[SECRET].get(Key(settings.kueue_namespace, location)) if location else None,
        connected=workers.version_of(key.name),
        refused=workers.refused(key.name),
        in_use=workers.holds(key.name) and not workers.unusable_reason(key.name),
    )
    return observed if cluster is not None or observed.has_connection_state else None


def watches(settings: MultiKueueSettings) -> tuple[Watch, ...]:
    return (
        Watch(MULTIKUEUE_CLUSTER, wakes=own_key, project=_project_cluster, indexes={_SECRET: _location}),
        Watch(
            SECRET,
            namespace=settings.kueue_namespace,
            wakes=waking_by(MULTIKUEUE_CLUSTER, _SECRET),
            project=_project_secret,
        ),
        Watch(ADMISSION_CHECK, wakes=waking_all(MULTIKUEUE_CLUSTER), project=_project_check),
        Watch(MULTIKUEUE_CONFIG, wakes=waking_all(MULTIKUEUE_CLUSTER)),
    )


def _location(cluster: Obj) -> Iterable[str]:
    found = ((cluster["spec"].get("clusterSource") or {}).get("kubeConfig") or {}).get("location")
    return (str(found),) if found else ()


def _project_cluster(cluster: Obj) -> Obj:
    meta = pick(cluster["metadata"], ("name", "uid", "resourceVersion", "deletionTimestamp"))
    return {"metadata": meta, "spec": cluster["spec"]}


def _project_secret(secret: Obj) -> Obj:
    """Projects a Secret to its metadata; its content is never cached."""
    meta: dict[str, Any] = pick(
        secret["metadata"], ("name", "namespace", "uid", "resourceVersion", "deletionTimestamp", "labels")
    )
    return {
        "metadata": meta,
        "version": meta.get("resourceVersion"),
        "hasKubeconfig": bool((secret.get("data") or {}).get(KUBECONFIG)),
    }


def _version_of(secret: Obj) -> str:
    """Returns the version of a Secret that `_project_secret` has projected."""
    return f"{uid_of(secret)}/{secret['version']}"


def _project_check(check: Obj) -> Obj:
    """Keeps of the status only the types of the conditions."""
    conditions = (check.get("status") or {}).get("conditions") or ()
    return {
        "metadata": pick(check["metadata"], ("name", "uid", "resourceVersion")),
        "spec": check["spec"],
        "status": {"conditions": [{"type": one["type"]} for one in conditions]},
    }


# --- steps -----------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Connect(Custom):
    """Connects with the kubeconfig of this Secret; its content is read here and never part of a decision."""

    worker: str
    secret: Key
    version: str


@dataclass(frozen=True, slots=True)
class Refuse(Custom):
    """Drops the connection and records why this version of the kubeconfig cannot be used."""

    worker: str
    version: str
    text: str


@dataclass(frozen=True, slots=True)
class Disconnect(Custom):
    """Drops the connection and its state."""

    worker: str


def executors(workers: RemoteClients) -> Mapping[type[Custom], Executor]:
    return {
        Connect: partial(_connect, workers),
        Refuse: partial(_refuse, workers),
        Disconnect: partial(_disconnect, workers),
    }


async def _connect(workers: RemoteClients, step: Connect, api: Api) -> None:
    content = content_of(await api.get(SECRET, step.secret))
    try:
        workers.connect(step.worker, content, version=step.version)
    except KubeError:
        raise
    except Exception as error:  # one kubeconfig must not keep the others from being used
        log.exception("worker %s: unexpected failure of its kubeconfig", step.worker)
        workers.refuse(step.worker, step.version, f"its kubeconfig cannot be used: {type(error).__name__}")


async def _refuse(workers: RemoteClients, step: Refuse, api: Api) -> None:
    workers.refuse(step.worker, step.version, step.text)


async def _disconnect(workers: RemoteClients, step: Disconnect, api: Api) -> None:
    workers.disconnect(step.worker)


# --- decide ----------------------------------------------------------------------------------------------


def decide(observed: Observed, facts: Facts, now: datetime, *, namespace: str) -> Decision:
    """Returns the next step of a connection: connect, refuse or disconnect.  Pure."""
    failure = facts.failure
    if failure is not None:
        if failure.transient:
            return Decision(retry=True)
        if isinstance(failure.step, Connect) and failure.error in ("NotFoundError", "ForbiddenError"):
            return Decision((Refuse(observed.name, failure.step.version, failure.message),), retry=True)
        return Decision(
            events=(EventRecord("Warning", failure.reason or "KubeconfigRefused", failure.message[:1024]),)
        )
    if observed.cluster is None or is_terminating(observed.cluster) or not observed.is_listed:
        if observed.in_use:  # what runs there is withdrawn first
            return Decision(wake_at=now + _LOOK)
        return Decision((Disconnect(observed.name),) if observed.has_connection_state else ())
    source = observed.cluster["spec"].get("clusterSource") or {}
    kubeconfig = source.get("kubeConfig") or {}
    if kubeconfig.get("locationType", "Secret") != "Secret" or not kubeconfig.get("location"):
        what = (
            "clusterProfileRef"
            if source.get("clusterProfileRef")
            else f"locationType {kubeconfig.get('locationType')}"
        )
        return _refused(
            observed, "spec", f"{what} is not supported: put the kubeconfig into a Secret in {namespace}"
        )
    key = Key(namespace, str(kubeconfig["location"]))
    if observed.secret is None:
        return _refused(observed, "missing", f"there is no Secret {key}")
    if not observed.secret["hasKubeconfig"]:
        return _refused(observed, _version_of(observed.secret), f"Secret {key} has no key {KUBECONFIG}")
    version = _version_of(observed.secret)
    if version in (observed.connected, observed.refused):
        return Decision()
    return Decision((Connect(observed.name, key, version),))


def _refused(observed: Observed, version: str, text: str) -> Decision:
    return Decision((Refuse(observed.name, version, text),) if observed.refused != version else ())


# --- the controller --------------------------------------------------------------------------------------


def multikueueclusters(settings: MultiKueueSettings, workers: RemoteClients) -> Controller[Observed]:
    """Returns the controller that connects to the workers of MultiKueueClusters."""
    return Controller(
        name="multikueue-workers",
        watches=watches(settings),
        observe=partial(observe, settings=settings, workers=workers),
        decide=partial(decide, namespace=settings.kueue_namespace),
        primary=lambda observed: observed.cluster or absent(Key("", observed.name)),
        executors=executors(workers),
    )
