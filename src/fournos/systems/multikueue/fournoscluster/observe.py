"""Reads a FournosCluster, its kubeconfig Secret without data, and the MultiKueueCluster of its name."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from hashlib import sha256

from fournos.api.kinds import FOURNOS_CLUSTER
from fournos.engine.kube.errors import CredentialsError
from fournos.engine.kube.resource import SECRET, Key, Obj, is_terminating, key_of, uid_of
from fournos.engine.runtime.controller import Caches, Watch
from fournos.engine.runtime.projection import pick, waking_by
from fournos.systems.multikueue import names
from fournos.systems.multikueue.kinds import MULTIKUEUE_CLUSTER
from fournos.systems.multikueue.kubeconfig import content_of, project_secret, token_in
from fournos.systems.multikueue.settings import MultiKueueSettings

_SECRET = "secret"  # noqa: S105 - the name of an index
_META = ("name", "namespace", "uid", "resourceVersion", "deletionTimestamp", "labels")


@dataclass(frozen=True, slots=True)
class KubeconfigSource:
    """The kubeconfig Secret of a FournosCluster."""

    key: Key
    version: str
    """The version of the kubeconfig only: a change of labels does not change it."""
    has_kubeconfig: bool
    renewed: bool
    """True if the token in a copy has to be replaced before it expires."""


@dataclass(frozen=True, slots=True)
class Observed:
    """A FournosCluster, and its objects as a worker."""

    key: Key
    cluster: Obj | None
    is_worker: bool
    """True if the cluster opts in and the maximum number of workers is not exceeded."""
    too_many: bool
    source: KubeconfigSource | None
    worker: Obj | None
    """The MultiKueueCluster of the same name."""


def observe(caches: Caches, key: Key, *, settings: MultiKueueSettings) -> Observed | None:
    """Returns the FournosCluster with its MultiKueueCluster; None if neither exists."""
    cluster = caches[FOURNOS_CLUSTER].get(key)
    worker = caches[MULTIKUEUE_CLUSTER].get(Key("", key.name))
    if cluster is None and worker is None:
        return None
    candidates = sorted(one["metadata"]["name"] for one in caches[FOURNOS_CLUSTER] if _opts_in(one))
    opted = cluster is not None and _opts_in(cluster)
    fits = key.name in candidates[: names.MAX_WORKERS]
    location = next(iter(_secret_of(cluster or {})))
    secret = caches[SECRET].get(Key(settings.secrets_namespace, location))
    return Observed(
        key,
        cluster,
        is_worker=opted and fits,
        too_many=opted and not fits,
        source=_source_of(secret) if secret is not None else None,
        worker=worker,
    )


def _source_of(secret: Obj) -> KubeconfigSource:
    return KubeconfigSource(
        key_of(secret),
        version=f"{uid_of(secret)}/{secret['digest']}",
        has_kubeconfig=secret["hasKubeconfig"],
        renewed=secret["tokenEnds"] and (secret["metadata"].get("labels") or {}).get(names.RENEW) != "false",
    )


def watches(settings: MultiKueueSettings) -> tuple[Watch, ...]:
    return (
        Watch(
            FOURNOS_CLUSTER,
            namespace=settings.clusters_namespace,
            wakes=_wakes_of_cluster,
            project=_project_cluster,
            indexes={_SECRET: _secret_of},
            required=False,
        ),
        Watch(
            SECRET,
            namespace=settings.secrets_namespace,
            selector="fournos.dev/cluster-kubeconfig=true",
            wakes=waking_by(FOURNOS_CLUSTER, _SECRET),
            project=project_source,
        ),
        Watch(
            MULTIKUEUE_CLUSTER,
            wakes=lambda worker, caches: (cluster_key(settings, worker),),
            project=_project_worker,
        ),
    )


def cluster_key(settings: MultiKueueSettings, worker: Obj) -> Key:
    """Returns the key of the FournosCluster with the name of a MultiKueueCluster."""
    return Key(settings.clusters_namespace, worker["metadata"]["name"])


def is_ours(worker: Obj, cluster: str) -> bool:
    """Returns True if the label marks a MultiKueueCluster as created for this FournosCluster."""
    return bool((worker["metadata"].get("labels") or {}).get(names.MADE_FOR) == cluster)


def _wakes_of_cluster(obj: Obj, caches: Caches) -> Iterable[Key]:
    """Enqueues the cluster and all candidates: one that opts out makes room for another."""
    return (key_of(obj), *(key_of(one) for one in caches[FOURNOS_CLUSTER] if _opts_in(one)))


def _opts_in(cluster: Obj) -> bool:
    label = (cluster["metadata"].get("labels") or {}).get(names.OPT_IN)
    return label == "true" and not is_terminating(cluster)


def _secret_of(cluster: Obj) -> Iterable[str]:
    return (str((cluster.get("spec") or {}).get("kubeconfigSecret") or ""),)


def _project_cluster(cluster: Obj) -> Obj:
    return {
        "metadata": pick(cluster["metadata"], _META),
        "spec": pick(cluster.get("spec"), ("kubeconfigSecret",)),
    }


def _project_worker(worker: Obj) -> Obj:
    return {"metadata": pick(worker["metadata"], (*_META, "annotations"))}


def project_source(secret: Obj) -> Obj:
    """Keeps the metadata and a digest of the kubeconfig; the content is never cached.

    The version of a copy is the digest of its source.  A source of which only labels have changed must not
    overwrite a token that was renewed in the copy.
    """
    content = str((secret.get("data") or {}).get(names.KUBECONFIG) or "")
    try:
        token_in(content_of(secret))
        token_ends = True
    except CredentialsError:
        token_ends = False
    digest = sha256(content.encode()).hexdigest()[:32]
    return {**project_secret(secret), "digest": digest, "tokenEnds": token_ends}
