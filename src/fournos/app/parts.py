"""The parts that `fournos run --enable` accepts: each with its settings, controllers and background tasks."""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from pydantic_settings import BaseSettings

from fournos.app.files import roots
from fournos.app.preflight import APPWRAPPER, FOURNOS, KUEUE, MINICLUSTER, TEKTON, Engine, verify_kinds
from fournos.appwrappers.controller import APPWRAPPERS, appwrappers_controller
from fournos.appwrappers.metrics import count_phase
from fournos.appwrappers.metrics import report as report_appwrappers
from fournos.appwrappers.settings import AppWrapperSettings
from fournos.appwrappers.webhooks import appwrapper_webhooks
from fournos.clusters.controller import CLUSTERS, cluster_controllers
from fournos.clusters.metrics import report
from fournos.clusters.observe import project_node
from fournos.clusters.settings import ClusterSettings
from fournos.frameworks.admission import webhooks as framework_webhooks
from fournos.frameworks.controller import framework_controllers
from fournos.frameworks.settings import FrameworkSettings
from fournos.jobs.controller import jobs_controller
from fournos.jobs.garbage_collection import orphans_controller
from fournos.jobs.own_job import job_webhooks
from fournos.jobs.settings import JobSettings
from fournos.jobs.template import load_template
from fournos.kube.client import Client
from fournos.kube.fleet import Fleet, FleetWatch
from fournos.kube.kinds import NODE
from fournos.kube.resource import Key
from fournos.miniclusters.controller import MINICLUSTERS, miniclusters_controller
from fournos.miniclusters.metrics import report as report_miniclusters
from fournos.miniclusters.settings import MiniClusterSettings
from fournos.multikueue.controller import multikueue_controllers
from fournos.multikueue.settings import MultiKueueSettings
from fournos.runtime.clock import Clock
from fournos.runtime.controller import Controller
from fournos.runtime.manager import Manager
from fournos.runtime.metrics import Metrics
from fournos.runtime.webhook.types import Webhook

log = logging.getLogger(__name__)

Wake = Callable[[str, Key | None], None]
"""Enqueues a key of the controller with this name; with None, all its keys."""


@dataclass(frozen=True, slots=True)
class Running:
    """What a started part adds to the process."""

    systems: list[Controller[Any]]
    background: Mapping[str, Callable[[], Awaitable[None]]] = field(default_factory=dict)
    refresh: Callable[[Manager], None] = lambda controller: None
    """Updates the part's own gauges before metrics are read."""


@dataclass(frozen=True, slots=True)
class Part:
    """A part of the operator: what it needs to start, and what it needs in the cluster."""

    settings: type[BaseSettings]
    start: Callable[[Any, Clock, Metrics, Wake], Running]
    """Starts the part from its settings, the clock, the metrics and a function that enqueues a key."""
    lease: str
    collect_interval: Callable[[Any], float]
    engines: tuple[Engine, ...]
    """The APIs that the part needs in the cluster."""
    webhooks: Callable[[Any], Sequence[Webhook]] = lambda settings: ()
    """Returns the part's admission webhooks for its settings."""
    verify: Callable[[Any, Client], Awaitable[list[str]]] | None = None
    """Verifies what the settings name; returns warnings.  Raises UnsupportedError."""

    @property
    def prefix(self) -> str:
        return str(self.settings.model_config.get("env_prefix") or "")


def _jobs(settings: JobSettings, clock: Clock, metrics: Metrics, wake: Wake) -> Running:
    template = load_template(settings.resolve_job_template, roots=roots())
    if template.error:
        log.error("the resolve Job template '%s' %s: jobs wait", template.path, template.error)
    return Running([jobs_controller(settings, template), orphans_controller(settings)])


def _clusters(settings: ClusterSettings, clock: Clock, metrics: Metrics, wake: Wake) -> Running:
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
        {"fleet": fleet.run},
        lambda controller: report(controller.caches(CLUSTERS), metrics),
    )


def _appwrappers(settings: AppWrapperSettings, clock: Clock, metrics: Metrics, wake: Wake) -> Running:
    return Running(
        [appwrappers_controller(settings, written=partial(count_phase, metrics))],
        refresh=lambda controller: report_appwrappers(controller.caches(APPWRAPPERS), metrics),
    )


def _frameworks(settings: FrameworkSettings, clock: Clock, metrics: Metrics, wake: Wake) -> Running:
    return Running(list(framework_controllers(settings)))


def _multikueue(settings: MultiKueueSettings, clock: Clock, metrics: Metrics, wake: Wake) -> Running:
    requests = metrics.requests("worker")
    systems, workers = multikueue_controllers(settings, clock=clock, wake=wake, requests=requests)
    return Running(systems, {"workers": workers.run})


async def _multikueue_kinds(settings: MultiKueueSettings, api: Client) -> list[str]:
    return await verify_kinds(api, settings.kinds, setting="FOURNOS_MULTIKUEUE_EXTERNAL_FRAMEWORKS")


def _miniclusters(settings: MiniClusterSettings, clock: Clock, metrics: Metrics, wake: Wake) -> Running:
    return Running(
        [miniclusters_controller(settings)],
        refresh=lambda controller: report_miniclusters(controller.caches(MINICLUSTERS), metrics),
    )


_COLLECT_INTERVAL = 300.0
"""Seconds between garbage collections, for parts without a setting of their own."""

PARTS: Mapping[str, Part] = {
    "jobs": Part(
        JobSettings,
        _jobs,
        "fournos",
        lambda settings: settings.gc_interval_sec,
        (FOURNOS, KUEUE, TEKTON),
        job_webhooks,
    ),
    "clusters": Part(
        ClusterSettings,
        _clusters,
        "hearth",
        lambda settings: settings.reconcile_interval_sec,
        (FOURNOS, KUEUE),
    ),
    "appwrappers": Part(
        AppWrapperSettings,
        _appwrappers,
        "appwrappers",
        lambda settings: _COLLECT_INTERVAL,
        (APPWRAPPER, KUEUE),
        webhooks=appwrapper_webhooks,
    ),
    "frameworks": Part(
        FrameworkSettings,
        _frameworks,
        "frameworks",
        lambda settings: _COLLECT_INTERVAL,
        (KUEUE,),
        lambda settings: framework_webhooks(settings.frameworks()),
    ),
    "multikueue": Part(
        MultiKueueSettings,
        _multikueue,
        "fournos-multikueue",
        lambda settings: settings.gc_interval_sec,
        (KUEUE,),
        verify=_multikueue_kinds,
    ),
    "miniclusters": Part(
        MiniClusterSettings,
        _miniclusters,
        "miniclusters",
        lambda settings: _COLLECT_INTERVAL,
        (MINICLUSTER, KUEUE),
    ),
}
