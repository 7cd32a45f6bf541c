"""The endpoints of every process: /healthz and /readyz for the kubelet, /metrics for Prometheus."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable
from typing import Final

from aiohttp import web

from fournos.engine.runtime.clock import Clock
from fournos.engine.runtime.listening import listening
from fournos.engine.runtime.metrics import CONTENT_TYPE, Metrics
from fournos.engine.runtime.metrics_table import LOOP_LAG_SECONDS

MAX_LAG: Final = 10.0
"""Seconds of delay of the event loop from which the process counts as hung."""
TICK: Final = 1.0

Problems = Callable[[], Iterable[str]]
"""Returns the present problems, one line each; nothing if there is none."""


class Health:
    """The HTTP servers of the endpoints.  `run` serves until cancelled."""

    def __init__(
        self,
        clock: Clock,
        metrics: Metrics,
        *,
        alive: Problems = tuple,
        ready: Problems = tuple,
        remarks: Problems = tuple,
        refresh: Callable[[], None] = lambda: None,
    ) -> None:
        """`remarks` are added to either response and never change its status.

        `refresh` is called before metrics are read.
        """
        self._clock = clock
        self._metrics = metrics
        self._alive = alive
        self._ready = ready
        self._remarks = remarks
        self._refresh = refresh
        self._lag = 0.0

    def app(self, *, metrics: bool = True) -> web.Application:
        """The application of the health endpoints, with or without /metrics."""
        app = web.Application()
        app.router.add_get("/healthz", self._healthz)
        app.router.add_get("/readyz", self._readyz)
        if metrics:
            app.router.add_get("/metrics", self._render)
        return app

    async def run(self, *, port: int, metrics_port: int = 0, host: str = "") -> None:
        """Serves until cancelled.  `metrics_port` 0: the same port.  Raises OSError if a port is in use."""
        async with listening(self.app(metrics=not metrics_port), host, port, closing=TICK):
            if not metrics_port:
                await self._tick()
            scraped = web.Application()
            scraped.router.add_get("/metrics", self._render)
            async with listening(scraped, host, metrics_port, closing=TICK):
                await self._tick()

    async def _tick(self) -> None:
        while True:
            before = self._clock.monotonic()
            await asyncio.sleep(TICK)
            self._lag = max(0.0, self._clock.monotonic() - before - TICK)
            self._metrics.set(LOOP_LAG_SECONDS, self._lag)

    async def _healthz(self, _request: web.Request) -> web.Response:
        late = [f"the event loop was held up for {self._lag:.1f} s"] if self._lag > MAX_LAG else []
        return self._response([*late, *self._alive()])

    async def _readyz(self, _request: web.Request) -> web.Response:
        return self._response(list(self._ready()))

    def _response(self, problems: list[str]) -> web.Response:
        lines = dict.fromkeys([*(problems or ["ok"]), *self._remarks()])
        return web.Response(status=503 if problems else 200, text="\n".join(lines) + "\n")

    async def _render(self, _request: web.Request) -> web.Response:
        self._refresh()
        return web.Response(body=self._metrics.render(), headers={"Content-Type": CONTENT_TYPE})
