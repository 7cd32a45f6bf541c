"""Measures jumps of the operator's clock under load, beside things that wait for a time.

The wall clock of the operator's process jumps, stays there for a while and comes back, as when a machine's
clock is set wrongly and corrected.  Of each kind of `bench.waiting` one waits for a time that comes soon, and
one for a time an hour beyond the jump.  Monotonic time goes on, as it does on a machine.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from bench.inside import CLOCK
from bench.outage import under_load
from bench.replicas import Program, Replicas
from bench.result import RangedResult
from bench.rig import NAMESPACE, SECRETS_NAMESPACE
from bench.stream import Stream
from bench.tasks import background, until
from bench.waiting import KINDS, every_minute
from fournos.api.kinds import FOURNOS_SCHEDULE
from fournos.engine.kube.client import Client
from fournos.engine.kube.errors import NotFoundError
from fournos.engine.kube.resource import Key, Obj, key_of, uid_of
from fournos.systems.clusters.names import lock_name
from fournos.systems.schedules.names import SCHEDULE_LABEL, TIME_LABEL

JUMPS: Final = (3600, -3600, 86400, -86400)
ENABLED: Final = "jobs,schedules,clusters"
_SOON: Final = 60
_BEYOND: Final = 3600
_TOLERANCE: Final = 2.0
"""Seconds by which an end may be seen too early: times in a status have whole seconds."""
_WAITS_WITHIN: Final = 90.0
_OVER_WITHIN: Final = 90.0
"""Seconds after the clock's return, or after its time, within which each must be over.  Deadlines are
compared with the wall clock at least each minute."""
_LOOK: Final = 0.25
_HEARTH: Final = {
    "HEARTH_NAMESPACE": NAMESPACE,
    "HEARTH_EXECUTION_NAMESPACE": NAMESPACE,
    "HEARTH_SECRETS_NAMESPACE": SECRETS_NAMESPACE,
    "HEARTH_KUEUE_CLUSTER_QUEUE_NAME": "bench-without-queue",
}
"""The load's queue keeps the quota that the benchmark gave it."""


@dataclass(slots=True)
class Wait:
    """One thing that waits; times in `time.perf_counter` seconds."""

    kind: str
    name: str
    seconds: int
    since: float | None = None
    over: float | None = None

    @property
    def due(self) -> float:
        return (self.since or float("inf")) + self.seconds


@dataclass(frozen=True, slots=True)
class Over:
    """The end of a wait; in seconds, negative if it came before."""

    kind: str
    after_due: float
    after_jump: float


@dataclass(frozen=True, slots=True)
class Jump:
    seconds: int
    over: list[Over]
    early: list[str]
    """What was over sooner than its time by more than the jump."""
    never: list[str]
    fires: int
    """Times of a schedule of each minute that had a job."""
    twice: list[str]
    """Times of the schedule that had more than one."""
    leaders: int
    """Changes of the leader."""


@dataclass(frozen=True, slots=True)
class Clock(RangedResult):
    jumps: list[Jump]
    ends: int
    doubles: list[str]
    failed: list[str]
    late: list[str]

    def quotients(self) -> dict[str, float]:
        """Returns the changes of the leader."""
        return {"leaders": float(sum(jump.leaders for jump in self.jumps))}

    def wrong(self) -> dict[str, Sequence[str]]:
        return {
            "early": [text for jump in self.jumps for text in jump.early],
            "never": [name for jump in self.jumps for name in jump.never],
            "doubles": [*self.doubles, *(text for jump in self.jumps for text in jump.twice)],
            "failed": self.failed,
        }


@dataclass(slots=True)
class _Onlooker:
    """Looks at what waits, and at the jobs of the schedule."""

    client: Client
    waits: list[Wait]
    schedule: str
    fires: dict[str, set[str]] = field(default_factory=dict)
    """UIDs of jobs by the scheduled time."""

    async def look(self) -> None:
        objects: dict[Key, Obj] = {}
        for resource in {KINDS[wait.kind].resource for wait in self.waits}:
            listing = await self.client.list(resource, namespace=NAMESPACE)
            objects.update({key_of(each): each for each in listing.items})
        now = time.perf_counter()
        for each in objects.values():
            labels = each["metadata"].get("labels") or {}
            if labels.get(SCHEDULE_LABEL) == self.schedule:
                self.fires.setdefault(labels[TIME_LABEL], set()).add(uid_of(each))
        for wait in self.waits:
            kind, obj = KINDS[wait.kind], objects.get(Key(NAMESPACE, wait.name))
            if wait.since is None:
                wait.since = now if obj is not None and kind.waits(obj) else None
            elif wait.over is None and kind.over(obj):
                wait.over = now

    async def keep_looking(self) -> None:
        while True:
            await self.look()
            await asyncio.sleep(_LOOK)


