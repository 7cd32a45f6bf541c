"""Rotates the certificate of /metrics, on every replica."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Sequence
from datetime import datetime, timedelta
from typing import Final

from fournos.kube.api import Api
from fournos.kube.errors import ConflictError, KubeError
from fournos.kube.limiter import Backoff
from fournos.kube.resource import Key
from fournos.runtime.clock import Clock
from fournos.runtime.metrics import Metrics
from fournos.runtime.metrics_table import METRICS_CERTIFICATE_END_SECONDS
from fournos.runtime.webhook.certificates import Kept, Pair, Terms, next_look
from fournos.runtime.webhook.secret import CertificateSecret

log = logging.getLogger(__name__)

TERMS: Final = Terms(settle=timedelta(hours=1))
"""Prometheus receives the next authority from its operator, which takes longer than an API server's watch."""
LOOK: Final = 600.0
"""Seconds after which the Secret is read again, because another replica may have rotated the certificate."""


class CertRotator:
    """Rotates the certificate in its Secret and serves the current one."""

    def __init__(
        self,
        api: Api,
        secret: Key,
        *,
        hosts: Sequence[str],
        clock: Clock,
        metrics: Metrics,
        show: Callable[[Pair], None],
        terms: Terms = TERMS,
    ) -> None:
        """`show(pair)` is called with each certificate to serve from now on."""
        self._secret = CertificateSecret(api, secret, hosts=hosts, terms=terms, clock=clock, bundled=True)
        self._key = secret
        self._terms = terms
        self._clock = clock
        self._metrics = metrics
        self._show = show
        self._shown: Pair | None = None
        self._carried: tuple[bytes, datetime] | None = None
        """The next authority, and the time since which this process has seen it in the Secret."""
        self._problem = ""

    async def run(self) -> None:
        """Runs until cancelled."""
        backoff = Backoff()
        while True:
            try:
                kept = await self._secret.turned(self._carried_since)
                wait = self._present(kept)
                backoff.reset()
            except ConflictError:
                wait = backoff.next()
            except KubeError as error:
                wait = backoff.next()
                self._report(f"Secret {self._key.namespace}/{self._key.name}: {error.message}")
            await asyncio.sleep(wait)

    def _present(self, kept: Kept) -> float:
        """Serves the current certificate; returns the seconds until the next look."""
        assert kept.current is not None
        if kept.current != self._shown:
            self._show(kept.current)
            self._shown = kept.current
            self._metrics.set(METRICS_CERTIFICATE_END_SECONDS, kept.current.ends.timestamp())
            log.info("metrics: serving with a certificate that ends %s", kept.current.ends.isoformat())
        self._problem = ""
        now = self._clock.now()
        look = next_look(kept, terms=self._terms, carried_since=self._carried_since(kept, now))
        return min(LOOK, max(0.1, (look - now).total_seconds()))

    def _carried_since(self, kept: Kept, now: datetime) -> datetime | None:
        if kept.next is None:
            self._carried = None
            return None
        if self._carried is None or self._carried[0] != kept.next.authority:
            self._carried = (kept.next.authority, now)
        return self._carried[1]

    def _report(self, problem: str) -> None:
        if problem != self._problem:
            log.warning("metrics: not served by https until the certificate can be kept: %s", problem)
        self._problem = problem
