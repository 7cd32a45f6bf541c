"""Wiring: the systems of the MultiKueue adapter as the runtime takes them."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

from fournos.kube.resource import Key, key_of
from fournos.kube.transport import Observer as RequestObserver
from fournos.multikueue.checks import CHECKS, checks_system
from fournos.multikueue.context import Observed
from fournos.multikueue.decide import decide
from fournos.multikueue.links import links_system
from fournos.multikueue.members import members_system
from fournos.multikueue.observe import Observer, remote_keys, watches
from fournos.multikueue.post import Post
from fournos.multikueue.settings import MultiKueueSettings
from fournos.multikueue.tokens import tokens_system
from fournos.multikueue.workers import Workers, executors
from fournos.queueing.kinds import WORKLOAD
from fournos.runtime.clock import Clock
from fournos.runtime.system import System

DISPATCH = "multikueue"
"""The system whose keys are the manager's Workloads."""


def dispatch_system(settings: MultiKueueSettings, workers: Workers, observer: Observer) -> System[Observed]:
    return System(
        name=DISPATCH,
        watches=watches(settings),
        observe=observer,
        decide=partial(decide, settings=settings),
        primary=_primary,
        # Orphans: what is on a worker and has no Workload here any more.
        collect=lambda caches: remote_keys(settings, workers),
        executors=executors(workers),
    )


def _primary(observed: Observed) -> Any:
    key = observed.key
    return observed.workload or {"metadata": {"namespace": key.namespace, "name": key.name, "uid": ""}}


def multikueue_systems(
    settings: MultiKueueSettings,
    *,
    clock: Clock,
    wake: Callable[[str, Key], None],
    requests: RequestObserver | None = None,
) -> tuple[list[System[Any]], Post]:
    """The systems, and the connections to run beside them."""

    def changed(worker: str) -> None:
        """A worker can be used, or cannot any more: that is for its checks, and for all that may be on it."""
        for key in tuple(checks):
            wake(CHECKS, key)
        waiting = {key_of(one) for one in observer.caches[WORKLOAD]} if observer.caches is not None else set()
        for key in waiting | set(remote_keys(settings, post)):
            wake(DISPATCH, key)

    checks: set[Key] = set()
    post = Post(
        settings,
        wake=lambda key: wake(DISPATCH, key),
        changed=changed,
        now=clock.now,
        monotonic=clock.monotonic,
        observer=requests,
    )
    observer = Observer(settings, post)
    systems: list[System[Any]] = [
        dispatch_system(settings, post, observer),
        checks_system(settings, post, checks),
        links_system(settings, post),
        tokens_system(settings, clock),
    ]
    if settings.clusters_namespace:
        systems.append(members_system(settings, clock))
    return systems, post
