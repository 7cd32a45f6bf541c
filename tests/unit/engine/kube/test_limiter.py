"""Rate limit and backoff, in virtual time."""

from __future__ import annotations

import asyncio
import random

import pytest

from fournos.engine.kube.transport import Backoff, TokenBucket

pytestmark = pytest.mark.looptime


def now() -> float:
    return asyncio.get_running_loop().time()


async def test_a_burst_passes_then_the_rate_holds() -> None:
    bucket = TokenBucket(qps=10, burst=3)
    times = []
    for _ in range(6):
        await bucket.take()
        times.append(round(now(), 3))
    assert times == [0, 0, 0, 0.1, 0.2, 0.3]


async def test_rest_refills_up_to_the_burst() -> None:
    bucket = TokenBucket(qps=10, burst=2)
    await bucket.take()
    await asyncio.sleep(100)
    started = now()
    for _ in range(3):
        await bucket.take()
    assert now() - started == pytest.approx(0.1)


async def test_waiters_are_served_in_order_at_the_rate() -> None:
    bucket = TokenBucket(qps=1, burst=1)
    order: list[tuple[int, float]] = []

    async def one(number: int) -> None:
        await bucket.take()
        order.append((number, round(now(), 3)))

    await asyncio.gather(*(one(number) for number in range(4)))
    assert order == [(0, 0), (1, 1), (2, 2), (3, 3)]


async def test_a_waiter_that_gives_up_returns_its_token() -> None:
    bucket = TokenBucket(qps=1, burst=1)
    await bucket.take()
    waiter = asyncio.create_task(bucket.take())
    await asyncio.sleep(0)
    waiter.cancel()
    await asyncio.gather(waiter, return_exceptions=True)
    await bucket.take()
    assert now() == pytest.approx(1)


async def test_a_pause_holds_back_those_who_wait_already() -> None:
    bucket = TokenBucket(qps=1, burst=1)
    await bucket.take()
    waiter = asyncio.create_task(bucket.take())
    await asyncio.sleep(0.5)
    bucket.pause(7)
    await waiter
    assert now() == pytest.approx(7.5)


async def test_backoff_grows_to_its_cap_and_starts_over() -> None:
    backoff = Backoff(base=0.5, cap=30, rng=random.Random(1))
    waits = [backoff.next() for _ in range(50)]
    assert all(0.5 <= wait <= 30 for wait in waits)
    assert waits[0] <= 1.5
    assert max(waits) == 30
    assert len(set(waits[:5])) == 5
    backoff.reset()
    assert backoff.next() <= 1.5
