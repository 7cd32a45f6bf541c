"""Jobs from submission to Succeeded, one at a time and many together."""

from __future__ import annotations

import asyncio
import time
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from statistics import median, quantiles
from typing import Any

from bench.counts import answered
from bench.executors import TERMINAL, Executors, Onlooker
from bench.machine import load
from bench.operator import Operator, Usage, operator
from bench.rig import Rig, job, rig
from fournos.jobs.kinds import FOURNOS_JOB
from fournos.kube.resource import Obj, Resource

CLUSTERS = 6
SLOTS = 100
"""Quota for more jobs than live at the same time: a queue would measure the executors."""
ALONE = 20
"""Jobs of the round that submits one after another."""
_WARM_UP = 20
_JOB_LIMIT = 300.0
_QUIET = 1.0

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
"""From, to, who is at work, in words."""


@dataclass(frozen=True, slots=True)
class Subject:
    """What is measured."""

    resource: Resource
    body: Callable[[str], Obj]
    """Its manifest, by name."""
    hops: tuple[tuple[str, str, str, str], ...]


JOBS = Subject(FOURNOS_JOB, job, HOPS)


@dataclass(frozen=True, slots=True)
class Round:
    """What one round of jobs measured; times in seconds."""

    jobs: int
    together: bool
    p50: float
    p95: float
    seconds: float
    """From the first submission to the last terminal phase."""
    hops: dict[str, tuple[float, float]]
    """In words → p50 and p95."""
    requests: dict[str, float]
    """Requests a job: "operator", "events" (the operator's), "kueue and others", "all"."""
    requests_of: dict[str, dict[str, int]]
    """The same in full: whose → verb and resource → number."""
    cpu_ms: float
    """The operator's, a job."""
    passes: float
    """The operator's, a job."""
    rss: int
    """Bytes, at the end of the round."""
    cpu_of: dict[str, float]
    """Milliseconds a job, by process, until the last job was done."""
    others: float
    """The share of the machine, 0 to 1, that processes took which have nothing to do with us."""

    @property
    def how(self) -> str:
        return "together" if self.together else "one by one"

    @property
    def rate(self) -> float:
        """Jobs a second."""
        return self.jobs / self.seconds

    @property
    def rate_alone(self) -> float:
        """Jobs a second that the machine would do had it nothing else to do: an estimate."""
        return self.rate / (1 - self.others) if self.others < 1 else 0.0

    def to_json(self) -> dict[str, Any]:
        return {**asdict(self), "rate": self.rate, "rate_alone": self.rate_alone}


async def measure(
    name: str, sizes: Sequence[int], *, directory: Path, profile: Path | None, keep: bool
) -> list[Round]:
    """One round for each size (1 stands for ALONE jobs one after another) on a fresh cluster `name`."""
    quotas = {f"bench-{number}": SLOTS for number in range(1, CLUSTERS + 1)}
    async with rig(name, quotas=quotas, keep=keep) as found:
        log = directory / "operator.log"
        async with (
            operator(found.cluster.kubeconfig_path, log, profile=profile) as running,
            Executors(found.client).watching() as executors,
        ):
            rounds = await measured(found, running, executors, JOBS, sizes)
    return rounds


async def measured(
    found: Rig, running: Operator, executors: Onlooker, subject: Subject, sizes: Sequence[int]
) -> list[Round]:
    """One round for each size, once all is warm."""
    await _warm_up(found, running, executors, subject)
    return [
        await _round(found, running, executors, subject, size, prefix=f"r{place}")
        for place, size in enumerate(sizes)
    ]


async def _warm_up(found: Rig, running: Operator, executors: Onlooker, subject: Subject) -> None:
    """Until Kubernetes' garbage collector has learnt of the resource type.

    It looks for new resource types twice a minute, and until then asks for the owner of each object that
    one of them owns, which is nothing that a cluster in use does.
    """
    wanted = ("get", str(subject.resource))
    for number in range(_WARM_UP):
        own, all_, before = found.sent.copy(), await answered(found.client), await running.usage()
        await _one(found, executors, subject, f"warm-{number}")
        await _settle(found, running)
        asked = (await answered(found.client) - all_)["GET", subject.resource.plural]
        asked -= ((await running.usage()).requests - before.requests)["local", *wanted]
        asked -= found.sent.get(wanted, 0) - own.get(wanted, 0)
        if number and not asked:
            return


