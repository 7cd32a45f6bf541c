"""Measures the page: its server, its weight, its first paint, and how fast a change is on open tabs.

Beside it, in the same run, a server that sends all objects to each open socket after a change.
"""

from __future__ import annotations

import asyncio
import html
import itertools
import re
import subprocess
import sys
import time
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from statistics import quantiles
from typing import Any, Final

import aiohttp
from yarl import URL

from bench.machine import memory
from bench.operator import ROOT
from bench.result import Result
from bench.rig import GPU, NAMESPACE, job, new_rig
from bench.tasks import background, limited
from bench.web_live import ARRIVES, Arrived, Changes, Live, measure_live, share
from bench.web_paint import Painted, measure_paint
from bench.web_servers import PERSON
from dev import resources
from fournos.api.kinds import FOURNOS_CLUSTER, FOURNOS_JOB
from fournos.engine.kube.client import Client
from fournos.engine.kube.resource import Key
from fournos.web.assets import PREFIX
from fournos.web.pages.all_pages import PAGES

JOBS: Final = 10_000
TABS: Final = 200
SECONDS: Final = 10.0
SNAPSHOT_SOCKETS: Final = 2
"""More would need more than this machine has; what counts is the cost of each."""
READS: Final = 20
LOADS: Final = 10
"""Loads of each page in a browser with an empty cache; each is followed by one with a full cache."""
_TABS_EACH: Final = 20
"""Tabs of one person, as many as the server allows."""
_CLUSTERS: Final = 20
_RUNNING_SHARE: Final = 10
_AT_ONCE: Final = 24
_READY_WITHIN: Final = 120.0
_PEOPLE: Final = itertools.count()


@dataclass(frozen=True, slots=True)
class PageRead:
    """One page; times in seconds, bytes compressed."""

    path: str
    status: int
    changed: tuple[float, ...]
    """Right after a change of a job."""
    unchanged: tuple[float, ...]
    bytes: int
    whole: int
    """With all that it loads."""


@dataclass(frozen=True, slots=True)
class Page(Result):
    jobs: int
    pages: tuple[PageRead, ...]
    painted: tuple[Painted, ...]
    live: Live
    idle_cpu_percent: float
    rss: int
    peak: int
    snapshots: Live


def p95_of(values: tuple[float, ...]) -> float:
    return quantiles(values, n=20)[-1] if len(values) > 1 else values[0]


async def measure(
    cluster: str, jobs: int, *, reads: int, loads: int, tabs: int, seconds: float, keep: bool
) -> Page:
    """Measures both servers on one control plane without an operator."""
    crd = resources.load("deploy/crd/fournosclusters.yaml")
    async with new_rig(cluster, quotas={"cluster-0": 100}, keep=keep, extra=crd) as rig:
        await _fill(rig.client, jobs)
        kubeconfig = rig.cluster.kubeconfig_path
        async with server("page", kubeconfig) as (address, pid):
            site = await Site.of(address)
            shown = await site.waiting()
            changes = Changes(rig.client, shown)
            pages = [await _read(site, changes, path, reads) for path in _paths()]
            painted = await measure_paint(str(site.root), site.persons(loads), _paths(), loads)
            live, idle = await _page_live(site, changes, pid, tabs, seconds)
            rss, peak = memory(pid)
        async with server("snapshots", kubeconfig) as (address, pid):
            snapshots = await _snapshots_live(address, changes, pid, seconds)
    return Page(jobs, tuple(pages), tuple(painted), live, idle, rss, peak, snapshots)


def _paths() -> list[str]:
    """The pages that need no object, and one job."""
    plain = [page.path for page in PAGES if "{" not in page.path]
    return [*plain, f"/jobs/{NAMESPACE}/{_name(0)}"]


def _name(number: int) -> str:
    return f"job-{number:05}"


async def _fill(client: Client, jobs: int) -> None:
    """Creates clusters and jobs, and writes the statuses that an operator would have written."""
    for number in range(_CLUSTERS):
        name = f"cluster-{number}"
        spec = {"kubeconfigSecret": f"kubeconfig-{name}"}
        meta = {"name": name, "namespace": NAMESPACE}
        body = {"apiVersion": FOURNOS_CLUSTER.api_version, "kind": "FournosCluster", "metadata": meta}
        await client.create(FOURNOS_CLUSTER, {**body, "spec": spec})
        gpus = [{"vendor": "NVIDIA", "model": GPU.upper(), "shortName": GPU, "count": 64, "nodeCount": 8}]
        status = {"kubeconfigStatus": "Valid", "hardware": {"gpus": gpus}}
        await client.patch(FOURNOS_CLUSTER, Key(NAMESPACE, name), {"status": status}, subresource="status")
    await limited(_AT_ONCE, (partial(_fill_in_job, client, number) for number in range(jobs)))


async def _fill_in_job(client: Client, number: int) -> None:
    await client.create(FOURNOS_JOB, job(_name(number)))
    status: dict[str, Any] = {"phase": "Pending", "message": "insufficient unused quota"}
    if number % _RUNNING_SHARE == 0:
        status = {"phase": "Running", "cluster": f"cluster-{number // _RUNNING_SHARE % _CLUSTERS}"}
    await client.patch(FOURNOS_JOB, Key(NAMESPACE, _name(number)), {"status": status}, subresource="status")


