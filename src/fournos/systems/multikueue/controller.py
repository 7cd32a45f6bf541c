"""The controllers of the MultiKueue adapter, as the manager registers them."""

from __future__ import annotations

from functools import partial
from typing import Any

from fournos.engine.kube.resource import absent
from fournos.engine.kube.transport import Observer
from fournos.engine.runtime.clock import Clock
from fournos.engine.runtime.controller import Controller
from fournos.engine.runtime.part import Wake
from fournos.systems.multikueue.admissioncheck.controller import ADMISSION_CHECKS, admission_checks
from fournos.systems.multikueue.context import Observed
from fournos.systems.multikueue.decide import decide
from fournos.systems.multikueue.fournoscluster.controller import fournosclusters
from fournos.systems.multikueue.multikueuecluster.controller import multikueueclusters
from fournos.systems.multikueue.observe import observe, remote_keys, watches
from fournos.systems.multikueue.remote_clients import RemoteClients
from fournos.systems.multikueue.settings import MultiKueueSettings
from fournos.systems.multikueue.tokens import tokens_controller
from fournos.systems.multikueue.workers import Send

WORKLOADS = "multikueue"
"""The name of the controller whose keys are Workloads of the manager cluster."""


def workloads(settings: MultiKueueSettings, workers: RemoteClients) -> Controller[Observed]:
    """Returns the controller that dispatches Workloads of the manager cluster."""
    return Controller(
        name=WORKLOADS,
        watches=watches(settings),
        observe=partial(observe, settings=settings, workers=workers),
        decide=partial(decide, settings=settings),
        primary=lambda observed: observed.workload or absent(observed.key),
        # Orphans: objects on a worker whose Workload no longer exists on the manager cluster.
        collect=lambda caches: remote_keys(settings, workers),
        executors={Send: workers.send},
    )


def multikueue_controllers(
    settings: MultiKueueSettings, *, clock: Clock, wake: Wake, requests: Observer | None = None
) -> tuple[list[Controller[Any]], RemoteClients]:
    """Returns the controllers, and the worker connections to run beside them."""
    workers = RemoteClients(
        settings,
        wake=partial(wake, WORKLOADS),
        changed=partial(_worker_changed, wake),
        clock=clock,
        observer=requests,
    )
    controllers: list[Controller[Any]] = [
        workloads(settings, workers),
        admission_checks(settings, workers),
        multikueueclusters(settings, workers),
        tokens_controller(settings, clock),
    ]
    if settings.clusters_namespace:
        controllers.append(fournosclusters(settings, clock))
    return controllers, workers


def _worker_changed(wake: Wake, worker: str) -> None:
    """Enqueues all AdmissionChecks and Workloads, because any of them may depend on the changed worker."""
    wake(ADMISSION_CHECKS, None)
    wake(WORKLOADS, None)
