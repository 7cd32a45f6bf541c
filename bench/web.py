"""Measures the page: its server, its weight, and what open tabs cost that ask again every few seconds."""

from __future__ import annotations

import asyncio
import html
import itertools
import os
import re
import subprocess
import sys
import time
from collections.abc import AsyncIterator, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from statistics import median, quantiles
from typing import Any, Final

import aiohttp
from yarl import URL

from bench.machine import background, cpu, limited, memory
from bench.operator import ROOT
from bench.report import MB, Result, Target
from bench.rig import GPU, NAMESPACE, job, new_rig
from fournos.api.kinds import FOURNOS_CLUSTER, FOURNOS_JOB
from fournos.engine.kube.client import Client
from fournos.engine.kube.resource import Key
from fournos.web.pages.all_pages import PAGES
from fournos.web.render import PREFIX

JOBS: Final = 10_000
RATE: Final = 10
"""Status changes per second."""
ASKS_EVERY: Final = 5.0
"""Seconds between two requests of an open tab."""
_ANSWERS_WITHIN: Final = 60.0
_CLUSTERS: Final = 20
_RUNNING_SHARE: Final = 10
_AT_ONCE: Final = 24
_READY_WITHIN: Final = 120.0
_SERVED: Final = Target("any page, p95", "ms", 50)
_WEIGHT: Final = Target("any page with all that it loads, compressed", "kB", 150)
_LIVE_CPU: Final = Target("server CPU at ten changes a second", "% of a core", 20)
_MEMORY: Final = Target("server memory", "MB", 300)


@dataclass(frozen=True, slots=True)
class PageRead:
    """One page; times in ms, bytes compressed."""

    path: str
    status: int
    changed_p50: float
    """Right after a change of a job."""
    changed_p95: float
    unchanged_p50: float
    unchanged_p95: float
    bytes: int
    whole: int
    """With all that it loads."""


@dataclass(frozen=True, slots=True)
class OpenTabs:
    """What open tabs cost the server; times in ms, CPU in percent of a core, bytes compressed."""

    changes: int
    """Status changes a second meanwhile."""
    asked: int
    unchanged: int
    """Answers 304."""
    p50: float
    p95: float
    bytes: int
    cpu_percent: float


@dataclass(frozen=True, slots=True)
class Page(Result):
    jobs: int
    tabs: int
    pages: list[PageRead]
    opened: list[OpenTabs]
    """Beside changes, and without."""
    rss_mb: float
    peak_mb: float

    def targets(self) -> list[tuple[Target, float]]:
        return [
            (_SERVED, max(each.changed_p95 for each in self.pages)),
            (_WEIGHT, max(each.whole for each in self.pages) / 1000),
            (_LIVE_CPU, self.opened[0].cpu_percent),
            (_MEMORY, self.rss_mb),
        ]


@dataclass(frozen=True, slots=True)
class Changes:
    """Writes statuses of jobs that the page shows."""

    client: Client
    names: tuple[str, ...]
    numbers: itertools.count[int] = field(default_factory=itertools.count)

    async def write(self) -> None:
        number = next(self.numbers)
        key = Key(NAMESPACE, self.names[number % len(self.names)])
        body = {"status": {"message": f"change-{number}"}}
        await self.client.patch(FOURNOS_JOB, key, body, subresource="status")

    async def forever(self) -> None:
        """Writes RATE changes a second until cancelled."""
        while True:
            await self.write()
            await asyncio.sleep(1 / RATE)


def _ms(times: Sequence[float]) -> tuple[float, float]:
    """Returns median and 95th percentile of times in seconds, in ms."""
    p95 = quantiles(times, n=20)[-1] if len(times) > 1 else times[0]
    return median(times) * 1000, p95 * 1000


