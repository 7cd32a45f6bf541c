"""Measures jobs from submission to Succeeded, one at a time and many concurrently."""

from __future__ import annotations

import asyncio
import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import median, quantiles
from typing import Final, TypeAlias

from bench.executors import TERMINAL, Executors, Onlooker
from bench.machine import load
from bench.operator import Operator, Usage, operator, samples
from bench.report import MB, Result, Target
from bench.rig import Rig, job, new_rig
from fournos.api.kinds import FOURNOS_JOB
from fournos.engine.kube.client import Client
from fournos.engine.kube.resource import Obj, Resource

CLUSTERS = 6
SLOTS = 100
"""Quota for more jobs than exist concurrently: if jobs queued, the round would measure the executors."""
QUOTAS = {f"bench-{number}": SLOTS for number in range(1, CLUSTERS + 1)}
ALONE = 20
"""The number of jobs of a round that submits one job at a time."""
_WARM_UP = 90.0
"""Seconds after which the first round starts at the latest."""
JOB_LIMIT = 300.0
_QUIET = 1.0
_ALONE: Final = Target("one job at a time, p50", "s", 0.2)
_THIRTY: Final = Target("30 jobs together, p50", "s", 1.6)
_MANY: Final = Target("500 jobs together", "jobs/s", 12, at_least=True)
_REQUESTS: Final = Target("API requests a job, all but the benchmark's", "", 18)
_CPU: Final = Target("operator CPU a job", "ms", 15)

Counts: TypeAlias = Counter[tuple[str, str]]
"""The number of requests by verb (as the API server names it) and resource."""

HOPS: tuple[tuple[str, str, str, str], ...] = (
    ("submitted", "resolving", "operator", "submit → phase Resolving"),
    ("resolving", "resolve-job", "operator", "Resolving → resolve Job"),
    ("resolve-job", "resolved", "benchmark", "resolve Job → completed"),
    ("resolved", "workload", "operator", "resolve Job completed → Workload"),
    ("workload", "quota", "Kueue", "Workload → admitted by Kueue"),
    ("quota", "admitted", "operator", "admitted by Kueue → phase Admitted"),
    ("admitted", "run", "operator", "Admitted → PipelineRun"),
    ("run", "ran", "benchmark", "PipelineRun → succeeded"),
    ("ran", TERMINAL, "operator", "PipelineRun succeeded → phase Succeeded"),
)
"""First event, last event, component that acts between them, and description."""


@dataclass(frozen=True, slots=True)
class Subject:
    """The kind of object that is measured."""

    resource: Resource
    body: Callable[[str], Obj]
    """Returns the manifest for a name."""
    hops: tuple[tuple[str, str, str, str], ...]


JOBS = Subject(FOURNOS_JOB, job, HOPS)


@dataclass(frozen=True, slots=True)
class Round:
    """The result of one round of jobs; times in seconds."""

    jobs: int
    together: bool
    p50: float
    p95: float
    seconds: float
    """From the first submission to the last terminal phase."""
    hops: dict[str, tuple[float, float]]
    """Description → p50 and p95."""
    requests: dict[str, float]
    """Requests per job, by client: "operator", "events" (the operator's), "kueue and others", "all"."""
    cpu_ms: float
    """CPU time of the operator per job, in milliseconds."""
    passes: float
    """Reconciles of the operator per job."""
    rss_mb: float
    """Resident memory of the operator at the end of the round."""
    cpu_of: dict[str, float]
    """CPU milliseconds per job, by process, until the last job has ended."""
    others: float
    """The share of the machine's CPU, 0 to 1, used by processes outside of the benchmark."""

    rate: float
    """Jobs per second."""


@dataclass(frozen=True, slots=True)
class Lifecycle(Result):
    rounds: list[Round]

    def targets(self) -> list[tuple[Target, float]]:
        found = []
        for each in self.rounds:
            if not each.together:
                found.append((_ALONE, each.p50))
            elif each.jobs == 30:
                found.append((_THIRTY, each.p50))
            elif each.jobs == 500:
                found.append((_MANY, each.rate))
        most = max(self.rounds, key=lambda each: each.jobs)
        requests = max(each.requests["all"] for each in self.rounds)
        return [*found, (_REQUESTS, requests), (_CPU, most.cpu_ms)]


async def measure(name: str, *, jobs: Sequence[int], durable: bool, directory: Path, keep: bool) -> Lifecycle:
    """Measures one round for each size on a new cluster `name`; for `durable` see `new_rig`.

    Size 1 stands for ALONE jobs, one after another.
    """
    async with new_rig(name, quotas=QUOTAS, durable=durable, keep=keep) as rig:
        log = directory / "operator.log"
        async with (
            operator(rig.cluster.kubeconfig_path, log) as running,
            Executors(rig.client).watching() as executors,
        ):
            return Lifecycle(await measured(rig, running, executors, JOBS, jobs))


async def measured(
    rig: Rig,
    running: Operator,
    executors: Onlooker,
    subject: Subject,
    sizes: Sequence[int],
    *,
    prefix: str = "",
) -> list[Round]:
    """Measures one round for each size, after a warm-up.  The names of all jobs begin with `prefix`."""
    await _warm_up(rig, running, executors, subject, prefix=prefix)
    return [
        await _round(rig, running, executors, subject, size, prefix=f"{prefix}r{place}")
        for place, size in enumerate(sizes)
    ]


