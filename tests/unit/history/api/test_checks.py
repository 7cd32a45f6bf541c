"""Files of results are checked one by one, outside the event loop."""

from __future__ import annotations

import asyncio
import threading

import pytest

from fournos.history.api import results
from fournos.history.api.errors import TooManyRequestsError
from fournos.history.api.results import Checks
from fournos.history.results.check import CheckedResults


class Gate:
    """Stands in for a check that takes long: until it is opened."""

    def __init__(self) -> None:
        self.begun: list[str] = []
        self.first = threading.Event()
        self.open = threading.Event()

    def check(self, content: bytes, name: str) -> CheckedResults:
        self.begun.append(name)
        self.first.set()
        assert self.open.wait(30)
        return CheckedResults()


@pytest.fixture
def gate(monkeypatch: pytest.MonkeyPatch) -> Gate:
    found = Gate()
    monkeypatch.setattr(results, "check", found.check)
    return found


async def test_a_namespace_has_one_file_at_a_time_in_the_queue(gate: Gate) -> None:
    checks = Checks()
    sent = [asyncio.create_task(checks.check(ns, b"", name)) for ns, name in ("a1", "a2", "a3", "b1")]
    assert await asyncio.to_thread(gate.first.wait, 30)  # the event loop goes on meanwhile
    gate.open.set()
    assert await asyncio.gather(*sent) == [CheckedResults()] * 4
    assert gate.begun == ["1", "1", "2", "3"]


async def test_the_thread_ends_with_the_server(gate: Gate) -> None:
    checks = Checks()
    sent = [asyncio.create_task(checks.check(ns, b"", ns)) for ns in ("a", "b")]
    assert await asyncio.to_thread(gate.first.wait, 30)
    checks.close()
    gate.open.set()
    assert await sent[0] == CheckedResults(), "the file that is checked is checked to its end"
    with pytest.raises(asyncio.CancelledError):
        await sent[1]
    for thread in threading.enumerate():
        if thread.name.startswith("results"):
            await asyncio.to_thread(thread.join, 30)
            assert not thread.is_alive()


async def test_a_request_that_is_given_up_keeps_the_turn_until_its_file_is_checked(gate: Gate) -> None:
    checks = Checks()
    first = asyncio.create_task(checks.check("a", b"", "1"))
    assert await asyncio.to_thread(gate.first.wait, 30)
    first.cancel()
    await asyncio.wait([first])
    second = asyncio.create_task(checks.check("a", b"", "2"))
    await asyncio.sleep(0)
    assert gate.begun == ["1"]
    gate.open.set()
    assert await second == CheckedResults()


async def test_who_waits_too_long_is_sent_away(gate: Gate, monkeypatch: pytest.MonkeyPatch) -> None:
    checks = Checks()
    first = asyncio.create_task(checks.check("a", b"", "1"))
    assert await asyncio.to_thread(gate.first.wait, 30)
    monkeypatch.setattr(results, "_TURN", 0.0)
    with pytest.raises(TooManyRequestsError) as refused:
        await checks.check("a", b"", "2")
    assert refused.value.retry_after
    gate.open.set()
    assert await first == CheckedResults()
