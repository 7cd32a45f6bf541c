"""The HTTPS server of /metrics."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Final

from aiohttp import web

from fournos.engine.runtime.listening import listening
from fournos.engine.runtime.metrics import CONTENT_TYPE, Metrics
from fournos.engine.runtime.metrics_server.authorizer import PATH, Authorizer, ScrapeVerdict
from fournos.engine.runtime.serving_certificate import ServingCertificate

_CLOSING: Final = 5.0
"""Seconds that requests under way have to finish at the end."""
_MESSAGES: Final = {
    ScrapeVerdict.UNKNOWN: "a bearer token of this cluster is needed\n",
    ScrapeVerdict.FORBIDDEN: "the token's user lacks the right to get the nonResourceURL /metrics\n",
    ScrapeVerdict.TOO_MANY: "too many tokens are being reviewed\n",
    ScrapeVerdict.UNSURE: "the API server cannot review the token now; see the operator's log\n",
}
_HEADERS: Final = {
    ScrapeVerdict.UNKNOWN: {"WWW-Authenticate": "Bearer"},
    ScrapeVerdict.TOO_MANY: {"Retry-After": "1"},
}


class MetricsServer:
    """The server of /metrics.  `run` serves until cancelled, beginning with the first certificate."""

    def __init__(
        self, authorizer: Authorizer, metrics: Metrics, *, refresh: Callable[[], None] = lambda: None
    ) -> None:
        """`refresh` is called before metrics are read."""
        self._authorizer = authorizer
        self._metrics = metrics
        self._refresh = refresh
        self.certificate = ServingCertificate()

    def app(self) -> web.Application:
        app = web.Application(client_max_size=1024)
        app.router.add_get(PATH, self._answer)
        return app

    async def run(self, *, port: int, host: str = "") -> None:
        """Serves until cancelled.  Raises OSError if the port is in use."""
        context = await self.certificate.context()
        async with listening(self.app(), host, port, closing=_CLOSING, tls=context):
            await asyncio.Event().wait()

    async def _answer(self, request: web.Request) -> web.Response:
        header = request.headers.get("Authorization", "")
        verdict = await self._authorizer.authorize(header, address=request.remote or "")
        if verdict is not ScrapeVerdict.ALLOWED:
            return web.Response(status=verdict, text=_MESSAGES[verdict], headers=_HEADERS.get(verdict))
        self._refresh()
        return web.Response(body=self._metrics.render(), headers={"Content-Type": CONTENT_TYPE})
