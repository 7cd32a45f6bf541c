"""The server that `python -m bench web` measures: `python -m bench.web_servers KUBECONFIG`.

It is the server of `fournos web`, but for several persons with the same rights: a cookie has the name.
It prints its address.
"""

from __future__ import annotations

import asyncio
import sys
from dataclasses import replace
from pathlib import Path
from typing import Final

from aiohttp import web

from bench.rig import NAMESPACE
from fournos.engine.kube.client import Client
from fournos.engine.kube.credentials import load
from fournos.web.local import LocalOptions, Loopback, serve
from fournos.web.site import Viewer

PERSON: Final = "person"


class Persons(Loopback):
    """All have the rights of the kubeconfig; only their limits are apart."""

    async def viewer(self, request: web.Request) -> Viewer:
        found = await super().viewer(request)
        return replace(found, name=f"{found.name}-{request.cookies.get(PERSON, '')}")


def _opened(address: str) -> None:
    print(address, flush=True)


async def _main(kubeconfig: Path) -> None:
    async with Client(load(kubeconfig), name="bench-web") as api:
        options = LocalOptions(NAMESPACE, clusters_namespace=NAMESPACE, port=0)
        await serve(api, options, _opened, login=Persons)


if __name__ == "__main__":
    asyncio.run(_main(Path(sys.argv[1])))
