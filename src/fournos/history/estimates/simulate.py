"""Estimates when a waiting job will start and end, by playing the queue to its end many times.  Pure.

Each play draws the duration of every job from those of comparable runs, and admits jobs as Kueue does: in
their order, each to the first flavor with room; without StrictFIFO a job that does not fit lets others pass.
The draws come from a fixed seed, so that the same queue has the same estimate.

An estimate assumes that no job is added before this one, that no quota changes, and that no job is preempted.
"""

from __future__ import annotations

import heapq
import random
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import Final

from fournos.engine.kube.resource import Key
from fournos.history.estimates.durations import MIN_RUNS, Durations, quantile
from fournos.history.estimates.queue import QueueModel, RunningJob, WaitingJob, add, fitting
from fournos.insight.values import count

PLAYS: Final = 100
_SEED: Final = 20260101
NO_HISTORY: Final = f"not enough history: fewer than {MIN_RUNS} comparable runs"
_OVERDUE: Final = 0.25
"""A job that runs longer than all comparable ones is expected to need this part of its time once more."""


@dataclass(frozen=True, slots=True)
class Range:
    """A time in the future: half of the plays are earlier than the median, nine of ten earlier than p90."""

    median: datetime
    p90: datetime


@dataclass(frozen=True, slots=True)
class Estimate:
    """When a job will start and end; None with the reason why it is not known."""

    start: Range | None
    end: Range | None
    basis: str = ""
    """The runs that its duration was taken from."""
    reason: str = ""


@dataclass(frozen=True, slots=True)
class WouldStart:
    """What would happen to a job that is submitted now."""

    now: bool
    flavor: str
    """Where it would start now; "" if it would wait."""
    estimate: Estimate


def estimate(queue: QueueModel, key: Key, now: datetime) -> Estimate:
    """Estimates a waiting job of the queue.  Raises KeyError if it is not in the queue."""
    return estimates(queue, [key], now)[key]


def estimates(queue: QueueModel, keys: Iterable[Key], now: datetime) -> dict[Key, Estimate]:
    """Estimates several waiting jobs by the same plays.  Raises KeyError for one that is not in the queue."""
    jobs = {one.key: one for one in queue.waiting}
    estimated = {key: jobs[key] for key in keys}
    result = {
        key: Estimate(None, None, reason=reason)
        for key, job in estimated.items()
        if (reason := _obstacle(queue, job))
    }
    targets = frozenset(estimated.keys() - result.keys())
    source = random.Random(_SEED)  # noqa: S311  reproducible on purpose
    shapes = _shapes(queue)
    starts: dict[Key, list[float]] = {key: [] for key in estimated if key in targets}
    for _ in range(PLAYS if targets else 0):
        for key, first in _play(queue, shapes, targets, source).items():
            starts[key].append(first)
    return result | {key: _estimate(estimated[key], found, now, source) for key, found in starts.items()}


def _estimate(job: WaitingJob, starts: list[float], now: datetime, source: random.Random) -> Estimate:
    if not starts:
        return Estimate(None, None, reason="no quota will be free while everything stays as it is")
    start = _range(starts, now)
    if job.durations is None:
        return Estimate(start, None, reason=NO_HISTORY)
    ends = [begun + source.choice(job.durations.seconds) for begun in starts for _ in range(3)]
    return Estimate(start, _range(ends, now), job.durations.basis)


def remaining(durations: Durations | None, elapsed: float, now: datetime) -> Estimate:
    """Estimates the end of a job that runs since `elapsed` seconds."""
    if durations is None:
        return Estimate(None, None, reason=NO_HISTORY)
    left = [length - elapsed for length in durations.seconds if length > elapsed] or [_OVERDUE * elapsed]
    return Estimate(None, _range(left, now), durations.basis)


def would_start(queue: QueueModel, job: WaitingJob, now: datetime, *, place: int | None = None) -> WouldStart:
    """Returns what would happen to a job that is not submitted yet, at `place` in the order (None: last)."""
    order = list(queue.waiting)
    order.insert(len(order) if place is None else place, job)
    with_it = replace(queue, waiting=tuple(order))
    admitted = {} if queue.stopped else _admit(with_it.waiting, with_it.free(), with_it, _shapes(with_it))
    flavor = admitted.get(job.key, "")
    return WouldStart(bool(flavor), flavor, estimate(with_it, job.key, now))


