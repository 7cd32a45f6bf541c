"""Open tabs of the page under test, without a browser."""

from __future__ import annotations

import asyncio

from tests.unit.web.stage import Stage
from tests.waiting import until

HEADER = "X-Token"
"""In which a proxy names the person's token."""


class Reader:
    """The stream of a tab."""

    def __init__(self, site: Stage, token: str, to: str) -> None:
        self.text = ""
        self.task = asyncio.create_task(self._read(site, token, to))
        self.connected = asyncio.Event()

    async def _read(self, site: Stage, token: str, to: str) -> None:
        headers = {HEADER: token}
        async with site.client.get(f"/live?to={to}", headers=headers, timeout=None) as answer:
            assert answer.status == 200, await answer.text()
            assert answer.headers["X-Accel-Buffering"] == "no"
            self.connected.set()
            async for piece in answer.content.iter_any():
                self.text += piece.decode()


async def reader(site: Stage, token: str, to: str = "/names") -> Reader:
    await site.get(to, headers={HEADER: token})
    found = Reader(site, token, to)
    await found.connected.wait()
    await until(lambda: "<main" in found.text)
    return found
