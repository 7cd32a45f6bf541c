"""Rotates the serving certificate of an HTTPS server, on every replica.  Webhooks have their own rotation."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Sequence
from datetime import timedelta
from typing import Final

from fournos.engine.kube.api import Api
from fournos.engine.kube.errors import ConflictError, KubeError
from fournos.engine.kube.limiter import Backoff
from fournos.engine.kube.resource import Key
from fournos.engine.runtime.clock import Clock
from fournos.engine.runtime.webhook.certificates import Kept, Pair, Terms
from fournos.engine.runtime.webhook.secret import CertificateSecret

log = logging.getLogger(__name__)

TERMS: Final = Terms(settle=timedelta(hours=1))
"""Clients receive the next authority by other programs, which takes longer than an API server's watch."""
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
        name: str,
        show: Callable[[Pair], None],
        publish: Callable[[Kept], Awaitable[None]] | None = None,
        terms: Terms = TERMS,
    ) -> None:
        """`name` of the server begins its log lines.

        `show(pair)` is called with each certificate to serve from now on.  `publish(certificates)` is called
        before it, at each look: it gives the authorities to those who must trust them, and may raise
        KubeErrors.
        """
        self._secret = CertificateSecret(api, secret, hosts=hosts, terms=terms, clock=clock, bundled=True)
        self._key = secret
        self._name = name
        self._show = show
        self._publish = publish
        self._shown: Pair | None = None
        self._problem = ""

    async def run(self) -> None:
        """Runs until cancelled."""
        backoff = Backoff()
        while True:
            try:
                certificates = await self._secret.rotated()
                if self._publish is not None:
                    await self._publish(certificates)
                wait = self._present(certificates)
                backoff.reset()
            except ConflictError:
                wait = backoff.next()
            except KubeError as error:
                wait = backoff.next()
                self._report(f"Secret {self._key.namespace}/{self._key.name}: {error.message}")
            await asyncio.sleep(wait)

    def _present(self, certificates: Kept) -> float:
        """Serves the current certificate; returns the seconds until the next look."""
        assert certificates.current is not None
        if certificates.current != self._shown:
            self._show(certificates.current)
            self._shown = certificates.current
            ends = certificates.current.ends.isoformat()
            log.info("%s: serving with a certificate that ends %s", self._name, ends)
        self._problem = ""
        return min(LOOK, max(0.1, self._secret.next_look(certificates).total_seconds()))

    def _report(self, problem: str) -> None:
        if problem != self._problem:
            log.warning("%s: not served by https until the certificate can be kept: %s", self._name, problem)
        self._problem = problem
