"""The route of messages about results: how many reached their receivers."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta
from typing import TYPE_CHECKING, Final

from pydantic import Field

from fournos.history.alerts.due import Delivery
from fournos.history.api.authorization import Access
from fournos.history.api.parameters import Scoped
from fournos.history.api.routes import ApiCall, Route
from fournos.history.records import api_row
from fournos.history.store.announcements import Announcements

if TYPE_CHECKING:
    from fournos.history.api.service import HistoryService


@api_row
@dataclass(frozen=True, slots=True)
class ReceiverMessages:
    """The messages of a receiver."""

    receiver: str
    """webhook, or events."""
    sent: int
    failed: int
    """Those that the receiver did not take at the last try."""


class MessageFilter(Scoped):
    """Which messages are counted."""

    days: int = Field(7, ge=1, le=365, description="Those of the last so many days.")


async def count_messages(service: HistoryService, call: ApiCall) -> list[ReceiverMessages]:
    asked: MessageFilter = call.parameters
    since = service.now() - timedelta(days=asked.days)
    announcements, scope = Announcements(await service.store()), call.scope
    counts = await announcements.counts(scope.namespaces, call.namespace, since, cluster=scope.cluster)
    return [
        ReceiverMessages(
            receiver,
            by_delivery.get(Delivery.SENT, 0) + by_delivery.get(Delivery.RESENDING, 0),
            by_delivery.get(Delivery.FAILED, 0),
        )
        for receiver, by_delivery in sorted(counts.items())
    ]


ROUTES: Final = (
    Route(
        "GET",
        "/namespaces/{namespace}/messages",
        "countMessages",
        Access("list", "messages"),
        count_messages,
        list[ReceiverMessages],
        MessageFilter,
    ),
)
