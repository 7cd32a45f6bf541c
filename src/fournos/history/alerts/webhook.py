"""Sends the body of a message to a URL in a file.  The URL is a secret: no log and no error has it."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from pathlib import Path
from typing import Final

import aiohttp
from yarl import URL

from fournos.engine.runtime.clock import Clock, SystemClock
from fournos.history.alerts.body import body, sample, signature
from fournos.history.alerts.due import News
from fournos.history.alerts.receiver import NewsContext, SendOutcome
from fournos.history.alerts.routes import WebhookRoute, chosen, routes
from fournos.history.records import Run
from fournos.history.settings import HistorySettings

LIMIT: Final = 10.0
"""Seconds for one request."""
PAUSES: Final = (1.0, 5.0)
"""Seconds before the second and the third request."""
SIGNATURE: Final = "X-Fournos-Signature"
_LARGEST: Final = 64 * 1024
_LATER: Final = (408, 425, 429)


class WebhookReceiver:
    """The receiver `webhook`.

    Both files are read each time, because a Secret may be made or renewed: without the first nothing is sent,
    without the second messages have no signature.  `page` is the address of the page, to which messages link.
    """

    name: Final = "webhook"

    def __init__(
        self,
        url_file: str,
        secret_file: str,
        clock: Clock,
        *,
        pauses: Sequence[float] = PAUSES,
        limit: float = LIMIT,
        page: str = "",
    ) -> None:
        self._url_file = url_file
        self._secret_file = secret_file
        self._clock = clock
        self._pauses = pauses
        self._limit = limit
        self._page = page

    def takes(self, news: News) -> bool:
        return Path(self._url_file).exists()

    async def send(self, news: News, context: NewsContext) -> SendOutcome:
        return await self.post(body(news, context, page=self._page), context.run)

    async def post(self, content: bytes, run: Run | None = None) -> SendOutcome:
        """Sends to the URL for messages about this run."""
        try:
            webhook_routes, secret = self._files()
        except (OSError, ValueError) as error:
            return SendOutcome(_reason(error), down=True)
        route = chosen(webhook_routes, run)
        return await self._insist(route.url, secret, content) if route else SendOutcome(gone=True)

    async def test(self) -> list[tuple[str, SendOutcome]]:
        """Sends a test message to each URL; returns the selector and the outcome of each."""
        try:
            webhook_routes, secret = self._files()
        except (OSError, ValueError) as error:
            return [("", SendOutcome(_reason(error), down=True))]
        return [(route.selector, await self._insist(route.url, secret, sample())) for route in webhook_routes]

    def _files(self) -> tuple[list[WebhookRoute], bytes]:
        """Raises OSError or ValueError."""
        return routes(_read(self._url_file).decode()), _key(self._secret_file)

    async def _insist(self, url: URL, secret: bytes, content: bytes) -> SendOutcome:
        """Sends once, and again after each of the pauses while the receiver is down."""
        outcome = await self._post(url, secret, content)
        for pause in self._pauses:
            if not outcome.down:
                break
            await asyncio.sleep(pause)
            outcome = await self._post(url, secret, content)
        return outcome

    async def _post(self, url: URL, secret: bytes, content: bytes) -> SendOutcome:
        headers = {"Content-Type": "application/json", "User-Agent": "fournos"}
        if secret:
            headers[SIGNATURE] = signature(secret, int(self._clock.now().timestamp()), content)
        limit = aiohttp.ClientTimeout(total=self._limit)
        try:
            # The answer is not read, and a redirect not followed: the message is for this server.
            async with (
                aiohttp.ClientSession(timeout=limit, cookie_jar=aiohttp.DummyCookieJar()) as session,
                session.post(url, data=content, headers=headers, allow_redirects=False) as answer,
            ):
                return _outcome(answer.status)
        except (aiohttp.ClientError, TimeoutError, OSError, ValueError) as error:
            return SendOutcome(type(error).__name__, down=True)  # their texts have the URL or its host


def webhook_of(settings: HistorySettings, clock: Clock | None = None) -> WebhookReceiver:
    """Returns the receiver of the settings; `clock` is the system's by default."""
    files = settings.webhook_url_file, settings.webhook_secret_file
    return WebhookReceiver(*files, clock or SystemClock(), page=settings.page_url)


def _outcome(status: int) -> SendOutcome:
    if 200 <= status < 300:
        return SendOutcome()
    return SendOutcome(f"status {status}", down=status >= 500 or status in _LATER)


def _key(path: str) -> bytes:
    """Returns the key of the signature; nothing without a file."""
    try:
        return _read(path) if path else b""
    except FileNotFoundError:
        return b""


def _read(path: str) -> bytes:
    with Path(path).open("rb") as file:
        content = file.read(_LARGEST).strip()
    if not content:
        raise ValueError("a file of the webhook is empty")
    return content


def _reason(error: OSError | ValueError) -> str:
    """The name of a file is not a secret."""
    return f"{error.filename}: {error.strerror}" if isinstance(error, OSError) else str(error)
