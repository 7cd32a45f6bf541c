"""The servers that `python -m bench web` measures: `python -m bench.web_servers page|snapshots KUBECONFIG`.

`page` is the server of `fournos web`, but for several persons with the same rights: a cookie has the name.
`snapshots` sends all objects to each open socket after a change, as dashboards without live pieces do.
Each prints its address.
"""

from __future__ import annotations

import asyncio
import sys
from dataclasses import replace
from pathlib import Path
from typing import Final

import orjson
from aiohttp import web

from bench.rig import NAMESPACE
from fournos.api.kinds import FOURNOS_JOB
from fournos.engine.kube.api import Api
from fournos.engine.kube.client import Client
from fournos.engine.kube.credentials import load
from fournos.insight.caches import ObjectCaches
from fournos.web.identity.loopback import Loopback
from fournos.web.local import HOST, LocalOptions, serve
from fournos.web.viewer import Viewer

PERSON: Final = "person"
DEBOUNCE: Final = 0.2
"""Seconds from a change to the snapshot, in which further changes come along."""


class Persons(Loopback):
    """All have the rights of the kubeconfig; only their limits are apart."""

    async def viewer(self, request: web.Request) -> Viewer:
        found = await super().viewer(request)
        return replace(found, name=f"{found.name}-{request.cookies.get(PERSON, '')}")


class Snapshots:
    """Serves /ws: each socket gets all FournosJobs as JSON at first and after changes."""

    def __init__(self, caches: ObjectCaches) -> None:
        self._caches = caches
        self._changed = asyncio.Condition()

    async def follow(self) -> None:
        while True:
            await self._caches.change()
            async with self._changed:
                self._changed.notify_all()

    async def socket(self, request: web.Request) -> web.WebSocketResponse:
        response = web.WebSocketResponse(compress=False)
        await response.prepare(request)
        sent: tuple[int, ...] | None = None
        while not response.closed:
            if (now := self._caches.revision([FOURNOS_JOB])) != sent:
                sent = now
                found = await self._caches.list(FOURNOS_JOB)
                await response.send_bytes(orjson.dumps(found.items))
            async with self._changed:
                await self._changed.wait()
            await asyncio.sleep(DEBOUNCE)
        return response


async def _snapshots(api: Api) -> None:
    async with ObjectCaches(api, {FOURNOS_JOB: ""}) as caches:
        server = Snapshots(caches)
        app = web.Application()
        app.router.add_get("/ws", server.socket)
        runner = web.AppRunner(app, access_log=None, shutdown_timeout=1)
        await runner.setup()
        await web.TCPSite(runner, HOST, 0).start()
        _opened(f"http://{HOST}:{runner.addresses[0][1]}/ws")
        await server.follow()


def _opened(address: str) -> None:
    print(address, flush=True)


async def _main(what: str, kubeconfig: Path) -> None:
    async with Client(load(kubeconfig), name="bench-web") as api:
        if what == "page":
            options = LocalOptions(NAMESPACE, clusters_namespace=NAMESPACE, port=0)
            await serve(api, options, _opened, login=Persons)
        else:
            await _snapshots(api)


if __name__ == "__main__":
    asyncio.run(_main(sys.argv[1], Path(sys.argv[2])))
