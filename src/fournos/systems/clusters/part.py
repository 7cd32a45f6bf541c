"""The part `clusters`: its controllers and their wiring, the metrics and the declaration."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from datetime import datetime
from functools import partial
from typing import Any

from fournos.api.fournoscluster import DEFINITION
from fournos.api.kinds import FOURNOS_CLUSTER
from fournos.engine.kube.fleet import Fleet, FleetWatch
from fournos.engine.kube.resource import CONFIG_MAP, NODE, SECRET, Key, Obj, is_terminating, key_of
from fournos.engine.queueing.workload import KUEUE
from fournos.engine.runtime.clock import Clock
from fournos.engine.runtime.controller import Caches, Controller, Watch, own_key, project_metadata
from fournos.engine.runtime.decision import (
    Create,
    Decision,
    EventRecord,
    Facts,
    LiveGet,
    Present,
    SecretShape,
    Unknown,
)
from fournos.engine.runtime.metrics import Metrics
from fournos.engine.runtime.part import FOURNOS, Part, Running, Wake
from fournos.systems.clusters import build
from fournos.systems.clusters.build import executors
from fournos.systems.clusters.clusterqueue import queue_controller
from fournos.systems.clusters.decide import decide
from fournos.systems.clusters.metrics import report
from fournos.systems.clusters.observe import Observer, project_node, watches
from fournos.systems.clusters.rules import RULES
from fournos.systems.clusters.settings import ClusterSettings
from fournos.systems.clusters.status import DeletedCluster, Observed, version_of


@dataclass(frozen=True, slots=True)
class LabelledSecret:
    """A labelled kubeconfig Secret and the state of its FournosCluster."""

    secret: Obj
    """The Secret, without its data."""
    cluster: str | None
    """The cluster name taken from the Secret's name; None if that name does not match the pattern."""
    has_cluster: bool
    """True if a FournosCluster with this name exists."""


def decide_secret(
    observed: LabelledSecret, facts: Facts, now: datetime, *, settings: ClusterSettings
) -> Decision:
    """Creates the FournosCluster if it does not exist. A pure function.

    An existing FournosCluster is left to its own controller.
    """
    if facts.failure is not None:
        return _failed(facts)
    if is_terminating(observed.secret) or observed.has_cluster:
        return Decision()
    if observed.cluster is None:
        text = f"its name does not fit {settings.kubeconfig_secret_pattern}, so it names no cluster"
        return Decision(events=(EventRecord("Warning", "NameIgnored", text),))
    answer, shape = facts.require(
        LiveGet(CONFIG_MAP, Key(settings.namespace, build.REMOVED_CONFIG_MAP)),
        # A live read, because the cache may still show a deleted Secret.
        SecretShape(key_of(observed.secret)),
    )
    if isinstance(answer, Unknown) or isinstance(shape, Unknown):
        return Decision(retry=True)
    if not isinstance(shape, Present) or shape.value.labels.get(build.SECRET_LABEL) != "true":
        return Decision()
    if isinstance(answer, Present):
        removed = (answer.value.get("data") or {}).get(observed.cluster)
        if removed == version_of(observed.secret).replace("/", "."):
            # A person deleted this FournosCluster; it is not created again until the Secret changes
            return Decision()
    owner = (observed.secret["metadata"].get("annotations") or {}).get(build.OWNER_ANNOTATION)
    body = build.cluster_of_secret(
        Key(settings.namespace, observed.cluster), secret=observed.secret["metadata"]["name"], owner=owner
    )
    return Decision(steps=(Create(FOURNOS_CLUSTER, body, own_label=build.AUTO_DISCOVERED_LABEL),))


def _failed(facts: Facts) -> Decision:
    failure = facts.failure
    assert failure is not None
    if failure.transient or failure.error == "ForeignObject":
        return Decision(retry=failure.transient)  # a FournosCluster that a person created serves as well
    text = f"no FournosCluster could be made: {failure.message}"[:1024]
    return Decision(
        events=(EventRecord("Warning", "ClusterRefused", text),), retry=failure.error == "ForbiddenError"
    )


def secrets_controller(settings: ClusterSettings) -> Controller[LabelledSecret]:
    """Returns the controller; its keys are the labelled Secrets."""

    def observe(caches: Caches, key: Key) -> LabelledSecret | None:
        secret = caches[SECRET].get(key)
        if secret is None:
            return None
        name = settings.cluster_of(key.name)
        known = name is not None and caches[FOURNOS_CLUSTER].get(Key(settings.namespace, name)) is not None
        return LabelledSecret(secret, name, known)

    def of_cluster(cluster: Obj, caches: Caches) -> Iterable[Key]:
        """Enqueues the Secret of a FournosCluster, so that a deleted cluster can be created again."""
        name = settings.kubeconfig_secret_pattern.replace("{cluster}", cluster["metadata"]["name"])
        key = Key(settings.secrets_namespace, name)
        return (key,) if caches[SECRET].get(key) is not None else ()

    all_watches = {watch.resource: watch for watch in watches(settings)}
    return Controller(
        name="cluster-secrets",
        watches=(
            replace(all_watches[SECRET], wakes=own_key),
            Watch(FOURNOS_CLUSTER, namespace=settings.namespace, wakes=of_cluster, project=project_metadata),
        ),
        observe=observe,
        decide=partial(decide_secret, settings=settings),
        primary=lambda found: found.secret,
    )


# --- controllers ---------------------------------------------------------------------------------------

CLUSTERS = "clusters"
"""The name of the controller whose keys are FournosClusters. A change of a connection enqueues its keys."""


def clusters_controller(settings: ClusterSettings, fleet: Fleet) -> Controller[Observed | DeletedCluster]:
    """Returns the controller of FournosClusters."""
    return Controller(
        name=CLUSTERS,
        watches=watches(settings),
        observe=Observer(settings, fleet),
        decide=partial(decide, settings=settings),
        primary=lambda observed: observed.cluster,
        owns_status=lambda cluster: True,
        executors=executors(fleet),
    )


def cluster_controllers(settings: ClusterSettings, fleet: Fleet) -> list[Controller[Any]]:
    """Returns the controllers of kubeconfig Secrets, of FournosClusters, and of the ClusterQueue."""
    return [secrets_controller(settings), clusters_controller(settings, fleet), queue_controller(settings)]


# --- the declaration -----------------------------------------------------------------------------------


def start(settings: ClusterSettings, clock: Clock, metrics: Metrics, wake: Wake) -> Running:
    fleet = Fleet(
        watches=[FleetWatch(NODE, project=project_node)],
        on_change=lambda name: wake(CLUSTERS, Key(settings.namespace, name)),
        now=clock.now,
        monotonic=clock.monotonic,
        probe_interval=settings.reconcile_interval_sec,
        timeout=settings.gpu_discovery_timeout_sec,
        observer=metrics.requests("target"),
    )
    return Running(
        cluster_controllers(settings, fleet),
        background={"fleet": fleet.run},
        refresh=lambda manager: report(manager.caches(CLUSTERS), metrics),
    )


PART = Part(
    name="clusters",
    title="The clusters (`fournos run --enable clusters`)",
    settings=ClusterSettings,
    start=start,
    lease="hearth",
    required=(FOURNOS, KUEUE),
    collect_interval=lambda settings: settings.reconcile_interval_sec,
    kinds=((DEFINITION, RULES),),
)