async def measure(
    name: str,
    *,
    jumps: Sequence[int],
    hold: float,
    slots: int,
    rate: float,
    directory: Path,
    keep: bool,
) -> Clock:
    """Lets the clock of the operator jump by each of the seconds, on a new cluster `name`.

    `hold` is how long the clock is wrong.  Raises TimeoutError.
    """
    load = under_load(
        name,
        slots=slots,
        rate=rate,
        directory=directory,
        keep=keep,
        program=Program(ENABLED, _HEARTH, inside=directory),
    )
    (directory / CLOCK).unlink(missing_ok=True)
    async with load as (rig, group, stream):
        measured = [await _jump(rig.client, group, stream, jump, hold) for jump in jumps]
        record = stream.record
    return Clock(measured, record.ends, record.doubles, record.failed, record.late)


async def _jump(
    client: Client,
    group: Replicas,
    stream: Stream,
    jump: int,
    hold: float,
) -> Jump:
    seconds = {"soon": _SOON, "beyond": max(jump, 0) + _BEYOND}
    waits = [
        Wait(kind, f"clock{jump}-{kind}-{when}", length) for kind in KINDS for when, length in seconds.items()
    ]
    async with _waiting(client, stream, waits, f"clock{jump}") as onlooker:
        leaders, jumped = len(stream.record.leaders), time.perf_counter()
        try:
            group.set_clock(jump)
            await asyncio.sleep(hold)
        finally:
            group.set_clock(0)
        returned = time.perf_counter()
        soon = [wait for wait in waits if wait.seconds == _SOON]
        with suppress(TimeoutError):
            async with asyncio.timeout(_OVER_WITHIN + _SOON):
                await until(lambda: all(wait.over is not None for wait in soon), every=_LOOK)
    return Jump(
        jump,
        [
            Over(wait.kind, wait.over - wait.due, wait.over - jumped)
            for wait in waits
            if wait.over is not None
        ],
        early(waits, jump, returned),
        [wait.name for wait in soon if wait.over is None],
        len(onlooker.fires),
        [f"{len(uids)} jobs of {at}" for at, uids in onlooker.fires.items() if len(uids) > 1],
        len(stream.record.leaders) - leaders,
    )


def early(waits: Sequence[Wait], jump: int, returned: float) -> list[str]:
    """Returns what was over sooner than its time by more than a jump forward that lasted until `returned`."""
    return [
        f"{wait.name} was over {wait.due - wait.over:.0f} s early"
        for wait in waits
        if wait.over is not None
        and wait.due - wait.over > _TOLERANCE + (max(jump, 0) if wait.over <= returned + _TOLERANCE else 0)
    ]


@asynccontextmanager
async def _waiting(
    client: Client, stream: Stream, waits: list[Wait], schedule: str
) -> AsyncIterator[_Onlooker]:
    """Makes all that waits, and the schedule, and deletes it in the end.  Raises TimeoutError."""
    onlooker = _Onlooker(client, waits, schedule)
    stream.fails_once |= {wait.name for wait in waits if wait.kind == "retry"}
    stream.may_fail |= {wait.name for wait in waits if wait.kind == "deadline"}
    stream.may_fail |= {lock_name(wait.name) for wait in waits if wait.kind == "lock"}
    for wait in waits:
        kind = KINDS[wait.kind]
        await client.create(kind.resource, kind.body(wait.name, wait.seconds))
    await client.create(FOURNOS_SCHEDULE, every_minute(schedule))
    try:
        async with background(onlooker.keep_looking()):
            async with asyncio.timeout(_WAITS_WITHIN):
                await until(lambda: all(wait.since is not None for wait in waits), every=_LOOK)
            yield onlooker
    finally:
        await client.delete(FOURNOS_SCHEDULE, Key(NAMESPACE, schedule))
        for wait in waits:
            with suppress(NotFoundError):
                await client.delete(KINDS[wait.kind].resource, Key(NAMESPACE, wait.name))
