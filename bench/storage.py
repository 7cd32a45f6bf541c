"""Measures a store of the history that is full or away, under a load of short jobs.

The volume with SQLite's file has no byte left (`full`), or PostgreSQL has ended (`postgresql`).  Meanwhile
jobs end, and the deadline of the hand-over passes.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from statistics import median
from typing import Final, Literal, TypeAlias

from bench.operator import operator
from bench.result import RangedResult
from bench.rig import NAMESPACE, Rig, new_rig
from bench.stores import Postgresql, Volume
from bench.stream import LIVE_PER_SLOT, Stream
from bench.tasks import background
from fournos.api.kinds import FOURNOS_JOB
from fournos.engine.api.times import parse_time
from fournos.engine.kube.kinds import EVENT
from fournos.engine.kube.kinds import NAMESPACE as NAMESPACES
from fournos.engine.kube.reflector import Reflector
from fournos.engine.kube.resource import Key, Obj, uid_of
from fournos.engine.kube.store import Store
from fournos.history.records import Identity
from fournos.history.store import HistoryStore

How: TypeAlias = Literal["full", "postgresql"]
HOWS: Final[tuple[How, ...]] = ("full", "postgresql")
DEADLINE: Final = 15.0
"""Seconds after `spec.ttl` in which a job waits for the history: FOURNOS_ARCHIVE_DEADLINE_SEC."""
_TTL: Final = "0m"
_LATEST: Final = 10.0
"""Seconds after its deadline within which a job must be gone."""
_ROUNDED: Final = 1.0
"""Times in a status have whole seconds."""
_LIMIT: Final = 120.0
_STORES: Final[dict[How, Callable[[], Volume | Postgresql]]] = {"full": Volume, "postgresql": Postgresql}
_SAYS: Final[dict[How, str]] = {"full": "has no space left", "postgresql": "does not answer"}
"""What the log of the recorder must say meanwhile."""


@dataclass(frozen=True, slots=True)
class Departure:
    """A job that ended and went away."""

    name: str
    uid: str
    phase: str
    kept: float
    """Seconds from its end to its deletion."""
    recorded: bool
    """True if the history had said that it has the end of the job."""


@dataclass(frozen=True, slots=True)
class Absence:
    """One store that could not be written for a while; times in seconds."""

    how: How
    seconds: float
    wait_before: float
    """End of a run → next job admitted, the median."""
    wait_meanwhile: float
    gone: int
    """Jobs that ended and went away, from before to after it."""
    unrecorded: int
    """Those of them whose end the history does not have: they went at the deadline."""
    early: list[str]
    """Went before the deadline, and the history had not said that it has their end."""
    held: list[str]
    """Went later than the deadline."""
    unsaid: list[str]
    """Went unrecorded without an Event, or the recorder did not say what is wrong with its store."""
    wrong: list[str]
    """The history said that it has their end, and has another one or none; or its file is damaged."""
    again: float
    """From the return of the store to the first end of a job that it has."""

    def cases(self) -> dict[str, list[str]]:
        return {"early": self.early, "held": self.held, "unsaid": self.unsaid, "wrong": self.wrong}


@dataclass(frozen=True, slots=True)
class Absences(RangedResult):
    absences: list[Absence]
    doubles: list[str]
    failed: list[str]

    def quotients(self) -> dict[str, float]:
        """Returns the waits over those before."""
        return {f"{each.how}.wait": each.wait_meanwhile / each.wait_before for each in self.absences}

    def wrong(self) -> dict[str, Sequence[str]]:
        cases: dict[str, list[str]] = {}
        for each in self.absences:
            for what, names in each.cases().items():
                cases.setdefault(what, []).extend(names)
        return {**cases, "doubles": self.doubles, "failed": self.failed}


async def measure(
    name: str, *, seconds: float, hows: Sequence[How], slots: int, rate: float, directory: Path, keep: bool
) -> Absences:
    """Takes each store away for `seconds`, beside an operator and a recorder on a new cluster `name`.

    Raises TimeoutError if no job is recorded before or after it; DevclusterError without the right to mount.
    """
    settings = {"FOURNOS_HISTORY_ENABLED": "true", "FOURNOS_ARCHIVE_DEADLINE_SEC": str(DEADLINE)}
    async with (
        new_rig(name, quotas={"bench-1": slots}, keep=keep) as rig,
        operator(rig.cluster.kubeconfig_path, directory / "operator.log", settings=settings),
    ):
        live = slots * LIVE_PER_SLOT
        stream = Stream(rig.client, live=live, ends_per_second=rate, ttl=_TTL)
        async with stream.flowing(slots):
            absences = [await _absence(rig, stream, how, seconds, directory) for how in hows]
    return Absences(absences, stream.record.doubles, stream.record.failed)


async def _absence(rig: Rig, stream: Stream, how: How, seconds: float, directory: Path) -> Absence:
    store = await asyncio.to_thread(_STORES[how])
    log = directory / f"recorder-{how}.log"
    settings = {
        "FOURNOS_HISTORY_NAMESPACE": NAMESPACE,
        "FOURNOS_HISTORY_JOBS_NAMESPACE": NAMESPACE,
        "FOURNOS_HISTORY_KINDS": FOURNOS_JOB.kind,
        "FOURNOS_HISTORY_DIRECTORY": str(store.directory),
        "FOURNOS_HISTORY_URL": store.url,
    }
    jobs = Jobs()
    try:
        async with (
            operator(rig.cluster.kubeconfig_path, log, enable="history", settings=settings),
            jobs.watched(rig),
        ):
            await jobs.recorded_since(time.perf_counter())
            start = time.perf_counter()
            await asyncio.sleep(seconds / 2)
            away, logged = time.perf_counter(), len(log.read_bytes())
            await asyncio.to_thread(store.take_away)
            try:
                await asyncio.sleep(seconds)
                said = _SAYS[how] in log.read_bytes()[logged:].decode(errors="replace")
            finally:
                await asyncio.to_thread(store.give_back)
            back = time.perf_counter()
            again = await jobs.recorded_since(back) - back
        unrecorded = [each for each in jobs.departures if not each.recorded]
        return Absence(
            how=how,
            seconds=seconds,
            wait_before=median(wait for at, wait in stream.record.waits if start < at < away),
            wait_meanwhile=median(wait for at, wait in stream.record.waits if away < at < back),
            gone=len(jobs.departures),
            unrecorded=len(unrecorded),
            early=gone_early(jobs.departures),
            held=held(jobs.departures),
            unsaid=[*(await _unsaid(rig, unrecorded)), *([] if said else ["the recorder says nothing"])],
            wrong=[*(await _wrong(rig, store.url, jobs.departures)), *store.damages()],
            again=again,
        )
    finally:
        await asyncio.to_thread(store.close)


def gone_early(departures: Sequence[Departure]) -> list[str]:
    """Returns the jobs that were not recorded and did not wait for the deadline."""
    least = DEADLINE - _ROUNDED
    return [each.name for each in departures if not each.recorded and each.kept < least]


def held(departures: Sequence[Departure]) -> list[str]:
    """Returns the jobs that were held longer than to the deadline, with the seconds."""
    return [f"{each.name} {each.kept:.0f} s" for each in departures if each.kept > DEADLINE + _LATEST]


async def _unsaid(rig: Rig, unrecorded: Sequence[Departure]) -> list[str]:
    """Returns those of the jobs of which no Event says that they went unrecorded."""
    events = (await rig.client.list(EVENT, namespace=NAMESPACE)).items
    reported = {
        (each.get("regarding") or {}).get("uid") for each in events if each.get("reason") == "NotArchived"
    }
    return [each.name for each in unrecorded if each.uid not in reported]


async def _wrong(rig: Rig, url: str, departures: Sequence[Departure]) -> list[str]:
    """Returns the recorded jobs whose run in the history has another end than they had."""
    cluster = uid_of(await rig.client.get(NAMESPACES, Key("", "kube-system")))
    wrong = []
    async with await HistoryStore.open(url, writable=False) as store:
        for each in departures:
            run = await store.get(Identity(cluster, NAMESPACE, each.uid))
            if each.recorded and (run is None or run.ended_at is None or run.phase != each.phase):
                wrong.append(each.name)
    return wrong


@dataclass(slots=True)
class Jobs:
    """Sees which jobs the history has, and which go away."""

    departures: list[Departure] = field(default_factory=list)
    _recorded: dict[str, float] = field(default_factory=dict)
    """UID → when `status.archivedAt` was first seen, in `time.perf_counter` seconds."""

    @asynccontextmanager
    async def watched(self, rig: Rig) -> AsyncIterator[None]:
        reflector = Reflector(rig.client, FOURNOS_JOB, Store(), namespace=NAMESPACE, on_change=self.see)
        async with background(reflector.run()):
            yield

    async def recorded_since(self, since: float) -> float:
        """Waits until a job is recorded after `since`, and returns when.  Raises TimeoutError."""
        async with asyncio.timeout(_LIMIT):
            while True:
                times = [at for at in self._recorded.values() if at > since]
                if times:
                    return min(times)
                await asyncio.sleep(0.05)

    def see(self, _type: str, old: Obj | None, new: Obj | None) -> None:
        if new is not None:
            if (new.get("status") or {}).get("archivedAt"):
                self._recorded.setdefault(uid_of(new), time.perf_counter())
            return
        status = (old or {}).get("status") or {}
        finished = (status.get("phaseTimes") or {}).get("finished")
        if old is not None and finished:
            kept = (datetime.now(UTC) - parse_time(finished)) / timedelta(seconds=1)
            name, uid = old["metadata"]["name"], uid_of(old)
            self.departures.append(
                Departure(name, uid, str(status["phase"]), kept, bool(status.get("archivedAt")))
            )
