"""The health endpoints for the kubelet, /healthz and /readyz; for development also plain /metrics."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable

from aiohttp import web

from fournos.engine.runtime.clock import Clock
from fournos.engine.runtime.listening import listening
from fournos.engine.runtime.metrics import CONTENT_TYPE, Metrics
from fournos.engine.runtime.metrics_table import LOOP_LAG_SECONDS

MAX_LAG = 10.0
"""Seconds of delay of the event loop from which the process counts as hung."""
TICK = 1.0

Problems = Callable[[], Iterable[str]]
"""Returns the present problems, one line each; nothing if there is none."""


class Health:
    """The HTTP server of the health endpoints.  `run` serves until cancelled."""

    def __init__(
        self,
        clock: Clock,
        metrics: Metrics,
        *,
        alive: Problems = tuple,
        ready: Problems = tuple,
        remarks: Problems = tuple,
        plain: bool = False,
        refresh: Callable[[], None] = lambda: None,
    ) -> None:
        """`remarks` are added to either response and never change its status.

        `plain`: /metrics is served without authentication on this port; `refresh` is called before.
        """
        self._clock = clock
        self._metrics = metrics
        self._alive = alive
        self._ready = ready
        self._remarks = remarks
        self._plain = plain
        self._refresh = refresh
        self._lag = 0.0

    def app(self) -> web.Application:
        app = web.Application()
        app.router.add_get("/healthz", self._healthz)
        app.router.add_get("/readyz", self._readyz)
        if self._plain:
            app.router.add_get("/metrics", self._render)
        return app

    async def run(self, *, port: int, host: str = "") -> None:
        """Serves until cancelled.  Raises OSError if the port is in use."""
        async with listening(self.app(), host, port, closing=TICK):
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
