"""Wiring: the controllers of the MultiKueue adapter as the runtime takes them."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

from fournos.kube.resource import Key, Obj
from fournos.kube.transport import Observer
from fournos.multikueue.admissioncheck.controller import ADMISSION_CHECKS, admission_checks
from fournos.multikueue.context import Observed
from fournos.multikueue.decide import decide
from fournos.multikueue.fournoscluster.controller import fournosclusters
from fournos.multikueue.multikueuecluster.controller import multikueueclusters
from fournos.multikueue.observe import observe, remote_keys, watches
from fournos.multikueue.remote_clients import RemoteClients
from fournos.multikueue.settings import MultiKueueSettings
from fournos.multikueue.tokens import tokens_controller
from fournos.multikueue.workers import Workers, executors
from fournos.runtime.clock import Clock
from fournos.runtime.controller import Controller

WORKLOADS = "multikueue"
"""The controller whose keys are the manager's Workloads."""

Wake = Callable[[str, Key | None], None]
"""Works a key of a controller, by the controller's name; None: all of its keys."""


def workloads(settings: MultiKueueSettings, workers: Workers) -> Controller[Observed]:
    return Controller(
        name=WORKLOADS,
        watches=watches(settings),
        observe=partial(observe, settings=settings, workers=workers),
        decide=partial(decide, settings=settings),
        primary=_primary,
        # Orphans: what is on a worker and has no Workload here any more.
        collect=lambda caches: remote_keys(settings, workers),
        executors=executors(workers),
    )


def _primary(observed: Observed) -> Obj:
    key = observed.key
    return observed.workload or {"metadata": {"namespace": key.namespace, "name": key.name, "uid": ""}}


def multikueue_controllers(
    settings: MultiKueueSettings, *, clock: Clock, wake: Wake, requests: Observer | None = None
) -> tuple[list[Controller[Any]], RemoteClients]:
    """The controllers, and the connections to run beside them."""
    workers = RemoteClients(
        settings,
        wake=partial(wake, WORKLOADS),
        changed=partial(_worker_changed, wake),
        clock=clock,
        observer=requests,
    )
    systems: list[Controller[Any]] = [
        workloads(settings, workers),
        admission_checks(settings, workers),
        multikueueclusters(settings, workers),
        tokens_controller(settings, clock),
    ]
    if settings.clusters_namespace:
        systems.append(fournosclusters(settings, clock))
    return systems, workers


def _worker_changed(wake: Wake, worker: str) -> None:
    """A worker can be used, or cannot any more: that concerns its checks, and all that may be on it."""
    wake(ADMISSION_CHECKS, None)
    wake(WORKLOADS, None)
