"""Keeps a store equal to the objects of an API server: one list, then one watch, through all failures.

The model is client-go's reflector.  In addition this one handles silent watches, ERROR events of any code,
and resource types that are installed or removed.
"""

from __future__ import annotations

import asyncio
import logging
import random
from collections.abc import AsyncIterator, Callable
from typing import Final, TypeAlias

from fournos.engine.kube.api import Api, WatchEvent
from fournos.engine.kube.errors import (
    ConnectionLostError,
    ForbiddenError,
    GoneError,
    KubeError,
    NoSuchResourceError,
    ServerError,
    TransientError,
    error_of,
)
from fournos.engine.kube.resource import Obj, Resource
from fournos.engine.kube.store import Change, Store, version_of
from fournos.engine.kube.transport import Backoff

logger = logging.getLogger(__name__)

OnChange: TypeAlias = Callable[[str, Obj | None, Obj | None], None]
"""Called with type (ADDED, MODIFIED, DELETED), old and new object, both as the store keeps them."""

INACTIVITY: Final = 90.0
"""Seconds without event or bookmark after which a watch counts as dead; bookmarks come every minute."""
SLOW_RETRY: Final = 30.0
"""Seconds between tries while the right or the resource type is missing."""
_RESUMES: Final = 5
"""Failed resumes in a row before a new list, because the API server's etcd may have been restored."""
_SHORT_WATCH: Final = 1.0
_BREATH: Final = 1000


