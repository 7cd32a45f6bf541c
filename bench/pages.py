"""Measures what a page costs its server with many live and stored jobs: `python -m bench.pages`.

The page's server without sockets: its caches, pages and templates.  The history is a process of its own, with
the rows of `bench.history` in SQLite, and is asked over HTTP.  There is no API server: the objects come from
memory, and every right is granted.
"""

from __future__ import annotations

import argparse
import asyncio
import cProfile
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from statistics import median, quantiles
from typing import Any, Final, cast

import aiohttp

from bench.history import end_of, fill
from bench.machine import memory
from bench.operator import ROOT
from fournos.api.kinds import FOURNOS_CLUSTER, FOURNOS_JOB
from fournos.client.asynchronous import AsyncClient
from fournos.engine.kube.api import Api, Listing, WatchEvent
from fournos.engine.kube.errors import NoSuchResourceError, NotFoundError
from fournos.engine.kube.resource import Obj, Resource
from fournos.engine.queueing.kinds import CLUSTER_QUEUE, LOCAL_QUEUE, RESOURCE_FLAVOR, WORKLOAD
from fournos.engine.runtime.memory import collect_seldom, keep_objects
from fournos.history.store import HistoryStore
from fournos.insight.caches import ObjectCaches
from fournos.systems.jobs.names import CLUSTER_NODE_LABEL
from fournos.web.assets import Assets
from fournos.web.content import PageContent
from fournos.web.identity.loopback import OwnRights
from fournos.web.pages.all_pages import PAGES, WATCHED
from fournos.web.render import Frame, Renderer
from fournos.web.routes import Call, Page
from fournos.web.site import Site
from fournos.web.viewer import Viewer

NAMESPACE: Final = "bench"
JOBS: Final = 10_000
STORED: Final = 200_000
READS: Final = 20
_CLUSTERS: Final = 20
_RUNNING_SHARE: Final = 10
_GPUS: Final = "fournos/gpu-h200"
_PLAIN: Final = ("fleet", "queue", "jobs", "usage", "kinds", "submit")
_FILTERED: Final = (
    ("jobs", {"text": "llama"}),
    ("jobs", {"text": "no such text"}),
    ("jobs", {"owner": "owner-3", "phase": "Stopped"}),
)
"""Pages that are read with a query, too."""


