"""A page is rendered once for all who have the same rights, until an object changes."""

from __future__ import annotations

import asyncio

import pytest

from fournos.web.live.pieces import Piece
from fournos.web.memo import Rendered, RenderedPages


class Rendering:
    def __init__(self) -> None:
        self.times = 0
        self.go = asyncio.Event()
        self.error: Exception | None = None

    async def __call__(self) -> Rendered:
        self.times += 1
        await self.go.wait()
        if self.error:
            raise self.error
        return {"main": Piece(str(self.times), "", ())}


async def test_requests_at_the_same_time_wait_for_one_rendering() -> None:
    shared, render = RenderedPages(), Rendering()
    asked = [asyncio.create_task(shared.get("page", 1, render)) for _ in range(5)]
    await asyncio.sleep(0)
    asked[0].cancel()
    render.go.set()
    found = await asyncio.gather(*asked[1:])
    assert [one["main"].html for one in found] == ["1"] * 4


async def test_a_change_or_another_key_is_rendered_anew() -> None:
    shared, render = RenderedPages(), Rendering()
    render.go.set()
    for key, revision in (("a", 1), ("a", 1), ("b", 1), ("a", 2), ("a", 2)):
        await shared.get(key, revision, render)
    assert render.times == 3


async def test_an_error_is_not_kept() -> None:
    shared, render = RenderedPages(), Rendering()
    render.go.set()
    render.error = ValueError("away")
    with pytest.raises(ValueError, match="away"):
        await shared.get("a", 1, render)
    render.error = None
    assert (await shared.get("a", 1, render))["main"].html == "2"


async def test_many_addresses_do_not_fill_the_memory() -> None:
    shared, render = RenderedPages(most=2), Rendering()
    render.go.set()
    for key in ("a", "b", "a", "c", "a", "b"):
        await shared.get(key, 1, render)
    assert render.times == 4
