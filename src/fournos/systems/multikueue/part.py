"""The part `multikueue`: jobs on worker clusters."""

from __future__ import annotations

from functools import partial
from typing import Any

from fournos.engine.kube.client import Client
from fournos.engine.kube.resource import absent
from fournos.engine.kube.transport import Observer
from fournos.engine.queueing.workload import KUEUE
from fournos.engine.runtime.clock import Clock
from fournos.engine.runtime.controller import Controller
from fournos.engine.runtime.metrics import Metrics
from fournos.engine.runtime.part import Part, Running, Wake, verify_kinds
from fournos.systems.multikueue.admissioncheck import ADMISSION_CHECKS, admission_checks
from fournos.systems.multikueue.decide import decide
from fournos.systems.multikueue.multikueuecluster import multikueueclusters
from fournos.systems.multikueue.observe import Observed, observe, remote_keys, watches
from fournos.systems.multikueue.remote import Send
from fournos.systems.multikueue.remote_clients import RemoteClients
from fournos.systems.multikueue.settings import MultiKueueSettings

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
    ]
    return controllers, workers


def _worker_changed(wake: Wake, worker: str) -> None:
    """Enqueues all AdmissionChecks and Workloads, because any of them may depend on the changed worker."""
    wake(ADMISSION_CHECKS, None)
    wake(WORKLOADS, None)


def start(settings: MultiKueueSettings, clock: Clock, metrics: Metrics, wake: Wake) -> Running:
    requests = metrics.requests("worker")
    controllers, workers = multikueue_controllers(settings, clock=clock, wake=wake, requests=requests)
    return Running(controllers, background={"workers": workers.run})


async def verify(settings: MultiKueueSettings, api: Client) -> list[str]:
    """Returns warnings about configured kinds without a CRD.  Raises UnsupportedError for wrong names."""
    return await verify_kinds(api, settings.kinds, setting="FOURNOS_MULTIKUEUE_CONFIG_FILE")


PART = Part(
    name="multikueue",
    title="Jobs on other clusters (`fournos run --enable multikueue`)",
    settings=MultiKueueSettings,
    start=start,
    lease="fournos-multikueue",
    namespace="fournos-system",
    required=(KUEUE,),
    collect_interval=lambda settings: settings.collect_interval,
    verify=verify,
)