class Reflector:
    """The informer of one resource type of one API server.  `run` ends only by cancellation.

    `on_change` is called once for each change of the store, but not for the watch event of an own write that
    `assume` has stored already.  `on_state` is called after each complete list, and when `error` is set, is
    cleared or changes its type.  `where` names the API server in logs if there are several.
    """

    def __init__(
        self,
        api: Api,
        resource: Resource,
        store: Store,
        *,
        namespace: str = "",
        selector: str = "",
        on_change: OnChange | None = None,
        on_state: Callable[[], None] | None = None,
        where: str = "",
        inactivity: float = INACTIVITY,
        rng: random.Random | None = None,
    ) -> None:
        self.resource = resource
        self.store = store
        self.error: KubeError | None = None
        """The present error; None while the watch is open."""
        self.relists = 0
        """Number of complete lists: the first, and one for each 410."""
        self.restarts = 0
        """Number of watches that ended with an error."""
        self._api = api
        self._namespace = namespace
        self._selector = selector
        self._on_change = on_change
        self._on_state = on_state
        self._label = f"{resource} of {where}" if where else str(resource)
        self._inactivity = inactivity
        self._rng = rng or random.Random()  # noqa: S311 - spreads load
        self._backoff = Backoff(rng=self._rng)
        self._version: str | None = None
        """The resourceVersion at which the next watch begins; None: list first."""
        self._failures = 0
        self._away = False
        """True from a lost connection until a list or an event.  An API server that has just started refuses
        everybody until it has read its roles, so a right that is missing meanwhile is no lasting error."""
        self._received_at: float | None = None
        self._retry_at = 0.0

    @property
    def retry_in(self) -> float:
        """Seconds until the next try after an error."""
        return max(0.0, self._retry_at - asyncio.get_running_loop().time())

    @property
    def last_event_age(self) -> float | None:
        """Seconds since the last list, event or bookmark of this type; None before the first list."""
        if self._received_at is None:
            return None
        return asyncio.get_running_loop().time() - self._received_at

    async def run(self) -> None:
        while True:
            wait = await self._round()
            if wait > 0:
                await asyncio.sleep(wait)

    async def _round(self) -> float:
        """Lists if necessary, then watches until the watch ends; returns the seconds to wait afterwards."""
        loop = asyncio.get_running_loop()
        started = loop.time()
        before = self._version
        try:
            if self._version is None:
                await self._list()
            await self._watch()
        except NoSuchResourceError as error:
            self._version = None
            self.store.served = False
            await self._emit_all(self.store.clear())
            return self._failed(error, self._jittered(SLOW_RETRY))
        except KubeError as error:
            if isinstance(error, GoneError):
                self._version = None
                if before is not None:
                    # The answer to a resume: the API server is there, and asks for a list.
                    self._backoff.reset()
            return self._failed(error, self._wait_after(error))
        except Exception as error:  # an error in our code must not end the process, and must be visible
            logger.exception("watch of %s failed unexpectedly", self._label)
            self._version = None
            bug = KubeError(f"unexpected {type(error).__name__}")
            return self._failed(bug, self._backoff.next())
        if self._version == before and loop.time() - started < _SHORT_WATCH:
            return self._backoff.next()  # ended at once without an event: do not retry in a tight loop
        return 0.0

    async def _list(self) -> None:
        listing = await self._api.list(
            self.resource, namespace=self._namespace, selector=self._selector, keep=self.store.slim
        )
        self._version = listing.resource_version
        self._failures = 0
        self.relists += 1
        self.error = None
        self._received()
        self.store.served = True
        await self._emit_all(self.store.replace(listing.items, listing.resource_version))
        self._emit_state()

    async def _watch(self) -> None:
        assert self._version is not None
        events = self._api.watch(
            self.resource,
            namespace=self._namespace,
            selector=self._selector,
            resource_version=self._version,
        )
        try:
            async with asyncio.timeout(self._inactivity) as silence:
                async for event in events:
                    self._received()
                    self._take(event)
                    deadline = silence.when()
                    now = asyncio.get_running_loop().time()
                    if deadline is not None and deadline - now < self._inactivity - 1:
                        silence.reschedule(now + self._inactivity)
        except TimeoutError:
            # A type without changes gets no bookmarks, so silence is not an error.  Only the next request
            # shows whether the connection still works.
            logger.debug("watch of %s silent for %g s, renewing", self.resource, self._inactivity)
        finally:
            await _close(events)

    def _take(self, event: WatchEvent) -> None:
        obj = event.object
        if event.type == "ERROR":
            raise error_of(obj)
        version = str(obj["metadata"]["resourceVersion"])
        if self.error is not None:
            self.error = None
            self._emit_state()
        if version != self._version:
            self._version = version
            self._failures = 0
            self._backoff.reset()
        if event.type == "BOOKMARK":
            self.store.bookmark(version_of(obj))
            return
        change = self.store.observe(event.type, obj)
        if change is not None:
            self._emit(change)

    def _received(self) -> None:
        self._away = False
        self._received_at = asyncio.get_running_loop().time()

    async def _emit_all(self, changes: list[Change]) -> None:
        for count, change in enumerate(changes, start=1):
            self._emit(change)
            if count % _BREATH == 0:
                await asyncio.sleep(0)  # a large list must not delay the renewal of the lease

    def _emit(self, change: Change) -> None:
        if self._on_change is None:
            return
        try:
            self._on_change(*change)
        except Exception:
            logger.exception("a change of %s could not be handed on", self._label)

    def _wait_after(self, error: KubeError) -> float:
        """Returns the seconds until the next try."""
        if isinstance(error, ConnectionLostError):
            self._away = True
        elif isinstance(self.error, ConnectionLostError):
            # The first answer after an outage.  The cache is old until the watch is open again, so the delays
            # that grew during the outage must not hold it back.
            self._backoff.reset()
        if isinstance(error, ForbiddenError) and not self._away:
            return self._jittered(SLOW_RETRY)
        wait = self._backoff.next()
        return max(wait, error.retry_after or 0.0) if isinstance(error, ServerError) else wait

    def _failed(self, error: KubeError, wait: float) -> float:
        if isinstance(error, TransientError):
            self._failures += 1
            if self._failures >= _RESUMES:
                self._failures = 0
                self._version = None
        self.restarts += 1
        self._retry_at = asyncio.get_running_loop().time() + wait
        before, self.error = self.error, error
        if type(before) is not type(error):
            logger.warning("watch of %s: %s; next try in %.1f s", self._label, error, wait)
            self._emit_state()
        return wait

    def _emit_state(self) -> None:
        if self._on_state is None:
            return
        try:
            self._on_state()
        except Exception:
            logger.exception("the state of %s could not be handed on", self._label)

    def _jittered(self, seconds: float) -> float:
        return self._rng.uniform(0.8, 1.2) * seconds


async def _close(events: AsyncIterator[WatchEvent]) -> None:
    """Closes a watch that was left before its end."""
    close = getattr(events, "aclose", None)
    if close is not None:
        await close()
