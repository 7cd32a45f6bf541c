"""The certificate of an HTTPS server, renewed without closing connections."""

from __future__ import annotations

import asyncio
import ssl

from fournos.engine.kube.tls import server_context, show
from fournos.engine.runtime.webhook.certificates import Pair


class ServingCertificate:
    """The TLS context of a server, created with the first certificate."""

    def __init__(self) -> None:
        self._context: ssl.SSLContext | None = None
        self._there = asyncio.Event()

    def show(self, pair: Pair) -> None:
        """Uses this certificate for new connections; open connections continue."""
        if self._context is None:
            self._context = server_context(pair.certificate, pair.key)
        else:
            show(self._context, pair.certificate, pair.key)
        self._there.set()

    async def context(self) -> ssl.SSLContext:
        """Returns the TLS context once there is a first certificate."""
        await self._there.wait()
        assert self._context is not None
        return self._context
