"""The HTTPS server for admission requests: one path for each webhook."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import Final

import orjson
from aiohttp import web

from fournos.engine.api.values import parse_duration
from fournos.engine.kube.api import Api
from fournos.engine.runtime.certificates import Pair, ServingCertificate
from fournos.engine.runtime.listening import listening
from fournos.engine.runtime.metrics import WEBHOOK_REVIEW_SECONDS, WEBHOOK_REVIEWS, Metrics
from fournos.engine.runtime.webhook.review import GarbledError, Webhook, decide, parse, respond, verdict

log = logging.getLogger(__name__)

_LARGEST: Final = 16 * 2**20
"""Maximum bytes of a request: two objects, each as large as etcd accepts, with room to spare."""
_MARGIN: Final = 0.5
"""Seconds of the API server's timeout that are reserved for the response."""
_GOING: Final = 5.0
"""Seconds that requests under way have to finish at the end."""
_FOLLOWED: Final = 60.0
"""Seconds between two looks at the file of client authorities."""
LINGER: Final = 2.0
"""Seconds at the end in which each response closes its connection.

An API server that keeps a connection open would send its next request to a server that has just ended.
"""


class WebhookServer:
    """The webhook server.  `run` serves until cancelled, beginning with the first certificate."""

    def __init__(
        self,
        api: Api,
        webhooks: Sequence[Webhook],
        *,
        metrics: Metrics,
        linger: float = LINGER,
        clients: str = "",
    ) -> None:
        """`clients`: file of certificate authorities; a caller must present a client certificate of one of
        them.

        Raises ValueError if two webhooks have the same path or the same name.
        """
        for what in ("path", "name"):
            found = [getattr(webhook, what) for webhook in webhooks]
            if len(set(found)) != len(found):
                raise ValueError(f"two webhooks have the same {what}")
        self._api = api
        self._webhooks = webhooks
        self._metrics = metrics
        self._certificate = ServingCertificate()
        self._linger = linger
        self._clients = clients
        self._serving = False
        self._going = False

    def show(self, pair: Pair) -> None:
        """Serves with this certificate; open connections continue."""
        self._certificate.show(pair)

    def problems(self) -> Iterator[str]:
        if not self._serving:
            yield "webhooks: not serving yet"

    def app(self) -> web.Application:
        app = web.Application(client_max_size=_LARGEST)
        for webhook in self._webhooks:
            app.router.add_post(webhook.path, partial(self._answer, webhook))
        app.on_response_prepare.append(self._last)
        return app

    async def run(self, *, port: int) -> None:
        """Serves until cancelled.  OSError: the port is in use or the file of authorities is unreadable."""
        self._trust_clients()
        context = await self._certificate.context()
        async with listening(self.app(), "", port, closing=_GOING, tls=context):
            self._serving, self._going = True, False
            try:
                await self._follow_clients()
            finally:
                self._serving, self._going = False, True
                await asyncio.sleep(self._linger)

    async def _follow_clients(self) -> None:
        """Reads the file of authorities again from time to time: whoever mounted it may replace them."""
        while True:
            await asyncio.sleep(_FOLLOWED)
            try:
                self._trust_clients()
            except (OSError, ValueError) as error:
                log.warning("webhooks: the client authorities stay as they were: %s", error)

    def _trust_clients(self) -> None:
        if self._clients:
            self._certificate.trust(Path(self._clients).read_bytes(), required=True)

    async def _last(self, _: web.Request, response: web.StreamResponse) -> None:
        if self._going:
            response.headers["Connection"] = "close"
            response.force_close()

    async def _answer(self, webhook: Webhook, sent: web.Request) -> web.Response:
        started = asyncio.get_running_loop().time()
        outcome = "failed"
        try:
            uid, request = parse(await sent.read())
            seconds = max(_MARGIN, _patience(sent.query.get("timeout"), webhook.timeout) - _MARGIN)
            review = await decide(webhook, request, self._api, seconds=seconds)
            outcome = verdict(review)
            body = orjson.dumps(respond(uid, request, review))
            return web.Response(body=body, content_type="application/json")
        except GarbledError as error:
            outcome = "garbled"
            return web.Response(status=400, text=f"{error}\n")
        except (asyncio.CancelledError, web.HTTPException):
            raise
        except Exception:
            # The failure policy of the webhook decides whether the request is admitted.
            log.exception("webhook %s failed", webhook.name)
            return web.Response(status=500, text="the review failed; see the operator's log\n")
        finally:
            self._metrics.add(WEBHOOK_REVIEWS, webhook.name, outcome)
            spent = asyncio.get_running_loop().time() - started
            self._metrics.observe(WEBHOOK_REVIEW_SECONDS, spent, webhook.name)


def _patience(text: str | None, configured: int) -> float:
    """Returns the seconds that the API server waits, from the request or the configuration."""
    try:
        return parse_duration(text).total_seconds() if text else float(configured)
    except ValueError:
        return float(configured)
