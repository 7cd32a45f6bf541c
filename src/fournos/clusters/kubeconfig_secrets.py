"""The system that makes a FournosCluster of every labelled kubeconfig Secret."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from datetime import datetime
from functools import partial

from fournos.clusters import build, names
from fournos.clusters.context import version_of
from fournos.clusters.kinds import FOURNOS_CLUSTER
from fournos.clusters.observe import watches
from fournos.clusters.settings import ClusterSettings
from fournos.kube.kinds import CONFIG_MAP, SECRET
from fournos.kube.resource import Key, Obj, is_terminating, key_of
from fournos.runtime.controller import Caches, Controller, Watch
from fournos.runtime.decision import Decision, EventRecord, Facts, LiveGet, Present, SecretShape, Unknown
from fournos.runtime.projection import project_metadata
from fournos.runtime.steps import Create


@dataclass(frozen=True, slots=True)
class Found:
    secret: Obj
    """Without data."""
    cluster: str | None
    """The name that it gives; None if its own name does not fit the pattern."""
    known: bool
    """There is such a FournosCluster."""


def decide(found: Found, facts: Facts, now: datetime, *, settings: ClusterSettings) -> Decision:
    """Pure.  What exists is left to the system of FournosClusters."""
    if facts.failure is not None:
        return _failed(facts)
    if is_terminating(found.secret) or found.known:
        return Decision()
    if found.cluster is None:
        text = f"its name does not fit {settings.kubeconfig_secret_pattern}, so it names no cluster"
        return Decision(events=(EventRecord("Warning", "NameIgnored", text),))
    answer, shape = facts.require(
        LiveGet(CONFIG_MAP, Key(settings.namespace, names.REMOVED_CONFIG_MAP)),
        SecretShape(key_of(found.secret)),  # the cache may show one that is gone
    )
    if isinstance(answer, Unknown) or isinstance(shape, Unknown):
        return Decision(retry=True)
    if not isinstance(shape, Present) or shape.value.labels.get(names.SECRET_LABEL) != "true":
        return Decision()
    if isinstance(answer, Present):
        removed = (answer.value.get("data") or {}).get(found.cluster)
        if removed == version_of(found.secret).replace("/", "."):
            return Decision()  # somebody deleted it; it stays away until the Secret changes
    owner = (found.secret["metadata"].get("annotations") or {}).get(names.OWNER_ANNOTATION)
    body = build.cluster_of_secret(
        Key(settings.namespace, found.cluster), secret=found.secret["metadata"]["name"], owner=owner
    )
    return Decision(steps=(Create(FOURNOS_CLUSTER, body, own_label=names.AUTO_DISCOVERED_LABEL),))


def _failed(facts: Facts) -> Decision:
    failure = facts.failure
    assert failure is not None
    if failure.transient or failure.error == "ForeignObject":
        return Decision(retry=failure.transient)  # one that a person made is as good
    text = f"no FournosCluster could be made: {failure.message}"[:1024]
    return Decision(
        events=(EventRecord("Warning", "ClusterRefused", text),), retry=failure.error == "ForbiddenError"
    )


def secrets_controller(settings: ClusterSettings) -> Controller[Found]:
    def observe(caches: Caches, key: Key) -> Found | None:
        secret = caches[SECRET].get(key)
        if secret is None:
            return None
        name = settings.cluster_of(key.name)
        known = name is not None and caches[FOURNOS_CLUSTER].get(Key(settings.namespace, name)) is not None
        return Found(secret, name, known)

    def of_cluster(cluster: Obj, caches: Caches) -> Iterable[Key]:
        """Its Secret: it may bring the cluster anew when this one is gone."""
        name = settings.kubeconfig_secret_pattern.replace("{cluster}", cluster["metadata"]["name"])
        key = Key(settings.secrets_namespace, name)
        return (key,) if caches[SECRET].get(key) is not None else ()

    all_watches = {watch.resource: watch for watch in watches(settings)}
    return Controller(
        name="cluster-secrets",
        watches=(
            replace(all_watches[SECRET], wakes=lambda secret, caches: (key_of(secret),)),
            Watch(FOURNOS_CLUSTER, namespace=settings.namespace, wakes=of_cluster, project=project_metadata),
        ),
        observe=observe,
        decide=partial(decide, settings=settings),
        primary=lambda found: found.secret,
    )