async def _round(
    found: Rig, running: Operator, executors: Onlooker, subject: Subject, size: int, *, prefix: str
) -> Round:
    together = size > 1
    jobs = [f"{prefix}-{number}" for number in range(size if together else ALONE)]
    await _settle(found, running)
    own, all_, before = Counter(found.sent), await answered(found.client), await running.usage()
    processes = {"operator": running.pid, **found.processes()}
    load_before = load(processes)
    started = time.perf_counter()
    if together:
        await asyncio.gather(*(_one(found, executors, subject, job) for job in jobs))
    else:
        for job in jobs:
            await _one(found, executors, subject, job)
    used = load(processes).since(load_before)
    seconds = max(executors.times[job][TERMINAL] for job in jobs) - started
    await _settle(found, running)
    own_after, all_after, after = Counter(found.sent), await answered(found.client), await running.usage()
    wrong = [job for job in jobs if executors.phases[job] != "Succeeded"]
    if wrong:
        phase = executors.phases[wrong[0]]
        raise RuntimeError(f"{len(wrong)} jobs have not succeeded, {wrong[0]} is {phase}")
    took = [executors.times[job][TERMINAL] - executors.times[job]["submitted"] for job in jobs]
    per_job, in_full = _requests(own_after - own, all_after - all_, before, after, len(jobs))
    return Round(
        jobs=len(jobs),
        together=together,
        p50=median(took),
        p95=_p95(took),
        seconds=seconds,
        hops=_hops(executors, subject, jobs),
        requests=per_job,
        requests_of=in_full,
        cpu_ms=(after.cpu - before.cpu) * 1000 / len(jobs),
        passes=(after.passes - before.passes) / len(jobs),
        rss=after.rss,
        cpu_of={name: seconds * 1000 / len(jobs) for name, seconds in used.processes.items()},
        others=used.others,
    )


async def _one(found: Rig, executors: Onlooker, subject: Subject, name: str) -> None:
    executors.note(name, "submitted")
    await found.client.create(subject.resource, subject.body(name))
    await executors.ended(name, limit=_JOB_LIMIT)


async def _settle(found: Rig, running: Operator) -> None:
    """Returns when the last finalizers, Events and quotas are written: nobody asks for anything."""
    last = None
    while True:
        seen = sum((await answered(found.client)).values()) - sum(found.sent.values())
        if seen == last and not await running.busy():
            return
        last = seen + 1  # the look itself is not counted by the server, but is by the client
        await asyncio.sleep(_QUIET)


def _requests(
    own: Counter[tuple[str, str]],
    all_: Counter[tuple[str, str]],
    before: Usage,
    after: Usage,
    jobs: int,
) -> tuple[dict[str, float], dict[str, dict[str, int]]]:
    """Whose requests: the benchmark's by its client, the operator's by its metrics, the rest by subtraction.

    The server's own count is the whole.  Client and server name verbs differently; resources are compared.
    """
    done = after.requests - before.requests
    operators = Counter(
        {(v, r): n for (client, v, r), n in done.items() if client == "local" and v != "watch"}
    )
    events = Counter({(v, r): n for (client, v, r), n in done.items() if client == "events"})
    mine = Counter({(verb, resource): n for (verb, resource), n in own.items() if resource})
    rest = _by_resource(all_)
    rest.subtract(_by_resource(operators))
    rest.subtract(_by_resource(events))
    rest.subtract(_by_resource(mine))
    whole = all_.total() - mine.total()
    totals = {
        "operator": operators.total(),
        "events": events.total(),
        "kueue and others": rest.total(),
        "all": whole,
    }
    full = {
        "operator": {" ".join(key): n for key, n in operators.items()},
        "events": {" ".join(key): n for key, n in events.items()},
        "kueue and others": {resource: n for resource, n in rest.items() if n},
        "server": {" ".join(key): n for key, n in all_.items()},
    }
    return {whose: total / jobs for whose, total in totals.items()}, full


def _by_resource(counts: Counter[tuple[str, str]]) -> Counter[str]:
    result: Counter[str] = Counter()
    for (_, resource), n in counts.items():
        result[resource.partition(".")[0]] += n
    return result


def _hops(executors: Onlooker, subject: Subject, jobs: Sequence[str]) -> dict[str, tuple[float, float]]:
    """A phase so short that the watch never showed it alone leaves its hop out for that job."""
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
