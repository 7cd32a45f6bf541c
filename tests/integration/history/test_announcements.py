"""Confirmed changes are sent once, on both databases, whatever happens between storing and sending."""

from __future__ import annotations

import asyncio
import json
from datetime import timedelta
from typing import Any

import pytest

from fournos.history import metrics as table
from fournos.history.alerts.announce import WEBHOOK, Announcer
from fournos.history.alerts.due import Delivery
from fournos.history.alerts.webhook import Outcome
from fournos.history.regressions.acknowledge import Acknowledgement
from fournos.history.store import Store
from fournos.history.store.announcements import KEPT, Announcements
from fournos.history.store.patrol import standings, watch_results
from fournos.history.store.review import review
from fournos.history.store.verdicts import Verdicts
from fournos.runtime.metrics import Metrics
from fournos.runtime.metrics_table import RUNTIME
from tests.history import NAMESPACE_UID, at
from tests.integration.history.test_review import history, measured
from tests.waiting import until


class Clock:
    def now(self) -> Any:
        return at(60)


class Receiver:
    def __init__(self) -> None:
        self.bodies: list[dict[str, Any]] = []
        self.outcome: Outcome | BaseException = Outcome()

    async def send(self, content: bytes) -> Outcome:
        self.bodies.append(json.loads(content))
        if isinstance(self.outcome, BaseException):
            raise self.outcome
        return self.outcome


async def drop(store: Store) -> None:
    await history(store)
    for number in range(20, 26):
        await measured(store, number, 60 + number % 3)


async def look(store: Store, receiver: Receiver) -> None:
    announcer = Announcer(receiver.send, Clock())
    await standings(store, at(60), announcer)
    await announcer.announce(store)


async def deliveries(store: Store) -> list[tuple[Delivery, int]]:
    found = await Announcements(store).of(NAMESPACE_UID, "f", WEBHOOK)
    return [(one.delivery, one.tries) for one in found]


async def test_a_regression_is_sent_once(store: Store) -> None:
    await drop(store)
    receiver = Receiver()
    for _ in range(3):
        await look(store, receiver)
    (sent,) = receiver.bodies
    assert sent["fournos"]["state"] == "Confirmed"
    assert sent["fournos"]["run"]["uid"] == "uid-20"
    assert len(sent["fournos"]["commands"]) == 2
    assert await deliveries(store) == [(Delivery.SENT, 1)]
    await measured(store, 26, 61)
    await look(store, receiver)
    assert len(receiver.bodies) == 1, "calculated anew with a further run"


async def test_what_is_acknowledged_is_not_sent(store: Store) -> None:
    await drop(store)
    (finding,) = (await review(store, NAMESPACE_UID, "f")).report.findings
    await Verdicts(store).acknowledge(NAMESPACE_UID, Acknowledgement.of(finding, "meant", "me", at(30)))
    receiver = Receiver()
    await look(store, receiver)
    assert receiver.bodies == []


async def test_a_receiver_that_is_down_gets_it_later(store: Store) -> None:
    await drop(store)
    receiver = Receiver()
    receiver.outcome = Outcome("status 500", down=True)
    await look(store, receiver)
    assert await deliveries(store) == [(Delivery.FAILED, 1)]
    receiver.outcome = Outcome()
    await look(store, receiver)
    await look(store, receiver)
    assert [one["fournos"]["id"] for one in receiver.bodies] == [receiver.bodies[0]["fournos"]["id"]] * 2
    assert await deliveries(store) == [(Delivery.SENT, 2)]


async def test_one_that_was_cut_off_is_sent_once_more_and_no_more(store: Store) -> None:
    await drop(store)
    receiver = Receiver()
    receiver.outcome = ConnectionAbortedError("killed")
    for expected in (Delivery.SENDING, Delivery.RESENDING):
        with pytest.raises(ConnectionAbortedError):
            await look(store, receiver)
        assert [delivery for delivery, _ in await deliveries(store)] == [expected]
    await look(store, receiver)
    assert len(receiver.bodies) == 2


async def test_old_rows_expire(store: Store) -> None:
    await drop(store)
    await look(store, Receiver())
    await Announcements(store).expire(at(60) + KEPT - timedelta(seconds=1))
    assert await deliveries(store)
    await Announcements(store).expire(at(60) + KEPT + timedelta(seconds=1))
    assert not await deliveries(store)


async def test_the_leader_alone_sends(store: Store) -> None:
    await drop(store)
    metrics, receiver = Metrics((*RUNTIME, *table.METRICS)), Receiver()
    opened: asyncio.Future[Store] = asyncio.get_running_loop().create_future()

    async def leader() -> Store:
        return await opened

    announcer = Announcer(receiver.send, Clock(), lambda found: table.count_message(metrics, found))
    task = asyncio.create_task(watch_results(leader, metrics, Clock(), announcer, interval=0.01))
    await asyncio.sleep(0)
    assert receiver.bodies == []
    opened.set_result(store)
    await until(lambda: metrics.value("fournos_history_webhook_messages_total", "Sent"), "nothing is sent")
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)
    assert len(receiver.bodies) == 1
