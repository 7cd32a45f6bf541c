"""Confirmed changes are sent once, on both databases, whatever happens between storing and sending."""

from __future__ import annotations

import asyncio
import json
from dataclasses import replace
from typing import Any

import pytest

from fournos.api.kinds import FOURNOS_JOB
from fournos.engine.kube.resource import EVENT
from fournos.engine.runtime.metrics import RUNTIME, Metrics
from fournos.history import metrics as table
from fournos.history.alerts.announce import KEPT, Announcer, Events, NotSentError, Webhook, announced
from fournos.history.alerts.news import News, NewsContext, body
from fournos.history.records import Document, Identity, Record
from fournos.history.regressions.review import Acknowledgement
from fournos.history.store import HistoryStore
from fournos.history.store.verdicts import Verdicts, standings, watch_results
from tests.history import NAMESPACE_UID, at
from tests.store.test_review import findings, history, measured
from tests.waiting import until
from tests.world.connection import Connection
from tests.world.server import Server


class Clock:
    def __init__(self, seconds: float = 60) -> None:
        self.seconds = seconds

    def now(self) -> Any:
        return at(self.seconds)


class Receiver(Webhook):
    """Takes messages, or does what `outcome` says."""

    def __init__(self) -> None:
        super().__init__("")
        self.bodies: list[dict[str, Any]] = []
        self.outcome: BaseException | None = None

    @property
    def there(self) -> bool:
        return True

    async def send(self, news: News, context: NewsContext) -> None:
        self.bodies.append(json.loads(body(news, context)))
        if self.outcome is not None:
            raise self.outcome


async def drop(store: HistoryStore) -> Identity:
    """Returns the newest run."""
    await history(store)
    return [await measured(store, number, 60 + number % 3) for number in range(20, 26)][-1]


def none(server: Server | None = None, **killed: Any) -> Events:
    """Events of jobs that are gone."""
    return Events(Connection(server or Server(), **killed), lambda run: None, Clock(), "r")


async def look(store: HistoryStore, receiver: Webhook | None, events: Events | None = None) -> None:
    announcer = Announcer(Clock(), events or none(), receiver)
    await standings(store, at(60), announcer, cluster="here")
    await announcer.announce(store)


async def test_a_regression_is_sent_once(store: HistoryStore) -> None:
    await drop(store)
    receiver = Receiver()
    for _ in range(3):
        await look(store, receiver)
    (sent,) = receiver.bodies
    assert sent["fournos"]["state"] == "Confirmed"
    assert sent["fournos"]["run"]["uid"] == "uid-20"
    assert len(sent["fournos"]["commands"]) == 2
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
    receiver.outcome = NotSentError("status 500", down=True)
    await look(store, receiver)
    receiver.outcome = None
    for _ in range(2):
        await look(store, receiver)
    assert [one["fournos"]["id"] for one in receiver.bodies] == [receiver.bodies[0]["fournos"]["id"]] * 2


async def test_one_that_was_cut_off_is_sent_again(store: HistoryStore) -> None:
    """It may have arrived; a receiver knows it by its id."""
    await drop(store)
    receiver = Receiver()
    receiver.outcome = asyncio.CancelledError("killed")
    with pytest.raises(asyncio.CancelledError):
        await look(store, receiver)
    receiver.outcome = None
    for _ in range(2):
        await look(store, receiver)
    assert [one["fournos"]["id"] for one in receiver.bodies] == [receiver.bodies[0]["fournos"]["id"]] * 2


async def test_one_that_is_refused_for_good_is_not_sent_again(store: HistoryStore) -> None:
    await drop(store)
    receiver = Receiver()
    receiver.outcome = NotSentError("status 400", down=False)
    for _ in range(2):
        await look(store, receiver)
    assert len(receiver.bodies) == 1


async def test_an_event_is_created_beside_the_message(store: HistoryStore) -> None:
    await drop(store)
    server, receiver = Server(), Receiver()
    job = {"metadata": {"namespace": "bench", "name": "job-20", "uid": "uid-20"}}
    events = Events(Connection(server), lambda run: (FOURNOS_JOB, job), Clock(), "r")
    receiver.outcome = NotSentError("status 500", down=True)
    await look(store, receiver, events)
    receiver.outcome = None
    await look(store, receiver, events)
    (made,) = server.list(EVENT)
    assert (made["reason"], made["regarding"]["uid"]) == ("RegressionConfirmed", "uid-20")
    assert len(receiver.bodies) == 2


async def test_what_was_announced_is_forgotten_after_a_year(store: HistoryStore) -> None:
    run = await store.get(await drop(store))
    assert run is not None
    await look(store, Receiver())
    late = Clock(60 + KEPT.total_seconds() - 1)
    await Announcer(late, none()).announce(store)
    assert await announced(store, run)
    late.seconds += 2
    await Announcer(late, none()).announce(store)
    assert not await announced(store, run)


async def test_the_leader_alone_sends(store: HistoryStore) -> None:
    await drop(store)
    metrics, receiver = Metrics((*RUNTIME, *table.METRICS)), Receiver()
    opened: asyncio.Future[HistoryStore] = asyncio.get_running_loop().create_future()

    async def leader() -> HistoryStore:
        return await opened

    announcer = Announcer(Clock(), none(), receiver, lambda found: metrics.add(table.MESSAGES, found))
    task = asyncio.create_task(
        watch_results(leader, metrics, Clock(), announcer, cluster=lambda: "here", interval=0.01)
    )
    await asyncio.sleep(0)
    assert receiver.bodies == []
    opened.set_result(store)
    await until(lambda: metrics.value("fournos_history_webhook_messages_total", "Sent"), "nothing is sent")
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)
    assert len(receiver.bodies) == 1
