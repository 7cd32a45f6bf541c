"""Confirmed changes are sent once, on both databases, whatever happens between storing and sending."""

from __future__ import annotations

import asyncio
import json
from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest

from fournos.api.kinds import FOURNOS_JOB
from fournos.engine.kube.kinds import EVENT
from fournos.engine.runtime.metrics import Metrics
from fournos.engine.runtime.metrics_table import RUNTIME
from fournos.history import metrics as table
from fournos.history.alerts.announce import Announcer
from fournos.history.alerts.body import body
from fournos.history.alerts.due import UNDER_WAY, Delivery, News
from fournos.history.alerts.events import Events
from fournos.history.alerts.receiver import NewsContext, SendOutcome
from fournos.history.records import Document, Identity, Record
from fournos.history.regressions.acknowledge import Acknowledgement
from fournos.history.store import HistoryStore
from fournos.history.store.announcements import KEPT, Announcements
from fournos.history.store.patrol import standings, watch_results
from fournos.history.store.verdicts import Verdicts
from tests.history import NAMESPACE_UID, at
from tests.store.test_review import findings, history, measured
from tests.waiting import until
from tests.world.connection import Connection
from tests.world.harness import DiedError
from tests.world.server import Server


class Clock:
    def __init__(self, seconds: float = 60) -> None:
        self.seconds = seconds

    def now(self) -> Any:
        return at(self.seconds)


class Receiver:
    name = "webhook"

    def __init__(self) -> None:
        self.bodies: list[dict[str, Any]] = []
        self.outcome: SendOutcome | BaseException = SendOutcome()

    def takes(self, news: News) -> bool:
        return True

    async def send(self, news: News, context: NewsContext) -> SendOutcome:
        self.bodies.append(json.loads(body(news, context)))
        if isinstance(self.outcome, BaseException):
            raise self.outcome
        return self.outcome


async def drop(store: HistoryStore) -> Identity:
    """Returns the newest run."""
    await history(store)
    return [await measured(store, number, 60 + number % 3) for number in range(20, 26)][-1]


async def look(store: HistoryStore, receiver: Any, seconds: float = 60) -> None:
    announcer = Announcer(receiver, Clock(seconds))
    await standings(store, at(60), [announcer], cluster="here")
    await announcer.announce(store)


async def deliveries(store: HistoryStore, receiver: str = "webhook") -> list[tuple[Delivery, int]]:
    found = await Announcements(store).of(NAMESPACE_UID, "f", receiver)
    return [(one.delivery, one.tries) for one in found]


async def test_a_regression_is_sent_once(store: HistoryStore) -> None:
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


async def test_what_changed_with_a_run_is_named(store: HistoryStore) -> None:
    """Runs of one class may be of several clusters."""
    await drop(store)
    steps = {11: "bench --batch=8", 20: "bench --batch=16"}
    for number, script in steps.items():
        run = await store.get(Identity("here", "bench", f"uid-{number}"))
        assert run is not None
        moved = replace(run, target=f"cluster-{number}", resource_version=run.resource_version + 1)
        tasks = {"run": {"digest": script, "taskSpec": {"steps": [{"script": script}]}}}
        await store.record(Record(moved, documents={Document.PROVENANCE: {"tasks": tasks}}))
    receiver = Receiver()
    await look(store, receiver)
    assert receiver.bodies[0]["fournos"]["causes"] == [
        "cluster cluster-11 -> cluster-20",
        "tasks.run.taskSpec.steps[0].script bench --batch=8 -> bench --batch=16",
    ]


async def test_what_is_acknowledged_is_not_sent(store: HistoryStore) -> None:
    run = await drop(store)
    (finding,) = await findings(store, run)
    await Verdicts(store).acknowledge(NAMESPACE_UID, Acknowledgement.of(finding, "meant", "me", at(30)))
    receiver = Receiver()
    await look(store, receiver)
    assert receiver.bodies == []


async def test_a_receiver_that_is_down_gets_it_later(store: HistoryStore) -> None:
    await drop(store)
    receiver = Receiver()
    receiver.outcome = SendOutcome("status 500", down=True)
    await look(store, receiver)
    assert await deliveries(store) == [(Delivery.FAILED, 1)]
    stored = Announcements(store)
    assert await stored.counts((NAMESPACE_UID,), "bench", at(0), cluster="here") == {
        "webhook": {Delivery.FAILED: 1}
    }
    assert await stored.counts(None, "bench", at(61)) == {}, "older ones"
    assert await stored.counts(None, "other", at(0)) == await stored.counts((), "bench", at(0)) == {}
    assert await stored.counts(None, "bench", at(0), cluster="there") == {}
    receiver.outcome = SendOutcome()
    await look(store, receiver)
    await look(store, receiver)
    assert [one["fournos"]["id"] for one in receiver.bodies] == [receiver.bodies[0]["fournos"]["id"]] * 2
    assert await deliveries(store) == [(Delivery.SENT, 2)]


