"""Measures the published operator of FournosJobs from a checkout that the user has, beside this one.

Both take turns on one control plane, each with its own CRD, with the same jobs and the same played executors.
The checkout brings its code and its CRD; its interpreter brings the packages that it needs.
"""

from __future__ import annotations

import asyncio
import os
import subprocess
import time
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import Final

import aiohttp

from bench.ceiling import Cost, cost, delete_all
from bench.executors import TERMINAL, Executors
from bench.lifecycle import JOBS, QUOTAS, settle
from bench.operator import ROOT, free_port, operator, start, tail
from bench.result import RangedResult
from bench.rig import NAMESPACE, SECRETS_NAMESPACE, Rig, rig
from dev import resources
from devcluster import DevclusterError
from devcluster.kubectl import await_established
from fournos import __version__
from fournos.api.kinds import FOURNOS_JOB

OURS, THEIRS = "this", "upstream"
_CRD: Final = Path("manifests/crd.yaml")
_RESOLVE: Final = Path("dev/mock-resolve/resolve_job.yaml")
_READY_WITHIN: Final = 60.0
_GONE_WITHIN: Final = 120.0


@dataclass(frozen=True, slots=True)
class Turn:
    """One turn of one operator; `p50` in seconds from the submission of a job to its end."""

    cost: Cost
    p50: float


@dataclass(frozen=True, slots=True)
class Beside(RangedResult):
    """Both operators, with their versions."""

    versions: Mapping[str, str]
    turns: list[Turn]

    def quotients(self) -> dict[str, float]:
        """Returns this operator's medians over those of the other.

        The rate is as measured: one that waits for timers is not higher on a machine without other processes.
        """
        numbers: dict[str, Callable[[Turn], float]] = {
            "rate": lambda turn: turn.cost.rate,
            "p50": lambda turn: turn.p50,
            "requests": lambda turn: turn.cost.requests,
            "cpu": lambda turn: turn.cost.cpu,
        }
        return {what: self._median(OURS, of) / self._median(THEIRS, of) for what, of in numbers.items()}

    def _median(self, system: str, of: Callable[[Turn], float]) -> float:
        return median(of(turn) for turn in self.turns if turn.cost.system == system)


async def measure(
    name: str, jobs: int, *, checkout: Path, python: Path, turns: int, directory: Path, keep: bool
) -> Beside:
    """Measures both with `jobs` jobs together, `turns` times, on a new cluster `name`.

    Raises DevclusterError if the checkout is none, or its process ends.
    """
    for path in (_CRD, _RESOLVE, Path("fournos/__main__.py")):
        if not (checkout / path).is_file():
            raise DevclusterError(f"{checkout} is no checkout of the published operator: it has no {path}")
    versions = {OURS: __version__, THEIRS: await asyncio.to_thread(_version, checkout, python)}
    done: list[Turn] = []
    async with rig(name, quotas=QUOTAS, keep=keep) as found:
        for turn in range(turns):
            for system in (OURS, THEIRS):
                root = ROOT if system == OURS else checkout
                await asyncio.to_thread(_apply_crd, found, root / _CRD)
                log = directory / f"{system}.log"
                async with (
                    _running(found, system, checkout, python, log) as pid,
                    Executors(found.client).watching() as executors,
                ):
                    done.append(
                        await _turn(found, executors, jobs, system=system, prefix=f"{system}{turn}", pid=pid)
                    )
                    await _gone(found)
    return Beside(versions, done)


async def _turn(found: Rig, executors: Executors, jobs: int, *, system: str, prefix: str, pid: int) -> Turn:
    taken = await cost(found, executors, JOBS, jobs, system=system, prefix=prefix, pid=pid)
    names = [f"{prefix}-{number}" for number in range(jobs)]
    wrong = [name for name in names if executors.phases[name] != "Succeeded"]
    if wrong:
        raise DevclusterError(
            f"{system}: {len(wrong)} jobs have not succeeded, {wrong[0]} is {executors.phases[wrong[0]]}"
        )
    times = [executors.times[name] for name in names]
    return Turn(taken, median(each[TERMINAL] - each["submitted"] for each in times))


async def _gone(found: Rig) -> None:
    """Deletes the jobs while their operator runs: it may have to remove a finalizer.  Raises TimeoutError."""
    await delete_all(found, FOURNOS_JOB)
    async with asyncio.timeout(_GONE_WITHIN):
        while (await found.client.list(FOURNOS_JOB, namespace=NAMESPACE)).items:  # noqa: ASYNC110
            await asyncio.sleep(0.5)
    await settle(found, None)


def _apply_crd(found: Rig, path: Path) -> None:
    resources.apply(found.cluster, resources.load(str(path)))
    await_established(found.cluster.kubectl_words())


@asynccontextmanager
async def _running(found: Rig, system: str, checkout: Path, python: Path, log: Path) -> AsyncIterator[int]:
    """Runs the operator, and yields its PID when it is ready."""
    kubeconfig = found.cluster.kubeconfig_path
    if system == OURS:
        async with operator(kubeconfig, log) as running:
            yield running.pid
        return
    live = f"http://127.0.0.1:{free_port()}/healthz"
    environment = {name: value for name, value in os.environ.items() if not name.startswith("FOURNOS_")} | {
        "KUBECONFIG": str(kubeconfig),
        "FOURNOS_WORKLOAD_NAMESPACE": NAMESPACE,
        "FOURNOS_SECRETS_NAMESPACE": SECRETS_NAMESPACE,
        "FOURNOS_RESOLVE_JOB_TEMPLATE": str(checkout / _RESOLVE),
    }
    words = [str(python), "-m", "fournos", f"--liveness={live}"]
    process = await asyncio.to_thread(start, words, environment, log, checkout)
    try:
        await _ready(process, live, log)
        yield process.pid
    finally:
        process.terminate()
        await asyncio.to_thread(process.wait)


async def _ready(process: subprocess.Popen[bytes], live: str, log: Path) -> None:
    end = time.perf_counter() + _READY_WITHIN
    async with aiohttp.ClientSession() as session:
        while process.poll() is None and time.perf_counter() < end:
            try:
                async with session.get(live) as answer:
                    if answer.status == 200:
                        return
            except aiohttp.ClientError:
                pass  # it does not listen yet
            await asyncio.sleep(0.1)
    raise DevclusterError("The published operator does not become ready.", evidence=tail(log))


def _version(checkout: Path, python: Path) -> str:
    """Returns its version, and that of the framework that runs it.  Raises DevclusterError."""
    code = (
        "import tomllib, importlib.metadata as m;"
        "project = tomllib.load(open('pyproject.toml', 'rb'))['project'];"
        "print(project['version'], 'on kopf', m.version('kopf'))"
    )
    done = subprocess.run(
        [str(python), "-c", code], cwd=checkout, capture_output=True, text=True, check=False
    )
    if done.returncode:
        raise DevclusterError(
            f"{python} cannot run the published operator",
            evidence=done.stderr[-500:],
            hint="Make an environment with its packages, and name it by --python: "
            f"python -m venv DIR, DIR/bin/pip install {checkout}",
        )
    return done.stdout.strip()
