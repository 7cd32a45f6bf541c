"""Announces verdicts: stored before they are sent, so that each is sent once, or twice after a crash."""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Final

from fournos.engine.runtime.clock import Clock
from fournos.history.alerts.due import Delivery, News, due
from fournos.history.alerts.receiver import NewsContext, Receiver
from fournos.history.compare.differences import causes
from fournos.history.records import Document, Identity
from fournos.history.regressions.review import SeriesReview
from fournos.history.store.announcements import Announcements
from fournos.history.store.store import HistoryStore

log = logging.getLogger(__name__)

MOST: Final = 20
"""Messages of one look; the others are sent after the next."""


class Announcer:
    """Collects the messages of one look for one receiver, then sends them."""

    def __init__(
        self,
        receiver: Receiver,
        clock: Clock,
        count: Callable[[Delivery], None] = lambda delivery: None,
    ) -> None:
        self._receiver = receiver
        self._clock = clock
        self._count = count
        self._due: dict[str, News] = {}

    async def look(self, store: HistoryStore, review: SeriesReview) -> None:
        """Adds what is due of one fingerprint."""
        if len(self._due) < MOST:
            name = self._receiver.name
            run = review.run
            announced = await Announcements(store).of(run.namespace_uid, run.fingerprint, name)
            found = due(review, announced, self._clock.now())
            self._due |= {one.id: one for one in found if self._receiver.takes(one)}

    async def announce(self, store: HistoryStore) -> None:
        """Sends what is due; the rest is left to the next look when the receiver is down."""
        waiting, self._due = list(self._due.values())[:MOST], {}
        table, receiver = Announcements(store), self._receiver
        await table.expire(self._clock.now())
        for news in waiting:
            context = await _context(store, news)
            if not await table.begin(news, receiver.name, self._clock.now()):
                continue
            outcome = await receiver.send(news, context)
            await table.end(news, receiver.name, outcome.delivery)
            self._count(outcome.delivery)
            if outcome.failure:
                log.warning("%s: no message about %s: %s", receiver.name, news.run, outcome.failure)
            if outcome.down:
                break


async def _context(store: HistoryStore, news: News) -> NewsContext:
    identities = Identity.of(news.before), Identity.of(news.run)
    before, after = [
        await store.document(identity, Document.PROVENANCE) or {} if identity else {}
        for identity in identities
    ]
    previous, began = [await store.get(identity) if identity else None for identity in identities]
    likely_causes: tuple[str, ...] = ()
    if began and previous and began.target != previous.target:
        likely_causes = (f"cluster {previous.target} -> {began.target}",)
    if began and previous and before and after:
        likely_causes += causes(before, after, (previous.name, began.name))
    return NewsContext(began, previous, likely_causes)
