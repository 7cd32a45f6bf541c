"""A page is rendered once for all who have the same rights, until an object changes."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Hashable
from dataclasses import replace
from typing import Any

import pytest

from fournos.api.kinds import FOURNOS_JOB
from fournos.web.pages.fleet import PAGE as FLEET
from fournos.web.site import Call, Kept
from tests.unit.web.stage import ADMIN, NAMES, NS, stage
from tests.waiting import until


class Pages(Kept[Hashable]):
    async def get(self, key: Hashable, revision: Hashable, render: Callable[[], Awaitable[str]]) -> str:
        return await self.kept(key, revision, lambda rendered: rendered == revision, render)


class Rendering:
    def __init__(self) -> None:
        self.times = 0
        self.go = asyncio.Event()
        self.error: Exception | None = None

    async def __call__(self) -> str:
        self.times += 1
        await self.go.wait()
        if self.error:
            raise self.error
        return str(self.times)


async def test_requests_at_the_same_time_wait_for_one_rendering() -> None:
    shared, render = Pages(9), Rendering()
    asked = [asyncio.create_task(shared.get("page", 1, render)) for _ in range(5)]
    await asyncio.sleep(0)
    asked[0].cancel()
    render.go.set()
    found = await asyncio.gather(*asked[1:])
    assert found == ["1"] * 4


async def test_a_change_or_another_key_is_rendered_anew() -> None:
    shared, render = Pages(9), Rendering()
    render.go.set()
    for key, revision in (("a", 1), ("a", 1), ("b", 1), ("a", 2), ("a", 2)):
        await shared.get(key, revision, render)
    assert render.times == 3


async def test_an_error_is_not_kept() -> None:
    shared, render = Pages(9), Rendering()
    render.go.set()
    render.error = ValueError("away")
    with pytest.raises(ValueError, match="away"):
        await shared.get("a", 1, render)
    render.error = None
    assert await shared.get("a", 1, render) == "2"


async def test_many_addresses_do_not_fill_the_memory() -> None:
    shared, render = Pages(2), Rendering()
    render.go.set()
    for key in ("a", "b", "a", "c", "a", "b"):
        await shared.get(key, 1, render)
    assert render.times == 4


async def test_persons_with_other_rights_are_shown_other_pages() -> None:
    async with stage() as site:
        site.may("ann", *ADMIN)
        site.may("ben", ("list", "fournosjobs", NS), ("get", "fournosjobs", NS))
        site.job("shared")
        site.job("secret", "other")
        await until(lambda: site.caches.revision([FOURNOS_JOB]) == (2,))
        for user, shown in (("ann", True), ("ben", False), ("ann", True)):
            await site.login(f"t-{user}")
            _, text = await site.get("/names")
            assert "shared" in text and ("secret" in text) == shown, user


async def test_a_right_that_changes_while_a_page_is_rendered_is_not_shown_to_others() -> None:
    async def gather(call: Call) -> dict[str, Any]:
        data = dict(await NAMES.gather(call))
        if call.viewer.name == "ann":  # of less rights when the page is ready
            site.cluster.rights = {("ann", "list", "fournosjobs", NS)} | rights
            site.clock.at += 61
        return data

    async with stage(pages=[FLEET, replace(NAMES, gather=gather)]) as site:
        rights = {("ben", "*", "*", "")}
        site.cluster.rights = rights | {("ann", "*", "*", "")}
        site.job("shared")
        site.job("secret", "other")
        await until(lambda: site.caches.revision([FOURNOS_JOB]) == (2,))
        await site.login("t-ann")
        _, text = await site.get("/names")
        assert "shared" in text and "secret" not in text
