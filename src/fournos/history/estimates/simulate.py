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
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Final

from fournos.history.estimates.durations import MIN_RUNS, Durations, quantile
from fournos.history.estimates.queue import Queue, RunningJob, WaitingJob, add, fitting
from fournos.insight.values import count
from fournos.kube.resource import Key

PLAYS: Final = 100
_SEED: Final = 20260101
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


def estimate(queue: Queue, key: Key, now: datetime) -> Estimate:
    """Estimates a waiting job of the queue.  Raises KeyError if it is not in the queue."""
    job = next((one for one in queue.waiting if one.key == key), None)
    if job is None:
        raise KeyError(key)
    if reason := _obstacle(queue, job):
        return Estimate(None, None, reason=reason)
    source = random.Random(_SEED)  # noqa: S311  reproducible on purpose
    shapes = _shapes(queue)
    starts = [first for _ in range(PLAYS) if (first := _play(queue, shapes, job, source)) is not None]
    if not starts:
        return Estimate(None, None, reason="no quota will be free while everything stays as it is")
    start = _range(starts, now)
    if job.durations is None:
        return Estimate(start, None, reason=f"not enough history: fewer than {MIN_RUNS} comparable runs")
    ends = [begun + source.choice(job.durations.seconds) for begun in starts for _ in range(3)]
    return Estimate(start, _range(ends, now), job.durations.basis)


def would_start(queue: Queue, job: WaitingJob, now: datetime, *, place: int | None = None) -> WouldStart:
    """What would happen to a job that is not submitted yet, at its place in the order (None: the last)."""
    order = list(queue.waiting)
    order.insert(len(order) if place is None else place, job)
    with_it = Queue(queue.capacity, tuple(order), queue.running, queue.strict, queue.closed)
    admitted = _admit(with_it.waiting, with_it.free(), with_it, _shapes(with_it))
    flavor = admitted.get(job.key, "")
    return WouldStart(bool(flavor), flavor, estimate(with_it, job.key, now))


def _obstacle(queue: Queue, job: WaitingJob) -> str:
    """Why there is no estimate; "" if there is one."""
    open_flavors = [flavor for flavor in job.flavors if flavor not in queue.closed]
    if not open_flavors:
        return "its cluster takes no jobs" if job.flavors else "no quota exists for what it asks for"
    if not any(
        all(
            queue.capacity.get(flavor, {}).get(one, 0.0) >= amount
            for one, amount in job.flavors[flavor].items()
        )
        for flavor in open_flavors
    ):
        return "it asks for more than there is"
    before = queue.waiting[: queue.waiting.index(job)]
    unknown = sum(one.durations is None and not _apart(one, open_flavors) for one in before) + sum(
        one.durations is None and one.flavor in open_flavors for one in queue.running
    )
    if unknown and fitting(job, queue.free(), queue.closed) is None:
        return f"not enough history: nothing is known of the duration of {count(unknown, 'job')} before it"
    return ""


def _apart(job: WaitingJob, flavors: Iterable[str]) -> bool:
    """True if the job never takes quota of these flavors."""
    return not set(job.flavors) & set(flavors)


def _shapes(queue: Queue) -> dict[Key, int]:
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
    queue: Queue,
    shapes: Mapping[Key, int],
) -> dict[Key, str]:
    """Admits what fits now, in order: job → flavor.  Takes the quota from `free`."""
    admitted: dict[Key, str] = {}
    refused: set[int] = set()
    last = max(shapes.values(), default=0)
    for job in waiting:
        shape = shapes[job.key]
        flavor = None if shape in refused else fitting(job, free, queue.closed)
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


def _play(queue: Queue, shapes: Mapping[Key, int], target: WaitingJob, source: random.Random) -> float | None:
    """Plays the queue until the target starts: after how many seconds; None if it never does."""
    free = queue.free()
    ends: list[tuple[float, int, str, WaitingJob | RunningJob]] = []
    for number, job in enumerate(queue.running):
        if (left := _left(job.durations, job.elapsed, source)) is not None:
            heapq.heappush(ends, (left, number, job.flavor, job))
    waiting, clock, number = list(queue.waiting), 0.0, len(queue.running)
    while True:
        admitted = _admit(waiting, free, queue, shapes)
        if target.key in admitted:
            return clock
        for one in waiting if admitted else ():
            if one.key in admitted and (length := _left(one.durations, 0.0, source)) is not None:
                number += 1
                heapq.heappush(ends, (clock + length, number, admitted[one.key], one))
        if admitted:
            waiting = [one for one in waiting if one.key not in admitted]
        if not ends:
            return None
        clock, _, flavor, ended = heapq.heappop(ends)
        add(free[flavor], ended.holds if isinstance(ended, RunningJob) else ended.flavors[flavor], 1)


def _left(known: Durations | None, elapsed: float, source: random.Random) -> float | None:
    """Draws how long a job will still run; None if nothing is known, so that its quota is never free."""
    if known is None:
        return None
    longer = [length for length in known.seconds if length > elapsed]
    return source.choice(longer) - elapsed if longer else _OVERDUE * elapsed


def _range(seconds: Iterable[float], now: datetime) -> Range:
    ordered = sorted(seconds)
    return Range(
        now + timedelta(seconds=quantile(ordered, 0.5)), now + timedelta(seconds=quantile(ordered, 0.9))
    )
