"""The controller of the connections to workers."""

from __future__ import annotations

from functools import partial

from fournos.engine.kube.resource import Key, absent
from fournos.engine.runtime.controller import Controller
from fournos.systems.multikueue.multikueuecluster.decide import decide
from fournos.systems.multikueue.multikueuecluster.observe import Observed, observe, watches
from fournos.systems.multikueue.multikueuecluster.steps import executors
from fournos.systems.multikueue.remote_clients import RemoteClients
from fournos.systems.multikueue.settings import MultiKueueSettings


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
