"""The queue against a model: whatever happens, no key is lost and none has two workers."""

from __future__ import annotations

import asyncio

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from fournos.engine.kube.resource import Key
from fournos.engine.runtime.queue import Queue
from tests.world.server import VirtualClock

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
        assert self.queue.processing == len(self.held)


TestQueue = QueueMachine.TestCase
TestQueue.settings = settings(max_examples=60, stateful_step_count=40)
