"""Runs short jobs without a pause and samples what must stay flat; on request with kills and outages."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from statistics import fmean, median, quantiles
from typing import Any, Final

from bench.failover import REPLICAS, Handover, hand_over
from bench.machine import background, memory, open_files, until
from bench.operator import operator, samples
from bench.outage import HOWS, Outage, suffer
from bench.replicas import Replicas, replicas
from bench.report import Result
from bench.rig import NAMESPACE, Rig, new_rig
from bench.stream import Stream
from bench.web import Site, open_tab, server
from fournos.app.parts import kinds
from fournos.engine.api.crd import crd

_MINUTE: Final = 60.0
_COLLECTED_WITHIN: Final = 60.0
"""Seconds until Kubernetes' garbage collector has deleted what the last deleted job owned."""
_COLLECTED_A_SECOND: Final = 20
"""So many jobs' objects are deleted in a second even on a slow machine."""
_STORAGE: Final = "apiserver_storage_size_bytes"
_PARTS: Final = 3
"""The first and the last of so many equal parts of the samples are compared."""


@dataclass(frozen=True, slots=True)
class Sample:
    """One look at the leader and the load."""

    at: float
    """Seconds since the begin of the load."""
    pid: int
    rss: int
    """Resident memory of the leader in bytes."""
    files: int
    requests: float
    """Requests of the leader a second since the sample before, without Lease and watches."""
    cpu: float
    """CPU of the leader since the sample before, in percent of a core."""
    ends: int
    """Runs that ended since the sample before."""
    p50: float
    """End of a run → next job admitted, in seconds, since the sample before; 0 without one."""
    p99: float
    storage: int
    """Size of etcd's database in bytes, as the API server reports it."""
    beside: dict[str, int]
    """Resident memory in bytes of the history and the page, by name."""


@dataclass(frozen=True, slots=True)
class Soak(Result):
    minutes: float
    live: int
    slots: int
    rate: float
    samples: list[Sample]
    handovers: list[Handover]
    waits: list[float]
    """End of a run → next job admitted, in seconds, of the whole time without handovers."""
    ends: int
    doubles: list[str]
    failed: list[str]
    late: list[str]
    orphans: list[str]
    outages: list[Outage]
    """Those of the API server, after all that is counted above."""

    def to_json(self) -> dict[str, Any]:
        content = Result.to_json(self)
        del content["waits"]
        return {**content, "p50": median(self.waits), "p99": p99(self.waits)}

    def quotients(self) -> dict[str, float]:
        """Returns the last part of the samples over the first: of the leader those of one process."""
        leader: dict[str, Callable[[Sample], float]] = {
            "rss": lambda each: each.rss,
            "files": lambda each: each.files,
            "requests": lambda each: each.requests,
        }
        led = steady(self.samples)
        return {
            **{name: growth([take(each) for each in led]) for name, take in leader.items()},
            **{
                f"{name}.rss": growth([each.beside[name] for each in self.samples])
                for name in self.samples[0].beside
            },
            **{f"{each.how}.meanwhile": each.meanwhile_ratio for each in self.outages},
            **{f"{each.how}.requests": each.requests_ratio for each in self.outages},
        }

    def wrong(self) -> dict[str, Sequence[str]]:
        return {
            "doubles": self.doubles,
            "failed": self.failed,
            "late": self.late,
            "orphans": self.orphans,
        }


def steady(samples: Sequence[Sample]) -> list[Sample]:
    """Returns the samples of the process that led longest; none of none."""
    pids = [each.pid for each in samples]
    longest = max(pids, key=pids.count, default=0)
    return [each for each in samples if each.pid == longest]


def growth(values: Sequence[float]) -> float:
    """Returns the mean of the last part of the values over that of the first.

    Raises ValueError if there are too few, or if the first part is 0.
    """
    part = len(values) // _PARTS
    if not part or not any(values[:part]):
        raise ValueError(f"{len(values)} values do not show whether they grow")
    return fmean(values[-part:]) / fmean(values[:part])


def p99(values: Sequence[float]) -> float:
    return quantiles(values, n=100, method="inclusive")[-1] if len(values) > 1 else max(values, default=0.0)


