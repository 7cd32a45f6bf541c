"""What announcements are sent to: an outgoing webhook, or the Events of the cluster."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from fournos.history.alerts.due import Delivery, News
from fournos.history.records import Run


@dataclass(frozen=True, slots=True)
class NewsContext:
    """The stored runs that a message is about; None if the row has expired."""

    run: Run | None
    before: Run | None = None
    causes: Sequence[str] = ()
    """What changed in the provenance between the two."""


@dataclass(frozen=True, slots=True)
class SendOutcome:
    """The result of sending a message."""

    failure: str = ""
    """Why it was not taken, without any secret; "" if it was."""
    down: bool = False
    """The receiver takes no message now."""
    gone: bool = False
    """What the message is about does not exist any more, or it is for nobody."""

    @property
    def delivery(self) -> Delivery:
        if self.gone:
            return Delivery.GONE
        return Delivery.FAILED if self.failure else Delivery.SENT


class Receiver(Protocol):
    """One receiver of announcements."""

    @property
    def name(self) -> str:
        """Identifies the receiver in the store."""
        ...

    def takes(self, news: News) -> bool:
        """Returns False if the message is not for this receiver, or is for that of another process."""
        ...

    async def send(self, news: News, context: NewsContext) -> SendOutcome: ...
