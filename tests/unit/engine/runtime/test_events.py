"""Kubernetes Events, in virtual time."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

import pytest

from fournos.engine.kube.errors import ServerError
from fournos.engine.kube.resource import EVENT
from fournos.engine.runtime import events
from fournos.engine.runtime.decision import Decision, Delete, EventRecord, StepFailure
from fournos.engine.runtime.events import BURST, Recorder, lasts, retried
from fournos.engine.runtime.metrics import Metrics
from tests.unit.engine.runtime.loop import LoopClock
from tests.unit.engine.runtime.toy import TOY, TOY_KEY, make_toy
from tests.world.connection import Connection
from tests.world.server import Server

pytestmark = pytest.mark.looptime

STARTED = EventRecord("Normal", "Started", "it runs")


class Bench:
    def __init__(self) -> None:
        self.server = Server()
        make_toy(self.server)
        self.toy = self.server.get(TOY, TOY_KEY)
        self.metrics = Metrics()
        self.recorder = Recorder(Connection(self.server), LoopClock(), self.metrics, instance="pod-1")

    async def record(self, note: EventRecord) -> None:
        self.recorder.record(TOY, self.toy, note)
        await self.recorder.flush()

    def dropped(self, reason: str) -> float:
        return self.metrics.value("fournos_events_dropped_total", reason)


@pytest.fixture
async def bench() -> AsyncIterator[Bench]:
    bench = Bench()
    task = asyncio.create_task(bench.recorder.run())
    yield bench
    task.cancel()


async def test_an_event_is_as_the_api_server_wants_it(bench: Bench) -> None:
    await bench.record(STARTED)
    (event,) = bench.server.list(EVENT, namespace="ns")
    assert event["metadata"]["name"].startswith("toy.")
    regarding = {"apiVersion": "test.dev/v1", "kind": "Toy", "namespace": "ns", "name": "toy", "uid": "uid-1"}
    assert event["regarding"] == regarding
    assert (event["type"], event["reason"], event["note"]) == ("Normal", "Started", "it runs")
    assert event["eventTime"] == "2030-01-01T00:00:00.000000Z"
    assert event["reportingController"] == "fournos.dev/fournos"
    assert (event["reportingInstance"], event["action"]) == ("pod-1", "Reconcile")
    assert "series" not in event


async def test_repetitions_are_counted_in_one_event_and_not_sent_each_time(bench: Bench) -> None:
    for _ in range(10):
        await bench.record(STARTED)
        await asyncio.sleep(10)
    (event,) = bench.server.list(EVENT)
    assert event["series"]["count"] == 10
    assert bench.metrics.value("fournos_events_sent_total") == 4
    await bench.record(EventRecord("Normal", "Started", "again"))
    assert len(bench.server.list(EVENT)) == 2


async def test_after_a_while_a_repetition_is_a_new_event(bench: Bench) -> None:
    await bench.record(STARTED)
    await asyncio.sleep(events.SERIES_WINDOW + 1)
    await bench.record(STARTED)
    assert len(bench.server.list(EVENT)) == 2


async def test_one_object_cannot_flood(bench: Bench) -> None:
    for number in range(100):
        await bench.record(EventRecord("Warning", "Noise", str(number)))
    assert len(bench.server.list(EVENT)) == BURST
    assert bench.dropped("rate limit") == 100 - BURST
    await asyncio.sleep(events.REFILL)
    await bench.record(EventRecord("Warning", "Noise", "later"))
    assert len(bench.server.list(EVENT)) == BURST + 1


async def test_a_full_queue_drops_and_does_not_block(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(events, "QUEUE", 3)
    for number in range(5):
        bench.recorder.record(TOY, bench.toy, EventRecord("Normal", "N", str(number)))
    await bench.recorder.flush()
    assert len(bench.server.list(EVENT)) == 3
    assert bench.dropped("queue full") == 2


async def test_what_fails_is_counted_and_comes_with_its_repetition(bench: Bench) -> None:
    bench.server.refusals.append(lambda verb, resource, obj: ServerError("down", status=503))
    await bench.record(STARTED)
    assert bench.dropped("refused") == 1
    bench.server.refusals.clear()
    await asyncio.sleep(events.SERIES_PAUSE)
    await bench.record(STARTED)
    assert len(bench.server.list(EVENT)) == 1


async def test_a_note_is_shortened_and_shows_no_secret(bench: Bench) -> None:
    await bench.record(EventRecord("Warning", "Odd", "token=abcdef123456 " + "x" * 2000))
    (event,) = bench.server.list(EVENT)
    assert len(event["note"]) == events.MAX_NOTE
    assert "abcdef123456" not in event["note"]


# --- A failed step that is tried again: what is reported of it, and when -----------------------------

NOTE = EventRecord("Warning", "ServerError", "Delete failed 3 times in a row, retrying: no quorum")


@pytest.mark.parametrize(
    ("count", "long", "events"),
    [(1, False, ()), (2, False, ()), (3, True, (NOTE,)), (4, True, ()), (40, True, ())],
)
def test_the_third_failure_in_a_row_is_reported_once(
    count: int, long: bool, events: tuple[EventRecord, ...]
) -> None:
    failure = StepFailure(Delete(TOY, TOY_KEY, "u"), "ServerError", "no quorum", transient=True, count=count)
    assert lasts(failure) is long
    assert retried(failure) == Decision(events=events, retry=True)
