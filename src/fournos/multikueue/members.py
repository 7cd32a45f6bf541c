"""The system that makes workers of FournosClusters: those labelled fournos.dev/multikueue-worker=true.

Each gets a MultiKueueCluster of its name, and a copy of its kubeconfig in Kueue's namespace, where Kueue
looks for it; the copy follows the original, and goes with the MultiKueueCluster, which owns it.
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
from fournos.kube.checked import check
from fournos.kube.errors import CredentialsError
from fournos.kube.kinds import SECRET
from fournos.kube.resource import Key, Obj, is_terminating, key_of, uid_of
from fournos.multikueue import names
from fournos.multikueue.kinds import MULTIKUEUE_CLUSTER
from fournos.multikueue.links import project_secret, version_of
from fournos.multikueue.settings import MultiKueueSettings
from fournos.queueing.kinds import FOURNOS_CLUSTER
from fournos.runtime.clock import Clock
from fournos.runtime.decision import Absent, Decision, Facts, LiveGet, Need, Note, SecretShape
from fournos.runtime.projection import pick
from fournos.runtime.steps import CopySecret, Create, Custom, Delete, Patch
from fournos.runtime.system import Caches, Executor, System, Watch


@dataclass(frozen=True, slots=True)
class CheckKubeconfig(Custom):
    """Fails for a kubeconfig that Kueue would refuse: nothing of it is copied then."""

    secret: Key


@dataclass(frozen=True, slots=True)
class Member:
    key: Key
    cluster: Obj | None
    wanted: bool
    """It opts in, and is not one too many."""
    too_many: bool
    source: Obj | None
    """Its kubeconfig Secret, without data."""
    worker: Obj | None
    """The MultiKueueCluster of its name."""


def secret_name(cluster: str) -> str:
    return f"fournos-{cluster}-kubeconfig"


def decide(seen: Member, facts: Facts, now: datetime, *, namespace: str) -> Decision | Need:
    """Pure."""
    failure = facts.failure
    if failure is not None:
        if failure.transient or seen.cluster is None:
            return Decision(retry=True)
        text = f"not a worker: {failure.message}"[:1024]
        # A refused kubeconfig is looked at again when its Secret changes.
        return Decision(
            notes=(Note("Warning", failure.reason or failure.error, text),),
            retry=not isinstance(failure.step, CheckKubeconfig),
        )
    if not seen.wanted:
        return _gone(seen, facts)
    if seen.source is None or not seen.source["hasKubeconfig"]:
        return Decision()
    name = seen.key.name
    if seen.worker is None:
        return Decision(
            (
                CheckKubeconfig(key_of(seen.source)),
                Create(MULTIKUEUE_CLUSTER, worker_of(name), own_label=names.MADE_FOR),
            )
        )
    if is_terminating(seen.worker) or not _ours(seen.worker, name):
        return Decision()
    version = version_of(seen.source)
    if _copied(seen.worker) == version:
        question = SecretShape(Key(namespace, secret_name(name)))
        if need := facts.ask([question]):
            return need
        if not isinstance(facts.answer(question), Absent):
            return Decision()
    return Decision(
        (
            CheckKubeconfig(key_of(seen.source)),
            CopySecret(key_of(seen.source), copy_metadata(seen.worker, namespace)),
            # Last: with it the copy is said to be complete.
            Patch(
                MULTIKUEUE_CLUSTER,
                key_of(seen.worker),
                {"metadata": {"annotations": {names.SOURCE_VERSION: version}}},
            ),
        )
    )


def _gone(seen: Member, facts: Facts) -> Decision | Need:
    """Out of the fleet: the MultiKueueCluster goes, and its Secret with it."""
    if seen.worker is None or not _ours(seen.worker, seen.key.name) or is_terminating(seen.worker):
        return _note_too_many(seen)
    question = LiveGet(FOURNOS_CLUSTER, seen.key)
    if need := facts.ask([question]):
        return need
    answer = facts.answer(question)
    if seen.cluster is None and not isinstance(answer, Absent):
        return Decision(retry=True)  # the cache is about to show it
    step = Delete(MULTIKUEUE_CLUSTER, key_of(seen.worker), uid_of(seen.worker))
    return Decision((step,), notes=_note_too_many(seen).notes)


def _note_too_many(seen: Member) -> Decision:
    if not seen.too_many:
        return Decision()
    text = f"not a worker: Kueue takes {names.MAX_WORKERS} at most, and so many come before it by name"
    return Decision(notes=(Note("Warning", "TooManyWorkers", text),))


def _ours(obj: Obj, name: str) -> bool:
    return bool((obj["metadata"].get("labels") or {}).get(names.MADE_FOR) == name)


def _copied(worker: Obj) -> str:
    """The version of the original that it was told to be a copy of."""
    return str((worker["metadata"].get("annotations") or {}).get(names.SOURCE_VERSION) or "")


def worker_of(name: str) -> Obj:
    return {
        "apiVersion": MULTIKUEUE_CLUSTER.api_version,
        "kind": MULTIKUEUE_CLUSTER.kind,
        "metadata": {"name": name, "labels": {names.MADE_FOR: name}},
        "spec": {"clusterSource": {"kubeConfig": {"location": secret_name(name), "locationType": "Secret"}}},
    }


def copy_metadata(worker: Obj, namespace: str) -> Mapping[str, Any]:
    name = worker["metadata"]["name"]
    owner = {
        "apiVersion": MULTIKUEUE_CLUSTER.api_version,
        "kind": MULTIKUEUE_CLUSTER.kind,
        "name": name,
        "uid": uid_of(worker),
        "controller": True,
    }
    return {
        "name": secret_name(name),
        "namespace": namespace,
        "labels": {names.MADE_FOR: name},
        "ownerReferences": [owner],
    }


def executors(clock: Clock) -> Mapping[type[Custom], Executor]:
    async def checked(step: CheckKubeconfig, api: Api) -> None:
        secret = await api.get(SECRET, step.secret)
        try:
            content = base64.b64decode((secret.get("data") or {}).get(names.KUBECONFIG) or "", validate=True)
        except (binascii.Error, ValueError):
            raise CredentialsError(f"Secret {step.secret}: {names.KUBECONFIG} is not base64") from None
        check(content, now=clock.now())

    return {CheckKubeconfig: checked}


def members_system(settings: MultiKueueSettings, clock: Clock) -> System[Member]:
    def observe(caches: Caches, key: Key) -> Member | None:
        cluster = caches[FOURNOS_CLUSTER].get(key)
        worker = caches[MULTIKUEUE_CLUSTER].get(Key("", key.name))
        if cluster is None and worker is None:
            return None
        names_ = sorted(one["metadata"]["name"] for one in caches[FOURNOS_CLUSTER] if _opts_in(one))
        opted = cluster is not None and _opts_in(cluster)
        fits = key.name in names_[: names.MAX_WORKERS]
        location = str(((cluster or {}).get("spec") or {}).get("kubeconfigSecret") or "")
        return Member(
            key,
            cluster,
            wanted=opted and fits,
            too_many=opted and not fits,
            source=caches[SECRET].get(Key(settings.secrets_namespace, location)),
            worker=worker,
        )

    def everybody(obj: Obj, caches: Caches) -> Iterable[Key]:
        """One that leaves makes room for another."""
        return (key_of(obj), *(key_of(one) for one in caches[FOURNOS_CLUSTER] if _opts_in(one)))

    def of_worker(worker: Obj, caches: Caches) -> Iterable[Key]:
        return (Key(settings.clusters_namespace, worker["metadata"]["name"]),)

    def of_secret(secret: Obj, caches: Caches) -> Iterable[Key]:
        return tuple(key_of(one) for one in caches[FOURNOS_CLUSTER].by(_SECRET, secret["metadata"]["name"]))

    def primary(seen: Member) -> Obj:
        return seen.cluster or {
            "metadata": {"namespace": seen.key.namespace, "name": seen.key.name, "uid": ""}
        }

    def collect(caches: Caches) -> Iterable[Key]:
        mine = (one for one in caches[MULTIKUEUE_CLUSTER] if _ours(one, one["metadata"]["name"]))
        return tuple(Key(settings.clusters_namespace, one["metadata"]["name"]) for one in mine)

    return System(
        name="multikueue-members",
        watches=(
            Watch(
                FOURNOS_CLUSTER,
                namespace=settings.clusters_namespace,
                wakes=everybody,
                project=_project_fournos_cluster,
                indexes={_SECRET: _secret_of},
                required=False,
            ),
            Watch(
                SECRET,
                namespace=settings.secrets_namespace,
                selector="fournos.dev/cluster-kubeconfig=true",
                wakes=of_secret,
                project=project_secret,
            ),
            Watch(MULTIKUEUE_CLUSTER, wakes=of_worker, project=_project_worker),
        ),
        observe=observe,
        decide=partial(decide, namespace=settings.kueue_namespace),
        primary=primary,
        collect=collect,
        executors=executors(clock),
    )


_SECRET = "secret"  # noqa: S105 - the name of an index


def _opts_in(cluster: Obj) -> bool:
    label = (cluster["metadata"].get("labels") or {}).get(names.OPT_IN)
    return label == "true" and not is_terminating(cluster)


def _secret_of(cluster: Obj) -> Iterable[str]:
    return (str((cluster.get("spec") or {}).get("kubeconfigSecret") or ""),)


_META = ("name", "namespace", "uid", "resourceVersion", "deletionTimestamp", "labels", "annotations")


def _project_fournos_cluster(cluster: Obj) -> Obj:
    meta = pick(cluster["metadata"], [name for name in _META if name != "annotations"])
    return {"metadata": meta, "spec": pick(cluster.get("spec"), ("kubeconfigSecret",))}


def _project_worker(worker: Obj) -> Obj:
    return {"metadata": pick(worker["metadata"], _META)}
