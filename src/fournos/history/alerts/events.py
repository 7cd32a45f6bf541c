"""A confirmed change as a Kubernetes Event of the object whose run it began with.

The name of the Event follows from the message: after a crash between its creation and the mark in the store
it is created again under the same name, which the API server refuses.
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime
from typing import Final, Literal

from fournos.engine.kube.api import Api
from fournos.engine.kube.errors import AlreadyExistsError, KubeError, NotFoundError, TransientError
from fournos.engine.kube.kinds import EVENT
from fournos.engine.kube.resource import Obj, Resource, key_of
from fournos.engine.runtime.clock import Clock
from fournos.engine.runtime.decision import EventRecord
from fournos.engine.runtime.events import MAX_NOTE, event_body
from fournos.history.alerts.due import News, NewsVerdict
from fournos.history.alerts.receiver import NewsContext, SendOutcome
from fournos.history.alerts.words import TITLES, commands, line
from fournos.history.records import Identity, Run
from fournos.insight.values import count

SHOWN: Final = 3
"""KPIs of one Event; of more their number is shown."""
CONTROLLER: Final = "fournos.dev/history"
REASONS: Final = {
    NewsVerdict.CONFIRMED: "RegressionConfirmed",
    NewsVerdict.IMPROVED: "ImprovementConfirmed",
    NewsVerdict.CHANGED: "ChangeConfirmed",
}

Find = Callable[[Run], tuple[Resource, Obj] | None]
"""Returns the object of a run; None if it does not exist any more."""


class Events:
    """The receiver `event`, for the runs of one cluster."""

    name: Final = "event"

    def __init__(self, api: Api, cluster: Callable[[], str], find: Find, clock: Clock, instance: str) -> None:
        """`cluster()` returns the UID of the own cluster, "" while it is not known.

        A database may have the runs of several clusters: the recorder of each announces its own.
        """
        self._api = api
        self._cluster = cluster
        self._find = find
        self._clock = clock
        self._instance = instance

    def takes(self, news: News) -> bool:
        run = Identity.of(news.run)
        return news.verdict in REASONS and run is not None and run.cluster == self._cluster()

    async def send(self, news: News, context: NewsContext) -> SendOutcome:
        target = self._find(context.run) if context.run else None
        if target is None:
            return SendOutcome(gone=True)
        try:
            await self._api.create(EVENT, event(news, context, *target, self._clock.now(), self._instance))
        except AlreadyExistsError:
            return SendOutcome()
        except NotFoundError:
            return SendOutcome(gone=True)  # its namespace
        except KubeError as error:
            return SendOutcome(error.message, down=isinstance(error, TransientError))
        return SendOutcome()


def event(
    news: News, context: NewsContext, resource: Resource, obj: Obj, now: datetime, instance: str
) -> Obj:
    """Returns the Event about the object."""
    type_: Literal["Normal", "Warning"] = "Warning" if news.verdict is NewsVerdict.CONFIRMED else "Normal"
    return event_body(
        resource,
        obj,
        EventRecord(type_, REASONS[news.verdict], note(news, context)),
        name=f"{key_of(obj).name[:200].rstrip('.-')}.{news.id[:16]}",
        at=now,
        controller=CONTROLLER,
        instance=instance,
        action="Compare",
    )


def note(news: News, context: NewsContext) -> str:
    """Returns the text: the changes, and at its end the command that shows more, whatever their length."""
    lines = [line(one) for one in news.changes[:SHOWN]]
    if len(news.changes) > SHOWN:
        lines.append(f"and {count(len(news.changes) - SHOWN, 'more KPI')}")
    last = f". See: {commands(news, context)[0]}"
    text = f"{TITLES[news.verdict]}: {'; '.join(lines)}"
    room = MAX_NOTE - len(last)
    return f"{text if len(text) <= room else f'{text[: room - 1]}…'}{last}"
