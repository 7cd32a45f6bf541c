"""Channels: how long one rests after a rendering."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping

import pytest

from fournos.web.live.channels import REST, SHARE, Channels
from fournos.web.live.following import PageWatches
from fournos.web.live.pieces import Piece


@pytest.mark.parametrize(("seconds", "rest"), [(0.001, REST), (0.04, REST), (0.1, 0.4), (1.0, 4.0)])
async def test_the_longer_a_rendering_takes_the_longer_the_channel_rests(
    seconds: float, rest: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    now = 0.0
    rests: list[float] = []

    async def render(_: PageWatches) -> Mapping[str, Piece]:
        nonlocal now
        now += seconds
        return {"main": Piece("x", "x", ())}

    async def sleep(length: float) -> None:
        rests.append(length)
        await asyncio.Event().wait()

    monkeypatch.setattr("fournos.web.live.channels.time.process_time", lambda: now)
    monkeypatch.setattr("fournos.web.live.channels.asyncio.sleep", sleep)
    async with Channels().listen("page", "ann", "", render, lambda: 1) as listener:
        assert b"x" in await anext(listener.messages())
    assert rests == [pytest.approx(rest)]
    assert seconds / (seconds + rest) <= SHARE + 1e-9
