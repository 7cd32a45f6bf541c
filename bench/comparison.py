"""Measures the operators of two checkouts in turns on one cluster, so that both meet the same machine."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import fmean
from typing import Any

from bench.executors import Executors
from bench.lifecycle import JOBS, QUOTAS, Round, measured
from bench.operator import ROOT, operator
from bench.rig import new_rig

THIS, OTHER = "this", "other"
_NUMBERS: dict[str, Callable[[Round], float]] = {
    "p50, s": lambda each: each.p50,
    "jobs a second": lambda each: each.rate,
    "requests a job": lambda each: each.requests["all"],
    "of the operator": lambda each: each.requests["operator"] + each.requests["events"],
    "operator CPU a job, ms": lambda each: each.cpu_ms,
    "API server CPU a job, ms": lambda each: each.cpu_of["kube-apiserver"],
    "passes a job": lambda each: each.passes,
    "others' share of the machine": lambda each: each.others,
}


@dataclass(frozen=True, slots=True)
class Turn:
    """The rounds of one operator process."""

    whose: str
    rounds: list[Round]

    def to_json(self) -> dict[str, Any]:
        return {"whose": self.whose, "rounds": [each.to_json() for each in self.rounds]}


async def compare(
    name: str, sizes: Sequence[int], *, against: Path, turns: int, directory: Path, keep: bool
) -> list[Turn]:
    """Measures one round for each size and turn with both operators.

    The order alternates (other, this, this, other, …), because objects accumulate on the cluster.
    """
    checkouts = {THIS: ROOT, OTHER: against}
    done: list[Turn] = []
    async with (
        new_rig(name, quotas=QUOTAS, keep=keep) as rig,
        Executors(rig.client).watching() as executors,
    ):
        for number in range(turns):
            for whose in (OTHER, THIS) if number % 2 == 0 else (THIS, OTHER):
                prefix = f"{whose}{number}-"
                log = directory / f"{prefix}operator.log"
                kubeconfig = rig.cluster.kubeconfig_path
                async with operator(kubeconfig, log, checkout=checkouts[whose]) as running:
                    rounds = await measured(rig, running, executors, JOBS, sizes, prefix=prefix)
                done.append(Turn(whose, rounds))
    return done


@dataclass(frozen=True, slots=True)
class Compared:
    """The mean of a number over all turns, for one size."""

    what: str
    size: str
    this: float
    other: float

    @property
    def ratio(self) -> float:
        return self.this / self.other if self.other else float("inf")


def summary(turns: Sequence[Turn]) -> list[Compared]:
    """Returns each number of each size with both means."""
    compared = []
    for place, size in enumerate(turns[0].rounds):
        for what, read in _NUMBERS.items():
            this, other = (
                fmean(read(turn.rounds[place]) for turn in turns if turn.whose == whose)
                for whose in (THIS, OTHER)
            )
            compared.append(Compared(what, f"{size.jobs} {size.how}", this, other))
    return compared
