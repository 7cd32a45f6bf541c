"""Announces verdicts: stored before they are sent, so that each is sent once, or twice after a crash."""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable
from typing import Final

from fournos.history.alerts.body import Context, body
from fournos.history.alerts.due import Delivery, Judged, News, due
from fournos.history.alerts.webhook import Outcome
from fournos.history.compare.differences import causes
from fournos.history.records import Document, Identity
from fournos.history.store.announcements import Announcements
from fournos.history.store.store import Store
from fournos.runtime.clock import Clock

log = logging.getLogger(__name__)

WEBHOOK: Final = "webhook"
"""The receiver, as it is stored."""
MOST: Final = 20
"""Messages of one look; the others are sent after the next."""


class Announcer:
    """Collects the messages of one look, then sends them."""

    def __init__(
        self,
        send: Callable[[bytes], Awaitable[Outcome]],
        clock: Clock,
        count: Callable[[Delivery], None] = lambda delivery: None,
    ) -> None:
        self._send = send
        self._clock = clock
        self._count = count
        self._due: dict[str, News] = {}

    async def look(self, store: Store, judged: Judged) -> None:
        """Adds what is due of one fingerprint."""
        if len(self._due) < MOST:
            known = await Announcements(store).of(judged.namespace_uid, judged.fingerprint, WEBHOOK)
            self._due |= {one.id: one for one in due(judged, known, self._clock.now())}

    async def announce(self, store: Store) -> None:
        """Sends what is due; the rest is left to the next look when the receiver is down."""
        waiting, self._due = list(self._due.values())[:MOST], {}
        table = Announcements(store)
        await table.expire(self._clock.now())
        for news in waiting:
            content = body(news, await _context(store, news))
            if not await table.begin(news, WEBHOOK, self._clock.now()):
                continue
            outcome = await self._send(content)
            delivery = Delivery.FAILED if outcome.failure else Delivery.SENT
            await table.end(news, WEBHOOK, delivery)
            self._count(delivery)
            if outcome.failure:
                log.warning("the webhook took no message about %s: %s", news.run, outcome.failure)
            if outcome.down:
                break


async def _context(store: Store, news: News) -> Context:
    run, before = _identity(news.run), _identity(news.before)
    documents = [await store.document(one, Document.PROVENANCE) or {} if one else {} for one in (before, run)]
    return Context(
        await store.get(run) if run else None,
        await store.get(before) if before else None,
        causes(*documents) if all(documents) else (),
    )


def _identity(text: str) -> Identity | None:
    """The identity of which `Identity.text` is the text."""
    parts = text.split("/", 2)
    return Identity(*parts) if len(parts) == 3 else None
