"""Stores what was announced of the results, and to which receiver."""

from __future__ import annotations

from collections import Counter
from datetime import datetime, timedelta
from typing import Any, Final

from sqlalchemy import delete, func, insert, select, text, update

from fournos.history.alerts.due import SETTLED, Announced, Delivery, News, NewsVerdict, under_way
from fournos.history.store.schema import announcements
from fournos.history.store.store import HistoryStore
from fournos.history.store.text import indexed

KEPT: Final = timedelta(days=365)
"""Announcements are stored longer than any verdict is announced."""


class Announcements:
    """The announcements in a store."""

    def __init__(self, store: HistoryStore) -> None:
        self._store = store

    async def of(self, namespace_uid: str, fingerprint: str, receiver: str) -> list[Announced]:
        """Returns what was announced of a fingerprint to a receiver."""
        table = announcements
        statement = select(table).where(
            table.c.namespace_uid == indexed(namespace_uid),
            table.c.fingerprint == indexed(fingerprint),
            table.c.receiver == receiver,
        )
        async with self._store.reading() as connection:
            rows = (await connection.execute(statement)).all()
        return [
            Announced(
                row.series,
                row.run,
                row.at,
                row.rises,
                NewsVerdict(row.state),
                Delivery(row.delivery),
                row.tries,
                row.made_at,
            )
            for row in rows
        ]

    async def counts(
        self,
        namespaces: tuple[str, ...] | None,
        namespace: str,
        since: datetime,
        *,
        cluster: str = "",
    ) -> dict[str, Counter[Delivery]]:
        """Returns by receiver how many messages of a namespace ended how, of those begun since that time.

        `namespaces` are the UIDs of those that may be read, None for all; `cluster` is "" for all.
        """
        table = announcements
        place = f"{cluster or '%'}/{namespace}/%"  # as in `Identity.text`
        statement = (
            select(table.c.receiver, table.c.delivery, func.count(table.c.message.distinct()))
            .where(table.c.made_at >= since, table.c.run.like(place))
            .group_by(table.c.receiver, table.c.delivery)
        )
        if namespaces is not None:
            statement = statement.where(table.c.namespace_uid.in_([indexed(uid) for uid in namespaces]))
        counts: dict[str, Counter[Delivery]] = {}
        async with self._store.reading() as connection:
            for receiver, delivery, number in await connection.execute(statement):
                counts.setdefault(receiver, Counter())[Delivery(delivery)] += number
        return counts

    async def begin(self, news: News, receiver: str, now: datetime) -> bool:
        """Stores that a message is being sent.

        Returns False if it was settled, a crash has cut it off twice, or another process is sending it.
        """
        table = announcements
        same = (table.c.message == news.id, table.c.receiver == receiver)
        async with self._store.writing() as connection:
            if self._store.database.dialect == "postgresql":
                # Another process may be about to insert the same rows, which no read would show.
                await connection.execute(text("LOCK TABLE announcements IN SHARE ROW EXCLUSIVE MODE"))
            statement = select(table.c.delivery, table.c.tries, table.c.made_at).where(*same).limit(1)
            earlier = (await connection.execute(statement)).first()
            if earlier and (
                Delivery(earlier.delivery) in SETTLED
                or under_way(Delivery(earlier.delivery), earlier.made_at, now)
            ):
                return False
            cut_off = earlier is not None and earlier.delivery == Delivery.SENDING
            common = {
                "namespace_uid": indexed(news.namespace_uid),
                "fingerprint": indexed(news.fingerprint),
                "receiver": receiver,
                "message": news.id,
                "delivery": str(Delivery.RESENDING if cut_off else Delivery.SENDING),
                "tries": earlier.tries + 1 if earlier else 1,
                "made_at": now,
            }
            rows: list[dict[str, Any]] = [
                {
                    "series": indexed(mark.series),
                    "run": indexed(mark.run),
                    "at": mark.at,
                    "rises": mark.rises,
                    "state": str(mark.state),
                    **common,
                }
                for mark in news.marks
            ]
            await connection.execute(delete(table).where(*same))
            await connection.execute(insert(table), rows)
        return True

    async def end(self, news: News, receiver: str, delivery: Delivery) -> None:
        """Stores the result of sending a message."""
        table = announcements
        same = (table.c.message == news.id, table.c.receiver == receiver)
        async with self._store.writing() as connection:
            await connection.execute(update(table).where(*same).values(delivery=str(delivery)))

    async def expire(self, now: datetime) -> None:
        """Deletes announcements that are older than KEPT."""
        async with self._store.writing() as connection:
            await connection.execute(delete(announcements).where(announcements.c.made_at < now - KEPT))
