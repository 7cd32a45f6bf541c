"""The work queue, in virtual time, against a model, and as it is measured."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from fournos.engine.kube.resource import Key
from fournos.engine.runtime.informers import ControllerMetrics, result_of
from fournos.engine.runtime.metrics import Metrics
from fournos.engine.runtime.queue import MAX_SLEEP, STREAK, Queue, QueueClosedError
from fournos.engine.runtime.reconcile import PassOutcome, Result
from tests.unit.engine.runtime.loop import LoopClock
from tests.world.server import VirtualClock

A, B, C = Key("ns", "a"), Key("ns", "b"), Key("other", "c")

pytestmark = pytest.mark.looptime


@pytest.fixture
async def clock() -> LoopClock:
    return LoopClock()


@pytest.fixture
async def queue(clock: LoopClock) -> Queue:
    return Queue(clock, jitter=lambda: 1.0)


async def take(queue: Queue) -> Key:
    key = await queue.get()
    queue.done(key)
    return key


async def is_empty(queue: Queue) -> bool:
    with pytest.raises(TimeoutError):
        await asyncio.wait_for(queue.get(), 0.001)
    return True


async def test_a_key_added_twice_comes_once(queue: Queue) -> None:
    queue.add(A)
    queue.add(A)
    assert len(queue) == 1
    assert await take(queue) == A
    assert await is_empty(queue)


async def test_a_key_added_while_worked_on_comes_once_more_and_never_to_two_workers(queue: Queue) -> None:
    queue.add(A)
    assert await queue.get() == A
    queue.add(A)
    queue.add(A)
    assert len(queue) == 0
    assert await is_empty(queue)
    queue.done(A)
    assert await take(queue) == A
    assert await is_empty(queue)


async def test_waiting_workers_get_one_key_each(queue: Queue) -> None:
    workers = [asyncio.create_task(queue.get()) for _ in range(3)]
    await asyncio.sleep(0)
    for key in (A, B, C):
        queue.add(key)
    assert {await worker for worker in workers} == {A, B, C}


async def test_a_worker_that_is_cancelled_loses_no_key(queue: Queue) -> None:
    first, second = (asyncio.create_task(queue.get()) for _ in range(2))
    await asyncio.sleep(0)
    queue.add(A)
    first.cancel()
    assert await asyncio.wait_for(second, 1) == A


async def test_namespaces_take_turns(queue: Queue) -> None:
    for number in range(100):
        queue.add(Key("crowd", str(number)))
    queue.add(C)
    assert [(await take(queue)).namespace for _ in range(3)] == ["crowd", "other", "crowd"]


async def test_a_key_that_has_changed_waits_for_one_of_a_sweep_at_most(queue: Queue) -> None:
    queue.sweep([*(Key("ns", str(number)) for number in range(100)), A])
    queue.add(B)
    queue.add(A)
    queue.sweep([B])
    assert len(queue) == 102
    assert A in queue
    assert [await take(queue) for _ in range(5)] == [
        *(Key("ns", "0"), B),
        *(Key("ns", "1"), A),
        Key("ns", "2"),
    ]


async def test_a_sweep_comes_to_its_end_whatever_changes_meanwhile(queue: Queue) -> None:
    queue.sweep([A, B])
    for number in range(2):
        queue.add(Key("ns", str(number)))
        queue.add(Key("other", str(number)))
    order = [await take(queue) for _ in range(6)]
    assert await is_empty(queue)
    assert max(order.index(A), order.index(B)) <= 4


async def test_a_key_that_is_worked_on_meanwhile_is_swept_once_more(queue: Queue) -> None:
    queue.add(A)
    key = await queue.get()
    queue.sweep([A])
    queue.done(key)
    assert [await take(queue), len(queue)] == [A, 0]


async def test_backoff_doubles_from_50_ms_to_a_minute_and_is_reset(queue: Queue) -> None:
    delays = [queue.retry(A) for _ in range(13)]
    assert delays[:4] == [0.05, 0.1, 0.2, 0.4]
    assert delays[-1] == 60.0
    assert queue.failures(A) == 13
    queue.forget(A)
    assert queue.failures(A) == 0
    assert queue.retrying == 0
    assert await is_empty(queue)
    assert queue.retry(A) == 0.05


async def test_jitter_takes_up_to_half_of_the_delay(clock: LoopClock) -> None:
    assert Queue(clock, jitter=lambda: 0.0).retry(A) == 0.025


async def test_a_retry_comes_after_its_delay_and_not_before_the_api_server_allows(
    queue: Queue, clock: LoopClock
) -> None:
    queue.retry(A, at_least=5.0)
    assert await take(queue) == A
    assert clock.monotonic() == pytest.approx(5.0, abs=0.01)


async def test_an_event_runs_a_key_at_once_and_takes_its_retry_along(queue: Queue) -> None:
    queue.add_after(A, 10)
    queue.add(A)
    assert await take(queue) == A
    assert queue.retrying == 0
    with pytest.raises(TimeoutError):
        await asyncio.wait_for(queue.get(), 20)


async def test_what_is_usable_again_ends_every_backoff_and_no_count(queue: Queue, clock: LoopClock) -> None:
    for _ in range(13):
        queue.retry(B)
    queue.hurry()
    assert await take(queue) == B
    assert clock.monotonic() == pytest.approx(0, abs=0.01)
    assert queue.failures(B) == 13
    assert queue.retry(B) == 60.0


async def test_the_oldest_key_is_the_one_that_was_ready_first(queue: Queue) -> None:
    assert queue.oldest() == 0.0
    await asyncio.sleep(1)
    queue.add(A)
    await asyncio.sleep(2)
    queue.add(C)
    queue.add(B)
    await asyncio.sleep(4)
    assert queue.oldest() == pytest.approx(6)
    assert await take(queue) == A
    assert queue.oldest() == pytest.approx(4)


async def test_of_two_delays_the_earlier_wins(queue: Queue, clock: LoopClock) -> None:
    queue.add_after(A, 10)
    queue.add_after(A, 3)
    queue.add_after(A, 7)
    assert await take(queue) == A
    assert clock.monotonic() == pytest.approx(3, abs=0.01)
    with pytest.raises(TimeoutError):
        await asyncio.wait_for(queue.get(), 20)


async def test_the_newest_deadline_replaces_the_one_before(queue: Queue, clock: LoopClock) -> None:
    queue.add_at(A, clock.now() + timedelta(seconds=5))
    queue.add_at(A, clock.now() + timedelta(seconds=30))
    queue.add_at(B, clock.now() + timedelta(seconds=1))
    queue.add_at(B, None)
    assert await take(queue) == A
    assert clock.monotonic() == pytest.approx(30, abs=0.01)


async def test_a_retry_does_not_take_the_deadline_along(queue: Queue, clock: LoopClock) -> None:
    queue.add_at(A, clock.now() + timedelta(seconds=5))
    queue.add_after(A, 1)
    assert await take(queue) == A
    assert await take(queue) == A
    assert clock.monotonic() == pytest.approx(5, abs=0.01)


async def test_a_deadline_follows_the_wall_clock_when_it_is_stepped(queue: Queue, clock: LoopClock) -> None:
    queue.add_at(A, clock.now() + timedelta(hours=5))
    clock.step(timedelta(hours=6))
    assert await take(queue) == A
    assert clock.monotonic() <= MAX_SLEEP + 0.01


async def test_many_replaced_deadlines_take_no_room(queue: Queue, clock: LoopClock) -> None:
    for second in range(10_000):
        queue.add_at(A, clock.now() + timedelta(hours=1, seconds=second))
    assert len(queue._wakes) < 200


async def test_shutdown_gives_out_nothing_more_and_waits_for_what_is_worked_on(queue: Queue) -> None:
    queue.add(A)
    queue.add(B)
    assert await queue.get() == A
    waiting = asyncio.create_task(Queue.get(queue))
    assert await waiting == B
    idle = asyncio.create_task(queue.get())
    await asyncio.sleep(0)
    queue.shutdown()
    with pytest.raises(QueueClosedError):
        await idle
    drained = asyncio.create_task(queue.drained())
    queue.done(A)
    await asyncio.sleep(0)
    assert not drained.done()
    queue.done(B)
    await drained
    queue.add(C)
    assert len(queue) == 0
    queue.shutdown()


async def test_shutdown_ends_the_timer(queue: Queue) -> None:
    queue.add_after(A, 1)
    queue.shutdown()
    await asyncio.sleep(2)
    assert len(queue) == 0
    queue.shutdown()


async def test_what_was_begun_goes_before_what_waits_but_not_for_ever(queue: Queue) -> None:
    queue.add(A)
    queue.add(B)
    order = []
    for _ in range(STREAK + 2):
        key = await queue.get()
        order.append(key)
        if key == A:
            queue.add(A)
        queue.done(key)
    assert order == [A] * (STREAK + 1) + [B]


async def test_a_key_is_in_the_queue_until_its_work_and_its_backoff_are_over(queue: Queue) -> None:
    assert A not in queue
    queue.add(A)
    assert A in queue and B not in queue and C not in queue
    key = await queue.get()
    assert key in queue
    queue.retry(key)
    queue.done(key)
    assert key in queue, "it waits for its backoff"
    assert await take(queue) == A and A not in queue
    queue.add_at(A, None)
    assert A not in queue


async def test_a_key_that_never_failed_may_be_forgotten(queue: Queue) -> None:
    queue.forget(A)
    assert (queue.failures(A), queue.retrying) == (0, 0)


class Recorder:
    """QueueMetrics that notes each call."""

    def __init__(self) -> None:
        self.calls: list[tuple[object, ...]] = []

    def added(self) -> None:
        self.calls.append(("added",))

    def taken(self, key: Key, waited: float) -> None:
        self.calls.append(("taken", key, round(waited, 2)))

    def finished(self, key: Key) -> None:
        self.calls.append(("finished", key))


async def test_each_change_of_a_key_is_counted_once(clock: LoopClock) -> None:
    seen = Recorder()
    queue = Queue(clock, metrics=seen)
    await asyncio.sleep(3)
    queue.add(A)
    queue.add(A)
    await asyncio.sleep(2)
    assert await take(queue) == A
    assert seen.calls == [("added",), ("taken", A, 2.0), ("finished", A)]


# --- The queue against a model: whatever happens, no key is lost and none has two workers ------------

keys = st.sampled_from([Key(namespace, name) for namespace in "ab" for name in "xyz"])


class QueueMachine(RuleBasedStateMachine):
    def __init__(self) -> None:
        super().__init__()
        self.runner = asyncio.Runner()
        self.queue = Queue(VirtualClock(), jitter=lambda: 1.0)
        self.wanted: set[Key] = set()
        self.held: set[Key] = set()

    def teardown(self) -> None:
        self.queue.shutdown()
        self.runner.close()

    @rule(key=keys)
    def add(self, key: Key) -> None:
        self.queue.add(key)
        self.wanted.add(key)

    @rule(key=keys)
    def sweep(self, key: Key) -> None:
        self.queue.sweep([key])
        self.wanted.add(key)

    @rule()
    def take(self) -> None:
        if len(self.queue) == 0:
            return
        key = self.runner.run(self.queue.get())
        assert key not in self.held
        assert key in self.wanted
        self.wanted.discard(key)
        self.held.add(key)

    @rule(data=st.data(), fails=st.booleans())
    def finish(self, data: st.DataObject, fails: bool) -> None:
        if not self.held:
            return
        key = data.draw(st.sampled_from(sorted(self.held)))
        if fails:
            self.runner.run(self._retry(key))
        else:
            self.queue.forget(key)
            assert self.queue.failures(key) == 0
        self.queue.done(key)
        self.held.discard(key)

    async def _retry(self, key: Key) -> None:
        before = self.queue.failures(key)
        self.queue.retry(key)
        assert self.queue.failures(key) == before + 1

    @invariant()
    def all_are_there(self) -> None:
        assert len(self.queue) == len(self.wanted - self.held)


TestQueue = QueueMachine.TestCase
TestQueue.settings = settings(max_examples=60, stateful_step_count=40)


# --- The metrics of controller-runtime: what a pass counts as, and what a queue measures -------------

KEY = Key("ns", "a")


@pytest.mark.parametrize(
    ("outcome", "word"),
    [
        (PassOutcome(Result.DONE), "success"),
        (PassOutcome(Result.GONE), "success"),
        (PassOutcome(Result.DONE, wake_at=datetime.now(UTC) + timedelta(seconds=1)), "requeue_after"),
        (PassOutcome(Result.DONE, again=True), "requeue"),
        (PassOutcome(Result.WAITING, retry=True), "requeue"),
        (PassOutcome(Result.FAILED, retry=True), "error"),
        (PassOutcome(Result.CONFLICT, retry=True), "error"),
        (PassOutcome(Result.BUG, retry=True), "error"),
    ],
)
def test_a_pass_has_controller_runtimes_word(outcome: PassOutcome, word: str) -> None:
    assert result_of(outcome) == word


async def test_a_queue_and_its_passes_are_measured_under_the_published_names() -> None:
    metrics, clock = Metrics(), VirtualClock()
    controller = ControllerMetrics(metrics, "AppWrapper", clock, workers=8)
    queue = Queue(clock, metrics=controller)
    queue.add(KEY)
    queue.add(KEY)  # is in already
    clock.advance(2)
    assert await queue.get() == KEY
    clock.advance(3)
    controller.refresh(len(queue))
    text = metrics.render().decode()
    both = 'controller="AppWrapper",name="AppWrapper"'
    assert f"workqueue_adds_total{{{both}}} 1.0" in text
    assert f"workqueue_queue_duration_seconds_sum{{{both}}} 2.0" in text
    assert f"workqueue_longest_running_processor_seconds{{{both}}} 3.0" in text
    assert 'controller_runtime_active_workers{controller="AppWrapper"} 1.0' in text
    assert 'controller_runtime_max_concurrent_reconciles{controller="AppWrapper"} 8.0' in text
    controller.passed(PassOutcome(Result.BUG, retry=True), 3.0)
    queue.done(KEY)
    controller.refresh(len(queue))
    text = metrics.render().decode()
    assert f"workqueue_work_duration_seconds_sum{{{both}}} 3.0" in text
    assert 'controller_runtime_active_workers{controller="AppWrapper"} 0.0' in text
    # All results are there from the start: a rate over one that appears later misses its first.
    assert 'controller_runtime_reconcile_total{controller="AppWrapper",result="error"} 1.0' in text
    assert 'controller_runtime_reconcile_total{controller="AppWrapper",result="success"} 0.0' in text
    for counter in ("reconcile_errors", "reconcile_panics"):
        assert f'controller_runtime_{counter}_total{{controller="AppWrapper"}} 1.0' in text
    assert f"workqueue_retries_total{{{both}}} 1.0" in text
    assert 'controller_runtime_reconcile_time_seconds_sum{controller="AppWrapper"} 3.0' in text
