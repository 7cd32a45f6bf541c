"""The controller of the FournosClusters that are workers."""

from __future__ import annotations

from collections.abc import Iterable
from functools import partial

from fournos.engine.kube.resource import Key, absent
from fournos.engine.runtime.clock import Clock
from fournos.engine.runtime.controller import Caches, Controller
from fournos.systems.multikueue.fournoscluster.decide import decide
from fournos.systems.multikueue.fournoscluster.observe import Observed, cluster_key, is_ours, observe, watches
from fournos.systems.multikueue.fournoscluster.steps import executors
from fournos.systems.multikueue.kinds import MULTIKUEUE_CLUSTER
from fournos.systems.multikueue.settings import MultiKueueSettings


def fournosclusters(settings: MultiKueueSettings, clock: Clock) -> Controller[Observed]:
    """Returns the controller that registers FournosClusters as workers."""
    return Controller(
        name="multikueue-members",
        watches=watches(settings),
        observe=partial(observe, settings=settings),
        decide=partial(decide, namespace=settings.kueue_namespace),
        primary=lambda observed: observed.cluster or absent(observed.key),
        collect=partial(_made, settings),
        executors=executors(clock),
    )


def _made(settings: MultiKueueSettings, caches: Caches) -> Iterable[Key]:
    """Returns the keys of our MultiKueueClusters, including those whose FournosCluster is gone."""
    owned = (one for one in caches[MULTIKUEUE_CLUSTER] if is_ours(one, one["metadata"]["name"]))
    return tuple(cluster_key(settings, one) for one in owned)