def _obstacle(queue: QueueModel, job: WaitingJob) -> str:
    """Returns why there is no estimate; "" if there is one."""
    if queue.stopped:
        return "its queue is stopped"
    if not job.flavors:
        return "its cluster takes no jobs" if job.closed else "no quota exists for what it asks for"
    if not any(
        all(queue.capacity.get(flavor, {}).get(resource, 0.0) >= amount for resource, amount in asks.items())
        for flavor, asks in job.flavors.items()
    ):
        return "it asks for more than there is"
    before = queue.waiting[: queue.waiting.index(job)]
    unknown = sum(earlier.durations is None and not _apart(earlier, job.flavors) for earlier in before) + sum(
        running.durations is None and running.flavor in job.flavors for running in queue.running
    )
    if unknown and fitting(job, queue.free()) is None:
        return f"not enough history: nothing is known of the duration of {count(unknown, 'job')} before it"
    return ""


def _apart(job: WaitingJob, flavors: Iterable[str]) -> bool:
    """True if the job never takes quota of these flavors."""
    return not set(job.flavors) & set(flavors)


def _shapes(queue: QueueModel) -> dict[Key, int]:
    """Numbers what the jobs ask for: jobs of the same shape fit, or do not fit, alike."""
    numbers: dict[tuple[object, ...], int] = {}
    return {
        job.key: numbers.setdefault(
            tuple((flavor, *sorted(asks.items())) for flavor, asks in job.flavors.items()), len(numbers)
        )
        for job in queue.waiting
    }


def _admit(
    waiting: Iterable[WaitingJob],
    free: dict[str, dict[str, float]],
    queue: QueueModel,
    shapes: Mapping[Key, int],
) -> dict[Key, str]:
    """Admits what fits now, in order: job → flavor.  Takes the quota from `free`."""
    admitted: dict[Key, str] = {}
    refused: set[int] = set()
    last = max(shapes.values(), default=0)
    for job in waiting:
        shape = shapes[job.key]
        flavor = None if shape in refused else fitting(job, free)
        if flavor is not None:
            add(free[flavor], job.flavors[flavor], -1)
            admitted[job.key] = flavor
        elif queue.strict:
            break
        else:
            refused.add(shape)
            if len(refused) > last:  # no job of any shape fits any more
                break
    return admitted


def _play(
    queue: QueueModel, shapes: Mapping[Key, int], targets: frozenset[Key], source: random.Random
) -> dict[Key, float]:
    """Plays the queue until all targets have started: job → seconds.  A job that never does is missing."""
    free = queue.free()
    ends: list[tuple[float, int, str, WaitingJob | RunningJob]] = []
    for number, job in enumerate(queue.running):
        if (left := _left(job.durations, job.elapsed, source)) is not None:
            heapq.heappush(ends, (left, number, job.flavor, job))
    waiting, clock, number = list(queue.waiting), 0.0, len(queue.running)
    started: dict[Key, float] = {}
    while True:
        admitted = _admit(waiting, free, queue, shapes)
        started |= dict.fromkeys(admitted.keys() & targets, clock)
        if len(started) == len(targets):
            return started
        for waiter in waiting if admitted else ():
            if waiter.key in admitted and (length := _left(waiter.durations, 0.0, source)) is not None:
                number += 1
                heapq.heappush(ends, (clock + length, number, admitted[waiter.key], waiter))
        if admitted:
            waiting = [waiter for waiter in waiting if waiter.key not in admitted]
        if not ends:
            return started
        clock, _, flavor, ended = heapq.heappop(ends)
        add(free[flavor], ended.holds if isinstance(ended, RunningJob) else ended.flavors[flavor], 1)


def _left(durations: Durations | None, elapsed: float, source: random.Random) -> float | None:
    """Draws how long a job will still run; None if nothing is known, so that its quota is never free."""
    if durations is None:
        return None
    longer = [length for length in durations.seconds if length > elapsed]
    return source.choice(longer) - elapsed if longer else _OVERDUE * elapsed


def _range(seconds: Iterable[float], now: datetime) -> Range:
    ordered = sorted(seconds)
    return Range(
        now + timedelta(seconds=quantile(ordered, 0.5)), now + timedelta(seconds=quantile(ordered, 0.9))
    )
