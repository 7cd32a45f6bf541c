"""Answers that cost requests are asked for once, and again when they are old."""

from __future__ import annotations

import asyncio

import pytest

from fournos.web.site import Memo


class Asked:
    def __init__(self) -> None:
        self.times = 0
        self.error: Exception | None = None

    async def __call__(self) -> int:
        self.times += 1
        await asyncio.sleep(0)
        if self.error:
            raise self.error
        return self.times


async def test_an_answer_is_kept_and_asked_for_once() -> None:
    memo, ask = Memo(), Asked()
    assert await asyncio.gather(*(memo.get("a", 60, ask) for _ in range(3))) == [1, 1, 1]
    assert await memo.get("b", 60, ask) == 2


async def test_an_old_answer_is_asked_for_again() -> None:
    memo, ask = Memo(), Asked()
    assert [await memo.get("a", -1, ask) for _ in range(2)] == [1, 2]


async def test_an_error_is_not_kept_and_no_caller_stops_the_others() -> None:
    memo, ask = Memo(), Asked()
    ask.error = ValueError("away")
    with pytest.raises(ValueError, match="away"):
        await memo.get("a", 60, ask)
    ask.error = None
    first = asyncio.create_task(memo.get("a", 60, ask))
    await asyncio.sleep(0)
    first.cancel()
    assert await memo.get("a", 60, ask) == 2


async def test_the_least_recently_used_answer_goes_first() -> None:
    memo, ask = Memo(most=2), Asked()
    for key in ("a", "b", "a", "c"):
        await memo.get(key, 60, ask)
    assert await memo.get("a", 60, ask) == 1
    assert await memo.get("b", 60, ask) == 4
