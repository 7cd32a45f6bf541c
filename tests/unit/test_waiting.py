"""The waits of the tests: what they return, and what a failure shows."""

from __future__ import annotations

import asyncio

import pytest

from tests.waiting import blocking_until, seconds_until, until

pytestmark = pytest.mark.looptime


async def test_the_first_true_result_is_returned() -> None:
    results = iter(["", [], "found", "later"])
    assert await until(lambda: next(results)) == "found"

    async def look() -> str:
        return next(results)

    assert await until(look) == "later"
    results = iter([False, 1])
    assert blocking_until(lambda: next(results), pause=0) == 1


async def test_the_time_that_it_took() -> None:
    loop = asyncio.get_running_loop()
    began = loop.time()
    assert await seconds_until(lambda: loop.time() >= began + 7, pause=1) == 7


async def test_after_the_limit_the_last_state_is_shown() -> None:
    seen: list[int] = []
    with pytest.raises(AssertionError) as failed:
        await until(
            lambda: seen.append(1), lambda: f"{len(seen)} times", limit=3, pause=1, report=lambda: "the log"
        )
    assert str(failed.value) == "3 times, after 3 s\nthe log"
    with pytest.raises(AssertionError, match="no pod, after 0 s"):
        blocking_until(lambda: None, "no pod", limit=0)


async def test_what_hangs_is_interrupted() -> None:
    with pytest.raises(AssertionError, match="hangs"):
        await until(lambda: asyncio.sleep(3600), "hangs", limit=3)


async def test_a_timeout_of_the_look_itself_is_not_hidden() -> None:
    async def look() -> None:
        raise TimeoutError("its own")

    with pytest.raises(TimeoutError, match="its own"):
        await until(look)
