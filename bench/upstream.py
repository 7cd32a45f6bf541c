"""Measures published operators, each from a checkout that the user has, beside this one.

Both take turns on one control plane, each with its own CRD, with the same objects and the same played
executors.  A checkout brings its code and its CRD; nothing of it is here.
"""

from __future__ import annotations

import asyncio
import subprocess
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import Final

import aiohttp

from bench.ceiling import Cost, cost, delete_all
from bench.executors import TERMINAL
from bench.lifecycle import QUOTAS, settle
from bench.operator import ROOT, operator, start, tail
from bench.published_operators import PUBLISHED, Checkout, PublishedOperator, environment
from bench.report import Result
from bench.rig import NAMESPACE, Rig, new_rig
from dev import resources
from devcluster import DevclusterError
from devcluster.kubectl import await_established
from fournos import __version__

OURS, THEIRS = "this", "upstream"
_READY_WITHIN: Final = 60.0
_GONE_WITHIN: Final = 120.0


@dataclass(frozen=True, slots=True)
class Turn:
    """One turn of one operator; `p50` in seconds from the submission of an object to its end.

    The end of a MiniCluster is here that its Job exists.
    """

    option: str
    """That of PUBLISHED."""
    version: str
    cost: Cost
    p50: float


@dataclass(frozen=True, slots=True)
class Beside(Result):
    """The turns of published operators and of this one."""

    turns: list[Turn]

    def quotients(self) -> dict[str, float]:
        """Returns this operator's medians over those of each other.

        The rate is as measured: one that waits for timers is not higher on a machine without other processes.
        """
        numbers: dict[str, Callable[[Turn], float]] = {
            "rate": lambda turn: turn.cost.rate,
            "p50": lambda turn: turn.p50,
            "requests": lambda turn: turn.cost.requests,
            "cpu": lambda turn: turn.cost.cpu,
        }
        return {
            f"{option}.{what}": self._median(option, OURS, of) / self._median(option, THEIRS, of)
            for option in dict.fromkeys(turn.option for turn in self.turns)
            for what, of in numbers.items()
        }

    def _median(self, option: str, system: str, of: Callable[[Turn], float]) -> float:
        return median(of(turn) for turn in self.turns if (turn.option, turn.cost.system) == (option, system))


async def measure(
    name: str,
    *,
    fournos: Path | None,
    appwrapper: Path | None,
    minicluster: Path | None,
    python: Path | None,
    jobs: int,
    turns: int,
    directory: Path,
    keep: bool,
) -> Beside:
    """Measures each published operator that has a checkout, and this one, with `jobs` objects together.

    Each takes `turns` turns, on a new cluster `name`.  Raises DevclusterError if there is no checkout, one is
    of something else, or a published operator ends.
    """
    paths = {"fournos": fournos, "appwrapper": appwrapper, "minicluster": minicluster}
    prepared = {
        option: PUBLISHED[option].prepare(PUBLISHED[option].checked(path), python, directory)
        for option, path in paths.items()
        if path
    }
    if not prepared:
        words = ", ".join(f"--{option} DIR" for option in paths)
        raise DevclusterError(
            "There is nothing to measure beside this operator", hint=f"Name one of {words}."
        )
    done: list[Turn] = []
    async with new_rig(name, quotas=QUOTAS, keep=keep) as rig:
        for option, checkout in prepared.items():
            for turn in range(turns):
                for system in (OURS, THEIRS):
                    log = directory / f"{option}-{system}.log"
                    prefix = f"{system}{turn}"
                    taken, p50 = await _turn(rig, PUBLISHED[option], checkout, jobs, system, prefix, log)
                    version = __version__ if system == OURS else checkout.version
                    done.append(Turn(option, version, taken, p50))
    return Beside(done)


async def _turn(
    rig: Rig,
    published: PublishedOperator,
    checkout: Checkout,
    jobs: int,
    system: str,
    prefix: str,
    log: Path,
) -> tuple[Cost, float]:
    """Returns the cost, and the median time of an object."""
    crd = ROOT / published.our_crd if system == OURS else checkout.path / published.crd
    await asyncio.to_thread(_apply_crd, rig, crd)
    async with (
        _running(rig, published, checkout, system, log) as pid,
        published.onlooker(rig.client).watching() as onlooker,
    ):
        taken = await cost(rig, onlooker, published.subject, jobs, system=system, prefix=prefix, pid=pid)
        names = [f"{prefix}-{number}" for number in range(jobs)]
        wrong = [name for name in names if onlooker.phases[name] != "Succeeded"]
        if wrong:
            phase = onlooker.phases[wrong[0]]
            raise DevclusterError(f"{system}: {len(wrong)} objects have not succeeded, {wrong[0]} is {phase}")
        times = [onlooker.times[name] for name in names]
        await _gone(rig, published)
    return taken, median(each[TERMINAL] - each["submitted"] for each in times)


async def _gone(rig: Rig, published: PublishedOperator) -> None:
    """Deletes the objects while their operator runs: it may have to remove a finalizer.

    Raises TimeoutError.
    """
    resource = published.subject.resource
    await delete_all(rig, resource)
    async with asyncio.timeout(_GONE_WITHIN):
        while (await rig.client.list(resource, namespace=NAMESPACE)).items:  # noqa: ASYNC110
            await asyncio.sleep(0.5)
    await settle(rig, None)


def _apply_crd(rig: Rig, path: Path) -> None:
    resources.apply(rig.cluster, resources.load(str(path)))
    await_established(rig.cluster.kubectl_words())


@asynccontextmanager
async def _running(
    rig: Rig, published: PublishedOperator, checkout: Checkout, system: str, log: Path
) -> AsyncIterator[int]:
    """Runs the operator, and yields its PID when it is ready."""
    kubeconfig = rig.cluster.kubeconfig_path
    if system == OURS:
        async with operator(kubeconfig, log, enable=published.part, settings=published.settings) as running:
            yield running.pid
        return
    theirs = await asyncio.to_thread(published.process, checkout, rig)
    process = await asyncio.to_thread(
        start, [*theirs.words], environment(kubeconfig, theirs), log, checkout.path
    )
    try:
        await _ready(process, theirs.ready, log)
        yield process.pid
    finally:
        process.terminate()
        await asyncio.to_thread(process.wait)


async def _ready(process: subprocess.Popen[bytes], address: str, log: Path) -> None:
    end = time.perf_counter() + _READY_WITHIN
    async with aiohttp.ClientSession() as session:
        while process.poll() is None and time.perf_counter() < end:
            try:
                async with session.get(address) as answer:
                    if answer.status == 200:
                        return
            except aiohttp.ClientError:
                pass  # it does not listen yet
            await asyncio.sleep(0.1)
    raise DevclusterError("The published operator does not become ready.", evidence=tail(log))
