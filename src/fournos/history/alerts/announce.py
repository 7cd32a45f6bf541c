"""Announces confirmed changes: as an Event of the job, and to a webhook.

A message is remembered after it was taken, or refused for good.  A recorder that ends in between sends it
again: at least once, with the same id.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Sequence
from datetime import timedelta
from pathlib import Path
from typing import Any, Final

import aiohttp
from sqlalchemy import delete, select
from yarl import URL

from fournos.engine.kube.api import Api
from fournos.engine.kube.errors import AlreadyExistsError, KubeError, NotFoundError, TransientError
from fournos.engine.kube.resource import EVENT, Obj, Resource
from fournos.engine.runtime.clock import Clock
from fournos.history.alerts.news import Announced, News, NewsContext, body, due, event
from fournos.history.compare.differences import causes
from fournos.history.records import Document, Identity, Run
from fournos.history.regressions.review import SeriesReview
from fournos.history.store.database import INSERT, StoreUnavailableError
from fournos.history.store.rows import indexed
from fournos.history.store.runs import HistoryStore
from fournos.history.store.schema import announcements

log = logging.getLogger(__name__)

MOST: Final = 20
"""Messages of one look about one namespace; the others are sent after the next."""
KEPT: Final = timedelta(days=365)
"""What was announced is remembered longer than any verdict is announced."""
LIMIT: Final = 10.0
"""Seconds for one request."""
PAUSES: Final = (1.0, 5.0)
"""Seconds before the second and the third request."""
_LARGEST: Final = 64 * 1024
_LATER: Final = (408, 425, 429)

Find = Callable[[Run], tuple[Resource, Obj] | None]
"""Returns the object of a run; None if it does not exist any more."""


class NotSentError(Exception):
    """A message was not taken.  Its text has no secret."""

    def __init__(self, reason: str, *, down: bool) -> None:
        """`down`: the receiver takes no message now."""
        super().__init__(reason)
        self.down = down


class Webhook:
    """Sends messages to the URL in a file, which is read each time, as a Secret may be made or renewed.

    The URL is a secret: no log and no error has it.
    """

    def __init__(
        self, url_file: str, *, page: str = "", pauses: Sequence[float] = PAUSES, limit: float = LIMIT
    ) -> None:
        """`page` is the address of the page, to which messages link."""
        self._file = Path(url_file)
        self._page = page
        self._pauses = pauses
        self._limit = aiohttp.ClientTimeout(total=limit)

    @property
    def there(self) -> bool:
        """False: nothing is sent, as nobody has made the file."""
        return self._file.exists()

    async def send(self, news: News, context: NewsContext) -> None:
        """Sends a message, and again after each of the pauses while the receiver is down.

        Raises NotSentError.
        """
        url, content = self._url(), body(news, context, page=self._page)
        for pause in (*self._pauses, None):
            try:
                await self._post(url, content)
                return
            except NotSentError as error:
                if pause is None or not error.down:
                    raise
                await asyncio.sleep(pause)

    def _url(self) -> URL:
        try:
            with self._file.open("rb") as file:
                url = URL(file.read(_LARGEST).decode().strip(), encoded=True)
        except OSError as error:
            raise NotSentError(f"{error.filename}: {error.strerror}", down=True) from None
        except ValueError:
            url = URL()
        if url.scheme not in ("http", "https") or not url.host:
            text = "the file of FOURNOS_HISTORY_WEBHOOK_URL_FILE has no URL of http or https"
            raise NotSentError(text, down=True)
        return url

    async def _post(self, url: URL, content: bytes) -> None:
        headers = {"Content-Type": "application/json", "User-Agent": "fournos"}
        try:
            # The answer is not read, and a redirect not followed: the message is for this server.
            async with (
                aiohttp.ClientSession(timeout=self._limit, cookie_jar=aiohttp.DummyCookieJar()) as session,
                session.post(url, data=content, headers=headers, allow_redirects=False) as answer,
            ):
                status = answer.status
        except (aiohttp.ClientError, TimeoutError, OSError, ValueError) as error:
            raise NotSentError(type(error).__name__, down=True) from None  # the text has the URL or its host
        if not 200 <= status < 300:
            raise NotSentError(f"status {status}", down=status >= 500 or status in _LATER)


class Events:
    """Writes Events about the objects of runs.

    The name of an Event follows from the message, so that none is created twice.
    """

    def __init__(self, api: Api, find: Find, clock: Clock, instance: str) -> None:
        self._api = api
        self._find = find
        self._clock = clock
        self._instance = instance

    async def write(self, news: News, context: NewsContext) -> None:
        """Creates the Event, unless the object is gone.  Raises NotSentError."""
        target = self._find(context.run) if context.run else None
        if target is None:
            return
        obj = event(news, context, *target, self._clock.now(), self._instance)
        try:
            await self._api.create(EVENT, obj)
        except (AlreadyExistsError, NotFoundError):
            return
        except KubeError as error:
            raise NotSentError(error.message, down=isinstance(error, TransientError)) from error


class Announcer:
    """Collects the messages of one look, then sends them."""

    def __init__(
        self,
        clock: Clock,
        events: Events,
        webhook: Webhook | None = None,
        count: Callable[[str], None] = lambda delivery: None,
    ) -> None:
        """`count` is called with Sent or Failed for each message to the webhook."""
        self._clock = clock
        self._events = events
        self._webhook = webhook
        self._count = count
        self._due: dict[str, dict[str, News]] = {}
        """By the UID of the namespace, and by the id of the message."""

    async def look(self, store: HistoryStore, review: SeriesReview) -> None:
        """Adds what is due of one fingerprint."""
        messages = self._due.setdefault(review.run.namespace_uid, {})
        if len(messages) < MOST:
            known = await announced(store, review.run)
            messages |= {news.id: news for news in due(review, known, self._clock.now())}

    async def announce(self, store: HistoryStore, skipped: Callable[[str], None] = lambda task: None) -> None:
        """Sends what is due; the rest is left to the next look when a receiver is down.

        A message that cannot be made takes no other with it: `skipped` is called.
        """
        waiting = [news for each in self._due.values() for news in list(each.values())[:MOST]]
        self._due = {}
        await store.execute(delete(announcements).where(announcements.c.made_at < self._clock.now() - KEPT))
        for news in waiting:
            try:
                await self._send(news, await _context(store, news))
            except NotSentError as error:
                log.warning("no message about %s: %s", news.run, error)
                if error.down:
                    break
            except StoreUnavailableError:
                raise
            except Exception:
                log.exception("no message about %s", news.run)
                skipped("announce")
                continue
            await _remember(store, news, self._clock)

    async def _send(self, news: News, context: NewsContext) -> None:
        await self._events.write(news, context)
        if self._webhook is None or not self._webhook.there:
            return
        try:
            await self._webhook.send(news, context)
        except NotSentError:
            self._count("Failed")
            raise
        self._count("Sent")


async def announced(store: HistoryStore, run: Run) -> list[Announced]:
    """Returns what was announced of the fingerprint of a run."""
    table = announcements
    statement = select(table).where(
        table.c.namespace_uid == indexed(run.namespace_uid), table.c.fingerprint == indexed(run.fingerprint)
    )
    return [
        Announced(row.series, row.run, row.at, row.rises, row.made_at) for row in await store.rows(statement)
    ]


async def _remember(store: HistoryStore, news: News, clock: Clock) -> None:
    rows: list[dict[str, Any]] = [
        {
            "namespace_uid": indexed(news.namespace_uid),
            "fingerprint": indexed(news.fingerprint),
            "series": indexed(change.series),
            "run": indexed(change.run),
            "rises": change.rises,
            "at": change.at,
            "made_at": clock.now(),
        }
        for change in news.changes
    ]
    insert = INSERT[store.database.dialect](announcements).on_conflict_do_nothing()
    await store.execute(insert.values(rows))


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