async def measure(
    name: str,
    *,
    minutes: float,
    live: int,
    slots: int,
    rate: float,
    every: float,
    kill_every: float,
    outages: float,
    window: float,
    enable: str,
    directory: Path,
    keep: bool,
) -> Soak:
    """Runs `rate` ends a second beside `live` jobs for `minutes` on a new cluster `name`, with a page.

    `every` seconds a sample is taken and printed.  `kill_every` minutes the leader is killed; 0: not.
    `outages` is how long the API server then hangs, and is gone: 0: not; `window` is for how many seconds its
    requests are counted before and after.  `enable` is what the operator runs, `jobs` among it.
    """
    number = REPLICAS if kill_every else 1
    async with AsyncExitStack() as stack:
        definitions = [crd(definition, rules=rules) for definition, rules in kinds()]
        rig = await stack.enter_async_context(
            new_rig(name, quotas={"bench-1": slots}, keep=keep, extra=definitions)
        )
        kubeconfig = rig.cluster.kubeconfig_path
        group = await stack.enter_async_context(
            replicas(kubeconfig, directory, number, enable=enable, settings=JOBS_SETTINGS)
        )
        others = await stack.enter_async_context(history_and_page(kubeconfig, directory))
        stream = Stream(rig.client, live=live, ends_per_second=rate)
        taken: list[Sample] = []
        sampling = _sample(rig, group, others, stream, taken, every)
        async with group.kept(), stream.flowing(slots), background(sampling):
            handovers = await _load(group, stream, minutes * _MINUTE, kill_every * _MINUTE)
            # A sample takes seconds on a busy machine.
            await until(lambda: len(steady(taken)) >= _PARTS, every=every)
            counted, late = [*taken], [*stream.record.late]
            waits = [wait for _, wait in stream.record.waits]
            hows = HOWS if outages else ()
            suffered = [await suffer(rig, group, stream, how, outages, window) for how in hows]
        orphans = await _orphans(stream, _COLLECTED_WITHIN + live / _COLLECTED_A_SECOND)
    record = stream.record
    return Soak(
        minutes,
        live,
        slots,
        rate,
        counted,
        handovers,
        waits,
        record.ends,
        record.doubles,
        record.failed,
        late,
        orphans,
        suffered,
    )


async def _load(group: Replicas, stream: Stream, seconds: float, kill_every: float) -> list[Handover]:
    """Waits until the time is over, and kills leaders meanwhile."""
    end = time.perf_counter() + seconds
    handovers: list[Handover] = []
    while (left := end - time.perf_counter()) > 0:
        await asyncio.sleep(min(left, kill_every) if kill_every else left)
        if kill_every and left > kill_every:
            handovers.append(await hand_over(group, stream.record, "kill"))
    return handovers


async def _sample(
    rig: Rig,
    group: Replicas,
    others: Mapping[str, int],
    stream: Stream,
    taken: list[Sample],
    every: float,
) -> None:
    began = last = time.perf_counter()
    usages, ends = await group.usages(), stream.record.ends
    while True:
        await asyncio.sleep(every)
        now, usages_now, ends_now = time.perf_counter(), await group.usages(), stream.record.ends
        try:
            pid = group.holding(stream.record.leaders[-1][1]).pid
            rss, _ = memory(pid)
            files = open_files(pid)
        except (LookupError, OSError, KeyError):
            continue  # nobody leads just now
        waits = [wait for at, wait in stream.record.waits if at > last]
        before, after = usages.get(pid), usages_now.get(pid)
        if before and after:
            sample = Sample(
                at=now - began,
                pid=pid,
                rss=rss,
                files=files,
                requests=(after.calls() - before.calls()) / (now - last),
                cpu=(after.cpu - before.cpu) / (now - last) * 100,
                ends=ends_now - ends,
                p50=median(waits) if waits else 0.0,
                p99=p99(waits),
                storage=await _storage(rig),
                beside={name: memory(other)[0] for name, other in others.items()},
            )
            taken.append(sample)
            print(sample, flush=True)
        last, usages, ends = now, usages_now, ends_now


async def _storage(rig: Rig) -> int:
    text = (await rig.client.raw_get("/metrics")).decode()
    wanted = "\n".join(line for line in text.splitlines() if _STORAGE in line)
    return sum(int(value) for name, _, value in samples(wanted + "\n") if name == _STORAGE)


async def _orphans(stream: Stream, within: float) -> list[str]:
    """Returns what is left of deleted jobs, `within` so many seconds for the garbage collector."""
    end = time.perf_counter() + within
    while (left := await stream.orphans()) and time.perf_counter() < end:  # noqa: ASYNC110
        await asyncio.sleep(1.0)
    return left


JOBS_SETTINGS: Final = {"FOURNOS_HISTORY_ENABLED": "true"}
"""Of the operator of the jobs: after its ttl a job stays until its end is recorded."""


@asynccontextmanager
async def history_and_page(kubeconfig: Path, directory: Path) -> AsyncIterator[dict[str, int]]:
    """Starts both and opens a tab; yields their PIDs by name, and ends them at the end."""
    settings = {
        "FOURNOS_HISTORY_DIRECTORY": str(directory / "history"),
        "FOURNOS_HISTORY_URL": f"sqlite:///{directory}/history.db",
        "FOURNOS_HISTORY_JOBS_NAMESPACE": NAMESPACE,
    }
    log = directory / "history.log"
    async with (
        operator(kubeconfig, log, enable="history", settings=settings) as history,
        server(kubeconfig, directory) as (address, page),
        background(open_tab(await Site.of(address))),
    ):
        yield {"history": history.pid, "page": page}