async def measure(
    cluster: str, *, jobs: int, reads: int, tabs: int, seconds: float, directory: Path, keep: bool
) -> Page:
    """Measures the server on a control plane without an operator."""
    async with new_rig(cluster, quotas={"cluster-0": 100}, keep=keep) as rig:
        await _fill(rig.client, jobs)
        async with server(rig.cluster.kubeconfig_path, directory) as (address, pid):
            site = await Site.of(address)
            changes = Changes(rig.client, await site.waiting())
            pages = [await _read(site, changes, path, reads) for path in _paths()]
            async with background(changes.forever()):
                opened = [await _tabs(site, pid, tabs, seconds, RATE)]
            opened.append(await _tabs(site, pid, tabs, seconds, 0))
            rss, peak = memory(pid)
    return Page(jobs, tabs, pages, opened, rss / MB, peak / MB)


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
async def server(kubeconfig: Path, directory: Path) -> AsyncIterator[tuple[str, int]]:
    """Starts `fournos web`; yields its address and PID."""
    words = ("-m", "fournos", "-n", NAMESPACE, "web", "--port", "0", "--no-browser")
    environment = {
        **os.environ,
        "PYTHONPATH": str(ROOT / "src"),
        "KUBECONFIG": str(kubeconfig),
        "HEARTH_NAMESPACE": NAMESPACE,
    }
    with (directory / "web.log").open("wb") as log:
        process = await asyncio.create_subprocess_exec(
            sys.executable, *words, cwd=ROOT, env=environment, stdout=subprocess.PIPE, stderr=log
        )
    assert process.stdout is not None
    try:
        async with asyncio.timeout(_READY_WITHIN):
            address = (await process.stdout.readline()).decode().strip()
        if not address:
            raise RuntimeError("the server of the page ended by itself")
        yield address, process.pid
    finally:
        if process.returncode is None:
            process.terminate()
        await process.wait()


@dataclass(frozen=True, slots=True)
class Site:
    """The page's server as its only person uses it."""

    root: URL
    cookies: dict[str, str]

    @classmethod
    async def of(cls, address: str) -> Site:
        jar = aiohttp.CookieJar(unsafe=True)
        async with aiohttp.ClientSession(cookie_jar=jar) as session, session.get(address) as answer:
            answer.raise_for_status()
        return cls(URL(address).origin(), {one.key: one.value for one in jar})

    def session(self) -> aiohttp.ClientSession:
        return aiohttp.ClientSession(
            self.root,
            cookies=self.cookies,
            cookie_jar=aiohttp.CookieJar(unsafe=True),
            connector=aiohttp.TCPConnector(limit=0),
            timeout=aiohttp.ClientTimeout(total=None, sock_connect=_ANSWERS_WITHIN),
            auto_decompress=False,
        )

    async def waiting(self) -> tuple[str, ...]:
        """The names of the waiting jobs that the first page shows."""
        async with self.session() as session:
            text = (await _get(session, "/", "identity"))[1].decode()
        return tuple(re.findall(rf'id="waiting-{NAMESPACE}/([^"]+)"', text))


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
    return PageRead(path, status, *_ms(changed), *_ms(unchanged), len(body), len(body) + loaded)


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


async def _tabs(site: Site, pid: int, tabs: int, seconds: float, changes: int) -> OpenTabs:
    """Lets so many tabs of the first page ask for it again, as a browser does, for `seconds`."""
    answers: list[tuple[int, float, int]] = []
    async with AsyncExitStack() as stack:
        session = await stack.enter_async_context(site.session())
        for number in range(tabs):
            delay = ASKS_EVERY * number / tabs
            await stack.enter_async_context(background(_tab(session, delay, answers)))
        await asyncio.sleep(ASKS_EVERY)  # each has asked once
        answers.clear()
        before, began = cpu(pid), time.perf_counter()
        await asyncio.sleep(seconds)
        used = (cpu(pid) - before) / (time.perf_counter() - began) * 100
    return OpenTabs(
        changes,
        len(answers),
        sum(status == 304 for status, _, _ in answers),
        *_ms([took for _, took, _ in answers]),
        sum(size for _, _, size in answers),
        used,
    )


async def open_tab(site: Site) -> None:
    """Asks for the first page again and again, as one open tab does, until cancelled."""
    async with site.session() as session:
        await _tab(session, 0, [])


async def _tab(session: aiohttp.ClientSession, delay: float, answers: list[tuple[int, float, int]]) -> None:
    """Asks for the first page every ASKS_EVERY seconds; adds status, time and bytes of each answer."""
    await asyncio.sleep(delay)
    etag = ""
    while True:
        headers = {"Accept-Encoding": "gzip", **({"If-None-Match": etag} if etag else {})}
        began = time.perf_counter()
        async with session.get("/", headers=headers) as answer:
            body = await answer.read()
            etag = answer.headers.get("ETag", "")
        answers.append((answer.status, time.perf_counter() - began, len(body)))
        await asyncio.sleep(ASKS_EVERY)
