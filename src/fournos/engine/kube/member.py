"""One cluster of the fleet: its probes and its watches, in a task of its own."""

from __future__ import annotations

import asyncio
import logging
import random
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import replace
from datetime import datetime, timedelta
from typing import Final, Protocol

from fournos.engine.kube.errors import KubeError
from fournos.engine.kube.limiter import Backoff
from fournos.engine.kube.probe import ClusterApi, Probe, probe
from fournos.engine.kube.reflector import Reflector
from fournos.engine.kube.resource import Resource
from fournos.engine.kube.store import Store
from fournos.engine.kube.untrusted_kubeconfig import CheckedKubeconfig

logger = logging.getLogger(__name__)

JITTER: Final = 0.1
"""Random share of the probe interval, so that the probes of the clusters do not run together."""


class ReflectorFactory(Protocol):
    """Creates the reflector of one resource type of a cluster."""

    def __call__(
        self,
        api: ClusterApi,
        resource: Resource,
        store: Store,
        *,
        on_change: Callable[[], None],
        on_state: Callable[[], None],
    ) -> Reflector: ...


class Member:
    """A connection to a cluster with one version of a kubeconfig.

    Watches run while the cluster is reachable.  A failed probe ends them and the next successful probe lists
    anew, because TCP keeps a watch on a broken line open and silent for a minute or more.  A watch with an
    error triggers a probe at once.  The stores keep the last observed objects.
    """

    def __init__(
        self,
        name: str,
        checked: CheckedKubeconfig,
        *,
        version: str,
        stores: Mapping[Resource, Store],
        reflector: ReflectorFactory,
        api: ClusterApi,
        dial: Callable[[], ClusterApi],
        on_change: Callable[[], None],
        now: Callable[[], datetime],
        monotonic: Callable[[], float],
        interval: float,
        timeout: float,
        last: Probe | None,
        since: datetime | None,
        rng: random.Random,
    ) -> None:
        self.name = name
        self.version = version
        self.server = checked.credentials.server
        self.stores = stores
        self.api = api
        self.last = last
        self.since = since
        """The time since which the cluster is unreachable."""
        self._checked = checked
        self._reflector = reflector
        self._dial = dial
        self._on_change = on_change
        self._now = now
        self._monotonic = monotonic
        self._interval = interval
        self._timeout = timeout
        self._rng = rng
        self._backoff = Backoff(cap=interval, rng=rng)
        self._broken = asyncio.Event()
        """Set when a watch had an error since the last probe began."""
        self._reflectors: dict[Resource, Reflector] = {}
        self._tasks: list[asyncio.Task[None]] = []

    def watch_error(self, resource: Resource) -> KubeError | None:
        reflector = self._reflectors.get(resource)
        return reflector.error if reflector is not None else None

    async def run(self) -> None:
        """Runs until cancelled; call `close` afterwards."""
        while True:
            try:
                wait = await self._round()
            except Exception:  # an error in our code must not end the probes of the cluster
                logger.exception("cluster %s: unexpected failure", self.name)
                wait = self._backoff.next()
            if not self._tasks:
                await asyncio.sleep(wait)
                continue
            with suppress(TimeoutError):
                async with asyncio.timeout(wait):
                    await self._broken.wait()

    def stop(self) -> None:
        """Ends the watches, so that another member can write the stores from now on."""
        for task in self._tasks:
            task.cancel()

    async def close(self) -> None:
        await self._unwatch()
        await self.api.close()

    async def _round(self) -> float:
        """Probes once and starts or ends the watches; returns the seconds until the next probe."""
        self._broken.clear()
        probed = await probe(
            self._dial,
            self._checked,
            before=self.last,
            since=self.since,
            limit=self._timeout,
            now=self._now,
            monotonic=self._monotonic,
        )
        if probed.reachable:
            self._backoff.reset()
            wait = self._interval * self._rng.uniform(1 - JITTER, 1 + JITTER)
        else:
            wait = self._backoff.next()
        probed = replace(probed, next_at=self._now() + timedelta(seconds=wait))
        before, self.last, self.since = self.last, probed, probed.unreachable_since
        if before is None or before.verdict() != probed.verdict():
            level = logging.WARNING if probed.error else logging.INFO
            logger.log(level, "cluster %s: %s", self.name, probed.error or f"reachable, {probed.version}")
            self._on_change()
        if not probed.reachable:
            await self._unwatch()
        elif not self._tasks:
            self._watch()
        return wait

    def _watch(self) -> None:
        for resource, store in self.stores.items():
            reflector = self._reflector(
                self.api, resource, store, on_change=self._on_change, on_state=self._watch_changed
            )
            self._reflectors[resource] = reflector
            self._tasks.append(asyncio.create_task(reflector.run(), name=f"{self.name}: watch {resource}"))

    def _watch_changed(self) -> None:
        if any(reflector.error is not None for reflector in self._reflectors.values()):
            self._broken.set()
        self._on_change()

    async def _unwatch(self) -> None:
        tasks, self._tasks = self._tasks, []
        self._reflectors.clear()
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