async def test_one_that_was_cut_off_is_sent_once_more_and_no_more(store: HistoryStore) -> None:
    await drop(store)
    receiver = Receiver()
    receiver.outcome = ConnectionAbortedError("killed")
    for seconds, expected in ((60, Delivery.SENDING), (360, Delivery.RESENDING)):
        with pytest.raises(ConnectionAbortedError):
            await look(store, receiver, seconds)
        assert [delivery for delivery, _ in await deliveries(store)] == [expected]
    await look(store, receiver, 660)
    assert len(receiver.bodies) == 2


async def test_one_that_another_process_is_sending_is_left_to_it(store: HistoryStore) -> None:
    await drop(store)
    receiver = Receiver()
    receiver.outcome = ConnectionAbortedError("as if it went on")
    with pytest.raises(ConnectionAbortedError):
        await look(store, receiver)
    receiver.outcome = SendOutcome()
    await look(store, receiver, 60 + UNDER_WAY.total_seconds() - 1)
    assert len(receiver.bodies) == 1
    await look(store, receiver, 60 + UNDER_WAY.total_seconds())
    assert len(receiver.bodies) == 2


async def test_an_event_is_created_once_whenever_the_recorder_is_killed(store: HistoryStore) -> None:
    await drop(store)
    server = Server()
    job = {"metadata": {"namespace": "bench", "name": "job-20", "uid": "uid-20"}}

    def events(**killed: Any) -> Events:
        return Events(
            Connection(server, **killed), lambda: "here", lambda run: (FOURNOS_JOB, job), Clock(), "r"
        )

    def kill(number: int) -> None:
        raise DiedError

    for seconds, killed in ((60, {"before": kill}), (360, {"after": kill})):
        with pytest.raises(DiedError):
            await look(store, events(**killed), seconds)
    assert len(server.list(EVENT)) == 1
    await look(store, events(), 660)
    (made,) = server.list(EVENT)
    assert (made["reason"], made["regarding"]["uid"]) == ("RegressionConfirmed", "uid-20")
    assert await deliveries(store, "event") == [(Delivery.RESENDING, 2)]
    receiver = Receiver()
    await look(store, receiver)
    assert len(receiver.bodies) == 1, "the webhook has marks of its own"


async def test_a_job_that_is_gone_is_recorded_as_such(store: HistoryStore) -> None:
    await drop(store)
    server, metrics = Server(), Metrics((*RUNTIME, *table.METRICS))
    events = Events(Connection(server), lambda: "here", lambda run: None, Clock(), "r")
    for _ in range(2):
        announcer = Announcer(events, Clock(), lambda found: metrics.add(table.EVENTS, found))
        await standings(store, at(60), [announcer], cluster="here")
        await announcer.announce(store)
    assert await deliveries(store, "event") == [(Delivery.GONE, 1)]
    assert server.list(EVENT) == []
    assert metrics.value("fournos_history_events_total", "Gone") == 1


async def test_old_rows_expire(store: HistoryStore) -> None:
    await drop(store)
    await look(store, Receiver())
    await Announcements(store).expire(at(60) + KEPT - timedelta(seconds=1))
    assert await deliveries(store)
    await Announcements(store).expire(at(60) + KEPT + timedelta(seconds=1))
    assert not await deliveries(store)


async def test_the_leader_alone_sends(store: HistoryStore) -> None:
    await drop(store)
    metrics, receiver = Metrics((*RUNTIME, *table.METRICS)), Receiver()
    opened: asyncio.Future[HistoryStore] = asyncio.get_running_loop().create_future()

    async def leader() -> HistoryStore:
        return await opened

    announcer = Announcer(receiver, Clock(), lambda found: metrics.add(table.MESSAGES, found))
    task = asyncio.create_task(
        watch_results(leader, metrics, Clock(), [announcer], cluster=lambda: "here", interval=0.01)
    )
    await asyncio.sleep(0)
    assert receiver.bodies == []
    opened.set_result(store)
    await until(lambda: metrics.value("fournos_history_webhook_messages_total", "Sent"), "nothing is sent")
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)
    assert len(receiver.bodies) == 1
