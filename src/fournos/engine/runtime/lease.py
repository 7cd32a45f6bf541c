"""Leader election by a Lease, with fencing: a leader that cannot renew stops writing before another starts.

The rules are those of client-go.  The lease of another process counts as expired when it has not *changed*
for its duration by our own monotonic clock; timestamps of other machines are never compared.  The leader
gives up at its renew deadline, which is shorter than the duration.  `check` is the fence: the client calls it
immediately before each write.
"""

from __future__ import annotations

import asyncio
import logging
import random
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any

from fournos.engine.kube.api import Api
from fournos.engine.kube.errors import (
    AlreadyExistsError,
    ConflictError,
    KubeError,
    NotFoundError,
    NotLeaderError,
)
from fournos.engine.kube.resource import LEASE, Key, Obj
from fournos.engine.runtime.clock import Clock

log = logging.getLogger(__name__)


class Lease:
    """One candidate of the leader election.

    It needs a client of its own: without fence, and not slowed down by the rate limit of other requests.
    Call `acquire`, then `hold` in the background until the end, then, with all workers drained, `release`.
    """

    def __init__(
        self,
        api: Api,
        key: Key,
        identity: str,
        clock: Clock,
        *,
        duration: float = 15.0,
        renew_deadline: float = 10.0,
        interval: float = 2.0,
        jitter: Callable[[], float] = random.random,
    ) -> None:
        """`identity` must be unique to this process.  Times are in seconds; ValueError if their order is
        wrong."""
        if not duration > renew_deadline > 2 * interval:
            raise ValueError("a lease needs duration > renew_deadline > 2 x interval")
        self.key = key
        self.identity = identity
        self._api = api
        self._clock = clock
        self._duration = duration
        self._renew_deadline = renew_deadline
        self._interval = interval
        self._jitter = jitter
        self._valid_until: float | None = None
        self._led = asyncio.Event()
        self._lease: Obj | None = None
        self._seen: Any = None
        self._seen_at = 0.0
        self._expires_at = 0.0
        """When the lease of another process expires that was seen last."""

    @property
    def is_leader(self) -> bool:
        return self._valid_until is not None and self._clock.monotonic() < self._valid_until

    def check(self) -> None:
        """Raises NotLeaderError unless this process may write now."""
        if not self.is_leader:
            raise NotLeaderError("this process does not hold the lease")

    async def acquire(self) -> None:
        """Returns once this process is the leader."""
        while True:
            try:
                async with asyncio.timeout(self._renew_deadline):
                    if await self._try():
                        log.info("leading as %s", self.identity)
                        self._led.set()
                        return
            except (KubeError, TimeoutError) as error:
                log.warning("lease %s: %s", self.key, str(error) or type(error).__name__)
            pause = self._interval * (1 + 0.2 * self._jitter())
            expires_in = self._expires_at - self._clock.monotonic()
            await asyncio.sleep(expires_in if 0 < expires_in < pause else pause)

    async def leading(self) -> None:
        """Returns once `acquire` has succeeded, in whichever task it was called."""
        await self._led.wait()

    async def hold(self) -> None:
        """Renews the lease until it is lost, then raises NotLeaderError."""
        while True:
            await asyncio.sleep(self._interval)
            self.check()
            assert self._valid_until is not None
            try:
                async with asyncio.timeout(self._valid_until - self._clock.monotonic()):
                    if not await self._renew():
                        self._valid_until = None
                        raise NotLeaderError("another process took the lease")
            except NotLeaderError:
                raise
            except (KubeError, TimeoutError) as error:
                log.warning("lease %s not renewed: %s", self.key, str(error) or type(error).__name__)

    async def release(self) -> None:
        """Gives the lease up, so that another process can lead at once.

        All writes of this process must have ended before: the next leader may write immediately.
        """
        if not self.is_leader:
            return
        self._valid_until = None  # before the request: the fence must be closed when the lease becomes free
        spec = {"holderIdentity": None, "leaseDurationSeconds": 1, "renewTime": self._time()}
        try:
            async with asyncio.timeout(self._interval * 2):
                # A live read: a renewal whose response was lost may have changed the resourceVersion.
                self._lease = await self._api.get(LEASE, self.key)
                if (self._lease.get("spec") or {}).get("holderIdentity") == self.identity:
                    await self._api.patch(LEASE, self.key, self._body(spec))
                    log.info("lease released")
        except (KubeError, TimeoutError) as error:
            log.warning("lease not released, it will expire: %s", str(error) or type(error).__name__)

    # --- requests ------------------------------------------------------------------------------------

    async def _try(self) -> bool:
        """Takes the lease if it is free or expired; returns True if it did."""
        started = self._clock.monotonic()
        try:
            lease = await self._api.get(LEASE, self.key)
        except NotFoundError:
            return await self._create(started)
        self._lease = lease
        spec = lease.get("spec") or {}
        if spec != self._seen:
            self._seen, self._seen_at = spec, self._clock.monotonic()
        holder = spec.get("holderIdentity")
        if holder and holder != self.identity:
            lifetime = float(spec.get("leaseDurationSeconds") or self._duration)
            self._expires_at = self._seen_at + lifetime
            if self._clock.monotonic() < self._expires_at:
                return False
        transitions = int(spec.get("leaseTransitions") or 0) + (holder != self.identity)
        taken = {"acquireTime": self._time(), "leaseTransitions": transitions}
        try:
            await self._write(taken, started)
        except ConflictError:
            return False
        return True

    async def _create(self, started: float) -> bool:
        body = {
            "apiVersion": LEASE.api_version,
            "kind": LEASE.kind,
            "metadata": {"namespace": self.key.namespace, "name": self.key.name},
            "spec": self._claim() | {"acquireTime": self._time(), "leaseTransitions": 0},
        }
        try:
            self._lease = await self._api.create(LEASE, body)
        except AlreadyExistsError:
            return False
        self._valid_until = started + self._renew_deadline
        return True

    async def _renew(self) -> bool:
        """Extends the lease; returns False if another process holds it."""
        started = self._clock.monotonic()
        try:
            await self._write({}, started)
        except ConflictError:
            # The conflict is a write of another leader, of a person, or our own whose response was lost.
            lease = await self._api.get(LEASE, self.key)
            if (lease.get("spec") or {}).get("holderIdentity") != self.identity:
                return False
            self._lease = lease
            await self._write({}, started)
        except NotFoundError:
            return await self._create(started)  # the Lease was deleted by hand
        return True

    async def _write(self, extra: dict[str, Any], started: float) -> None:
        self._lease = await self._api.patch(LEASE, self.key, self._body(self._claim() | extra))
        # Counted from before the request, because the API server may have stored the renewal that early.
        self._valid_until = started + self._renew_deadline

    def _claim(self) -> dict[str, Any]:
        return {
            "holderIdentity": self.identity,
            "leaseDurationSeconds": round(self._duration),
            "renewTime": self._time(),
        }

    def _body(self, spec: dict[str, Any]) -> Obj:
        assert self._lease is not None
        return {"metadata": {"resourceVersion": self._lease["metadata"]["resourceVersion"]}, "spec": spec}

    def _time(self) -> str:
        return micro_time(self._clock.now())


def micro_time(moment: datetime) -> str:
    """Returns the time in the format of metav1.MicroTime."""
    return moment.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")