@asynccontextmanager
async def server(what: str, kubeconfig: Path) -> AsyncIterator[tuple[str, int]]:
    """Starts one of the servers; yields its address and PID."""
    words = (sys.executable, "-m", "bench.web_servers", what, str(kubeconfig))
    process = await asyncio.create_subprocess_exec(*words, cwd=ROOT, stdout=subprocess.PIPE)
    assert process.stdout is not None
    try:
        async with asyncio.timeout(_READY_WITHIN):
            address = (await process.stdout.readline()).decode().strip()
        if not address:
            raise RuntimeError(f"the server of {what} ended by itself")
        yield address, process.pid
    finally:
        if process.returncode is None:
            process.terminate()
        await process.wait()


@dataclass(frozen=True, slots=True)
class Site:
    """The page's server as its persons use it."""

    root: URL
    cookies: dict[str, str]

    @classmethod
    async def of(cls, address: str) -> Site:
        jar = aiohttp.CookieJar(unsafe=True)
        async with aiohttp.ClientSession(cookie_jar=jar) as session, session.get(address) as answer:
            answer.raise_for_status()
        return cls(URL(address).origin(), {one.key: one.value for one in jar})

    def session(self, person: int | None = None) -> aiohttp.ClientSession:
        """A session of a person, of a new one by default: the server limits the reads of each."""
        name = f"p{next(_PEOPLE) if person is None else person}"
        return aiohttp.ClientSession(
            self.root,
            cookies=self.of_person(name),
            cookie_jar=aiohttp.CookieJar(unsafe=True),
            connector=aiohttp.TCPConnector(limit=0),
            timeout=aiohttp.ClientTimeout(total=None, sock_connect=ARRIVES),
            auto_decompress=False,
        )

    def of_person(self, name: str) -> dict[str, str]:
        return {**self.cookies, PERSON: name}

    def persons(self, number: int) -> list[dict[str, str]]:
        """Returns the cookies of so many new persons."""
        return [self.of_person(f"p{next(_PEOPLE)}") for _ in range(number)]

    async def text(self, path: str) -> str:
        async with self.session() as session:
            return (await _get(session, path, "identity"))[1].decode()

    async def waiting(self) -> tuple[str, ...]:
        """The names of the waiting jobs that the first page shows."""
        return tuple(re.findall(rf'id="waiting-{NAMESPACE}-([^"]+)"', await self.text("/")))


async def _get(session: aiohttp.ClientSession, path: str, encoding: str = "gzip") -> tuple[int, bytes]:
    async with session.get(path, headers={"Accept-Encoding": encoding}) as answer:
        return answer.status, await answer.read()


async def _read(site: Site, changes: Changes, path: str, reads: int) -> PageRead:
    changed: list[float] = []
    unchanged: list[float] = []
    status, body = 0, b""
    async with site.session() as session:
        await _get(session, path)
        for _ in range(reads):
            await changes.write()
            await asyncio.sleep(0.1)  # until the change has come to the server
            for times in (changed, unchanged):
                began = time.perf_counter()
                status, body = await _get(session, path)
                times.append(time.perf_counter() - began)
        loaded = await _loaded(session, (await _get(session, path, "identity"))[1].decode())
    return PageRead(path, status, tuple(changed), tuple(unchanged), len(body), len(body) + loaded)


async def _loaded(session: aiohttp.ClientSession, text: str) -> int:
    """Returns the bytes of all assets that a page names, and that these name."""
    paths: set[str] = set()
    total, rest = 0, _assets(text)
    while rest:
        path = rest.pop()
        paths.add(path)
        total += len((await _get(session, path))[1])
        if path.endswith(".css"):
            rest |= _assets((await _get(session, path, "identity"))[1].decode()) - paths
    return total


def _assets(text: str) -> set[str]:
    return {html.unescape(one) for one in re.findall(rf'({re.escape(PREFIX)}[^"\')\s]+)', text)}


async def _page_live(site: Site, changes: Changes, pid: int, tabs: int, seconds: float) -> tuple[Live, float]:
    """Returns what changes cost with all tabs open, and the CPU of the server while nothing changes."""
    arrived = Arrived(changes)
    async with AsyncExitStack() as stack:
        for number in range(tabs):
            if number % _TABS_EACH == 0:
                session = await stack.enter_async_context(site.session(10_000 + number // _TABS_EACH))
                stream = await live_stream(session)
            answer = await stack.enter_async_context(session.get(stream))
            answer.raise_for_status()
            await stack.enter_async_context(background(arrived.chunks(number, answer)))
        await asyncio.sleep(2.0)  # the tabs are connected and the first renderings are done
        idle = await share(pid, lambda: asyncio.sleep(seconds))
        live = await measure_live(changes, arrived, pid, tabs, seconds)
    return live, idle


async def live_stream(session: aiohttp.ClientSession) -> URL:
    """Returns the stream of changes that the first page opens."""
    text = (await _get(session, "/", "identity"))[1].decode()
    found = re.search(r'"(/live\?[^"]+)"', text)
    assert found, "the page has live updates"
    return URL(html.unescape(found[1]), encoded=True)


async def _snapshots_live(address: str, changes: Changes, pid: int, seconds: float) -> Live:
    arrived = Arrived(changes)
    async with AsyncExitStack() as stack:
        session = await stack.enter_async_context(aiohttp.ClientSession())
        for number in range(SNAPSHOT_SOCKETS):
            socket = await stack.enter_async_context(session.ws_connect(address, max_msg_size=0))
            await socket.receive_bytes()
            await stack.enter_async_context(background(arrived.messages(number, socket)))
        return await measure_live(changes, arrived, pid, SNAPSHOT_SOCKETS, seconds)