async def _warm_up(
    rig: Rig, running: Operator, executors: Onlooker, subject: Subject, *, prefix: str
) -> None:
    """Runs jobs until Kubernetes' garbage collector watches the resource type.

    The garbage collector discovers new resource types twice a minute.  Until then it sends a get for the
    owner of each dependent, which would distort the number of requests: a cluster in use does not do this.
    """
    reads = ("get", str(subject.resource))
    started, number = time.perf_counter(), 0
    while number < 2 or time.perf_counter() - started < _WARM_UP:
        own, all_, before = rig.sent.copy(), await answered(rig.client), await running.usage()
        await submit_and_wait(rig, executors, subject, f"{prefix}warm-{number}")
        await settle(rig, running)
        gets = (await answered(rig.client) - all_)["GET", subject.resource.plural]
        gets -= ((await running.usage()).requests - before.requests)["local", *reads]
        gets -= rig.sent.get(reads, 0) - own.get(reads, 0)
        number += 1
        if number > 1 and not gets:
            return


async def _round(
    rig: Rig, running: Operator, executors: Onlooker, subject: Subject, size: int, *, prefix: str
) -> Round:
    together = size > 1
    jobs = [f"{prefix}-{number}" for number in range(size if together else ALONE)]
    await settle(rig, running)
    own, all_, before = Counter(rig.sent), await answered(rig.client), await running.usage()
    processes = {"operator": running.pid, **rig.processes()}
    load_before = load(processes)
    started = time.perf_counter()
    if together:
        await asyncio.gather(*(submit_and_wait(rig, executors, subject, job) for job in jobs))
    else:
        for job in jobs:
            await submit_and_wait(rig, executors, subject, job)
    used = load(processes).since(load_before)
    seconds = max(executors.times[job][TERMINAL] for job in jobs) - started
    await settle(rig, running)
    own_after, all_after, after = Counter(rig.sent), await answered(rig.client), await running.usage()
    wrong = [job for job in jobs if executors.phases[job] != "Succeeded"]
    if wrong:
        phase = executors.phases[wrong[0]]
        raise RuntimeError(f"{len(wrong)} jobs have not succeeded, {wrong[0]} is {phase}")
    took = [executors.times[job][TERMINAL] - executors.times[job]["submitted"] for job in jobs]
    return Round(
        jobs=len(jobs),
        together=together,
        p50=median(took),
        p95=_p95(took),
        seconds=seconds,
        hops=_hops(executors, subject, jobs),
        requests=_requests(own_after - own, all_after - all_, before, after, len(jobs)),
        cpu_ms=(after.cpu - before.cpu) * 1000 / len(jobs),
        passes=(after.passes - before.passes) / len(jobs),
        rss_mb=after.rss / MB,
        cpu_of={name: seconds * 1000 / len(jobs) for name, seconds in used.processes.items()},
        others=used.others,
        rate=len(jobs) / seconds,
    )


async def submit_and_wait(rig: Rig, executors: Onlooker, subject: Subject, name: str) -> None:
    executors.note(name, "submitted")
    await rig.client.create(subject.resource, subject.body(name))
    await executors.ended(name, limit=JOB_LIMIT)


async def settle(rig: Rig, running: Operator | None) -> None:
    """Waits for the last writes of finalizers, Events and quotas: until no client sends a request.

    `running` is None where Kueue is measured without an operator.
    """
    last = None
    while True:
        seen = sum((await answered(rig.client)).values()) - sum(rig.sent.values())
        if seen == last and not (running and await running.busy()):
            return
        last = seen + 1  # the client counts the request of `answered`; the server does not
        await asyncio.sleep(_QUIET)


def _requests(own: Counts, all_: Counts, before: Usage, after: Usage, jobs: int) -> dict[str, float]:
    """Attributes the requests to clients; returns the numbers per job.

    The benchmark's requests come from its client, the operator's from its metrics, and the server counts the
    total; the rest is the difference.
    """
    done = after.requests - before.requests
    operators = sum(n for (client, verb, _), n in done.items() if client == "local" and verb != "watch")
    events = sum(n for (client, _, _), n in done.items() if client == "events")
    whole = all_.total() - with_resource(own)
    totals = {
        "operator": operators,
        "events": events,
        "kueue and others": whole - operators - events,
        "all": whole,
    }
    return {whose: total / jobs for whose, total in totals.items()}


def with_resource(sent: Mapping[tuple[str, str], int]) -> int:
    """The server's count leaves out requests without a resource, so the benchmark's must, too."""
    return sum(number for (_, resource), number in sent.items() if resource)


def _hops(executors: Onlooker, subject: Subject, jobs: Sequence[str]) -> dict[str, tuple[float, float]]:
    """Returns description → p50 and p95 of each hop.

    A hop is left out for a job whose phase was too short to appear in a watch event.
    """
    result = {}
    for start, end, who, words in subject.hops:
        times = [
            max(0.0, executors.times[job][end] - executors.times[job][start])
            for job in jobs
            if start in executors.times[job] and end in executors.times[job]
        ]
        if times:
            result[f"{words} ({who})"] = (median(times), _p95(times))
    return result


def _p95(values: Sequence[float]) -> float:
    return quantiles(values, n=20, method="inclusive")[-1] if len(values) > 1 else values[0]


_NOT_WORK = frozenset({"leases", ""})
"""Not counted: leases, and requests without a resource (/metrics, /readyz, discovery)."""


async def answered(client: Client) -> Counts:
    """Returns all requests so far, without watches, leases and requests without a resource.

    Watches are left out: the server counts a watch when it ends, and watches are renewed also without jobs.
    """
    text = (await client.raw_get("/metrics")).decode()
    wanted = "\n".join(line for line in text.splitlines() if "apiserver_request_total" in line)
    counts: Counts = Counter()
    for name, labels, value in samples(wanted + "\n"):
        if name == "apiserver_request_total" and labels["verb"] != "WATCH":
            resource = labels.get("resource", "")
            if resource not in _NOT_WORK:
                counts[labels["verb"], resource] += int(value)
    return counts