def _named(name: str, number: int = 0, **parts: Any) -> Obj:
    begun = datetime.fromtimestamp(1_700_000_000 + number, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
    meta = {"name": name, "namespace": NAMESPACE, "uid": f"uid-{name}", "creationTimestamp": begun}
    return {"metadata": {**meta, **parts.pop("metadata", {}), "resourceVersion": "1"}, **parts}


def objects(jobs: int) -> dict[Resource, list[Obj]]:
    """Returns the objects of a cluster with so many live jobs: one in ten runs, the others are queued."""
    flavors = [f"cluster-{number}" for number in range(_CLUSTERS)]
    quota = [{"name": name, "resources": [{"name": _GPUS, "nominalQuota": "64"}]} for name in flavors]
    usage = [{"name": name, "resources": [{"name": _GPUS, "total": "64"}]} for name in flavors]
    gpus = [{"vendor": "NVIDIA", "model": "H200", "shortName": "h200", "count": 64, "nodeCount": 8}]
    cluster_status = {"kubeconfigStatus": "Valid", "hardware": {"gpus": gpus}}
    by_kind: dict[Resource, list[Obj]] = {
        FOURNOS_JOB: [_job(number) for number in range(jobs)],
        WORKLOAD: [_workload(number) for number in range(jobs) if number % _RUNNING_SHARE],
        LOCAL_QUEUE: [_named("fournos-queue", spec={"clusterQueue": "fournos-queue"})],
        CLUSTER_QUEUE: [
            _named(
                "fournos-queue",
                metadata={"namespace": ""},
                spec={"resourceGroups": [{"coveredResources": [_GPUS], "flavors": quota}]},
                status={"flavorsReservation": usage},
            )
        ],
        RESOURCE_FLAVOR: [_named(name, metadata={"namespace": ""}, spec={}) for name in flavors],
        FOURNOS_CLUSTER: [
            _named(name, spec={"kubeconfigSecret": f"kubeconfig-{name}"}, status=cluster_status)
            for name in flavors
        ],
    }
    return by_kind


def _job(number: int) -> Obj:
    """A job of 5 kB, about the size of those of users."""
    args = {f"argument-{n}": f"value of a certain length {n}" for n in range(40)}
    spec = {
        "owner": f"owner-{number % 200}",
        "pipeline": "fournos-full",
        "hardware": {"gpuType": "h200", "gpuCount": _gpus(number)},
        **({"cluster": _pinned(number)} if _pinned(number) else {}),
        "executionEngine": {"forge": {"project": "llm-d", "args": args}},
        "env": {f"VARIABLE_{n}": f"https://example.test/{n}" for n in range(20)},
    }
    status: dict[str, Any] = {"phase": "Pending", "message": "Waiting for admission"}
    if number % _RUNNING_SHARE == 0:
        status = {"phase": "Running", "cluster": f"cluster-{number // _RUNNING_SHARE % _CLUSTERS}"}
    return {
        "apiVersion": "fournos.dev/v1",
        "kind": "FournosJob",
        **_named(_name(number), number, spec=spec, status=status),
    }


def _name(number: int) -> str:
    return f"job-{number:05}"


def _gpus(number: int) -> int:
    return int(2 ** (number % 4))


def _pinned(number: int) -> str:
    """The cluster that one job in four asks for."""
    return f"cluster-{number // 4 % _CLUSTERS}" if number % 4 == 1 else ""


def _workload(number: int) -> Obj:
    name = _name(number)
    owner = {
        "apiVersion": "fournos.dev/v1",
        "kind": "FournosJob",
        "name": name,
        "uid": f"uid-{name}",
        "controller": True,
    }
    container = {"name": "c", "image": "i", "resources": {"requests": {_GPUS: str(_gpus(number))}}}
    pod: dict[str, Any] = {"containers": [container]}
    if cluster := _pinned(number):
        pod["nodeSelector"] = {CLUSTER_NODE_LABEL: cluster}
    pods = [{"name": "launcher", "count": 1, "template": {"spec": pod}}]
    waiting = {"type": "QuotaReserved", "status": "False", "reason": "Pending", "message": "no room"}
    return _named(
        f"{name}-w",
        number,
        metadata={"ownerReferences": [owner], "labels": {"fournos.dev/job-name": name}},
        spec={"queueName": "fournos-queue", "podSets": pods},
        status={"conditions": [waiting]},
    )


class Cluster:
    """An API server in memory: objects, watches of what `change` changes, every right, the history."""

    def __init__(self, found: dict[Resource, list[Obj]], history: aiohttp.ClientSession | None) -> None:
        self._objects = found
        self._history = history
        self._changes: asyncio.Queue[Obj] = asyncio.Queue()
        self._version = 1

    def change(self, number: int) -> None:
        """Writes the status of a job."""
        self._version += 1
        job = self._objects[FOURNOS_JOB][number % len(self._objects[FOURNOS_JOB])]
        meta = {**job["metadata"], "resourceVersion": str(self._version)}
        status = {**job["status"], "message": f"change {self._version}"}
        self._changes.put_nowait({**job, "metadata": meta, "status": status})

    async def list(self, resource: Resource, *, selector: str = "", **_: Any) -> Listing:
        """Lists all; an API server's work of selecting is none of the page's."""
        return Listing([] if selector else self._objects.get(resource, []), "1")

    async def watch(self, resource: Resource, **_: Any) -> AsyncIterator[WatchEvent]:
        while resource == FOURNOS_JOB:
            yield WatchEvent("MODIFIED", await self._changes.get())
        await asyncio.Event().wait()

    async def create(self, resource: Resource, obj: Obj, **_: Any) -> Obj:
        return {**obj, "status": {"allowed": True}}

    async def raw(self, method: str, path: str, *_: Any, **__: Any) -> bytes:
        if self._history is None:
            raise NoSuchResourceError("no history", status=404)
        async with self._history.request(method, path) as answer:
            if not answer.ok:
                raise NotFoundError(f"{answer.status}: {path}", status=answer.status)
            return await answer.read()


@dataclass(frozen=True, slots=True)
class Cost:
    """One page, in ms: after a change of a job, with everything rendered anew."""

    page: str
    cpu: float
    """CPU time, p50."""
    gathered: float
    """The part of it before the template."""
    least: float
    p95: float
    bytes: int


@asynccontextmanager
async def _history(stored: int) -> AsyncIterator[aiohttp.ClientSession | None]:
    """Fills a history, and serves it in a process of its own."""
    if not stored:
        yield None
        return
    with tempfile.TemporaryDirectory(prefix="fournos-pages-") as directory:
        url = f"sqlite:///{directory}/history.db"
        async with await HistoryStore.open(url) as store:
            await fill(store, stored)
        words = (sys.executable, "-m", "bench.history_server", url, NAMESPACE)
        process = await asyncio.create_subprocess_exec(*words, cwd=ROOT, stdout=subprocess.PIPE)
        assert process.stdout is not None
        address = (await process.stdout.readline()).decode().strip()
        try:
            async with aiohttp.ClientSession(address, headers={"Authorization": "Bearer any"}) as session:
                yield session
        finally:
            process.terminate()
            await process.wait()


async def measure(jobs: int, stored: int, reads: int, profile: str = "") -> tuple[list[Cost], int]:
    """Returns what each page costs, and the resident memory."""
    async with _history(stored) as session:
        cluster = Cluster(objects(jobs), session)
        api = cast(Api, cluster)
        kinds = {kind: "" for kind in WATCHED if kind in cluster._objects or kind == FOURNOS_CLUSTER}
        collect_seldom()
        async with ObjectCaches(api, kinds) as caches:
            keep_objects()
            client = AsyncClient(api=api, namespace=NAMESPACE)
            viewer = Viewer("you", caches, client, OwnRights(api, time.monotonic), csrf="")
            assets = Assets()
            site = Site(
                caches,
                lambda: end_of(stored) if stored else datetime.now(UTC),
                jobs_namespace="",  # the stored runs are of thirty namespaces
                clusters_namespace=NAMESPACE,
                assets=assets,
                renderer=Renderer(assets),
            )
            measured = [
                await _page(site, viewer, cluster, page, path, query, reads, profile)
                for page, path, query in _asked(bool(stored))
                if not profile or page.name == profile
            ]
            return measured, memory(os.getpid())[0]


_Asked = tuple[Page, dict[str, str], dict[str, str]]
"""A page, the variables of its path, and its query."""


def _asked(history: bool) -> list[_Asked]:
    named = {page.name: page for page in PAGES}
    found: list[_Asked] = [(named[name], {}, {}) for name in _PLAIN]
    found += [(named["job"], {"namespace": NAMESPACE, "name": _name(number)}, {}) for number in (0, 1)]
    return [*found, *((named[name], {}, query) for name, query in _FILTERED)] if history else found


async def _page(
    site: Site,
    viewer: Viewer,
    cluster: Cluster,
    page: Page,
    path: dict[str, str],
    query: dict[str, str],
    reads: int,
    profile: str,
) -> Cost:
    content = PageContent(site)
    cpu: list[float] = []
    gathered: list[float] = []
    took: list[float] = []
    size = 0
    profiler = cProfile.Profile() if profile else None
    for number in range(reads + 1):
        cluster.change(number)
        await asyncio.sleep(0.01)  # until the change is in the caches
        call = Call(site, viewer, site.now(), path, query)
        if profiler and number:
            profiler.enable()
        began, used = time.perf_counter(), time.process_time()
        data = await page.gather(call)
        half = time.process_time()
        pieces = content.rendered(page, data)
        whole = site.renderer.whole(Frame(page.title, [], page.path), pieces)
        if number:  # the first one loads the template
            cpu.append((time.process_time() - used) * 1000)
            gathered.append((half - used) * 1000)
            took.append((time.perf_counter() - began) * 1000)
        if profiler:
            profiler.disable()
        size = len(whole)
    if profiler:
        profiler.dump_stats(f"{page.name}.prof")
    name = "&".join((page.name, *(f"{key}={value}" for key, value in query.items()), *path.values()))
    return Cost(name, median(cpu), median(gathered), min(took), quantiles(took, n=20)[-1], size)


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m bench.pages", description=__doc__)
    parser.add_argument("--jobs", type=int, default=JOBS, help="live jobs (10000)")
    parser.add_argument("--stored", type=int, default=STORED, help="jobs of the history; 0: none (200000)")
    parser.add_argument("--reads", type=int, default=READS, help="reads of each page (20)")
    parser.add_argument("--profile", default="", metavar="PAGE", help="one page under cProfile")
    given = parser.parse_args()
    costs, rss = asyncio.run(measure(given.jobs, given.stored, given.reads, given.profile))
    print(f"{'page':44} {'CPU':>8} {'gather':>8} {'least':>8} {'p95':>8} {'kB':>6}")
    for one in costs:
        times = "".join(f" {time_:8.1f}" for time_ in (one.cpu, one.gathered, one.least, one.p95))
        print(f"{one.page:44}{times} {one.bytes / 1000:6.0f}")
    print(f"memory {rss / 2**20:.0f} MB")


if __name__ == "__main__":
    main()
