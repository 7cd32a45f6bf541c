"""The memory of what is recorded: it keeps an unchanged object from being written again."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from typing import Any, Final

from fournos.engine.kube.resource import Key
from fournos.history.records import Ending, Identity, Interval, Record, Run

SIGN_OF_LIFE: Final = timedelta(seconds=60)
"""Without other writes a run is written again after this time: the gap in the ledger of a later process
starts at the last write."""


@dataclass(frozen=True, slots=True)
class StoredRun:
    """A run as it is recorded."""

    run: Run
    waits: tuple[Interval, ...] = ()
    """The ledger; the newest intervals may not be written yet."""
    digest: bytes = b""
    """Digest of what was written; empty for a run that an earlier process wrote."""
    versions: tuple[str, ...] = ()
    """The resourceVersions of what was written (`ObservedObject.versions`)."""
    quota: Mapping[str, Any] = field(default_factory=dict)
    """The quota that its Workload was last seen to hold.  The Workload goes before the end is written."""
    resumed: bool = False
    """True until the first observation of a run that an earlier process wrote."""

    @property
    def open(self) -> bool:
        return self.run.ending is Ending.OPEN


class Journal:
    """The recorded runs of one kind whose objects exist, or whose end is not recorded."""

    def __init__(self) -> None:
        self.since: datetime | None = None
        """When the open runs of earlier processes were read; nothing is recorded before."""
        self.alive_until: datetime | None = None
        """The last sign of life of an earlier process; None if there was none."""
        self.written_at: datetime | None = None
        """When this process last wrote a run."""
        self._runs: dict[str, StoredRun] = {}
        self._missing: set[str] = set()
        self._suspected: dict[str, bool] = {}
        self._by_key: dict[Key, dict[str, None]] = {}

    def opened(self, records: Iterable[Record], now: datetime) -> None:
        """Takes over the open runs of earlier processes."""
        for record in records:
            run = record.run
            if run.identity.uid not in self._runs:
                self.put(StoredRun(run, record.waits, resumed=True))
            self.alive_until = max(self.alive_until or run.observed_at, run.observed_at)
        self.since = now

    def get(self, uid: str) -> StoredRun | None:
        return self._runs.get(uid)

    def missing(self, identity: Identity) -> None:
        """Notes that the store has no run of this identity."""
        self._missing.add(identity.uid)

    def is_missing(self, uid: str) -> bool:
        return uid in self._missing

    def compared(self, identity: Identity, suspected: bool) -> None:
        """Notes whether the results of a run are suspected to be a regression."""
        self._suspected[identity.uid] = suspected

    def suspected(self, uid: str) -> bool | None:
        """True if a regression is suspected; None if the results have not been compared."""
        return self._suspected.get(uid)

    def at(self, key: Key) -> tuple[StoredRun, ...]:
        """Returns the runs of this name; of a name that was used again there can be several."""
        return tuple(self._runs[uid] for uid in self._by_key.get(key, ()))

    def put(self, stored: StoredRun) -> None:
        self._missing.discard(stored.run.identity.uid)
        self._runs[stored.run.identity.uid] = stored
        self._by_key.setdefault(stored.run.key, {})[stored.run.identity.uid] = None

    def remember(self, identity: Identity, waits: tuple[Interval, ...], quota: Mapping[str, Any]) -> None:
        """Keeps a ledger and a quota that are written with the next record."""
        stored = self._runs.get(identity.uid)
        if stored is not None:
            self._runs[identity.uid] = replace(stored, waits=waits, quota=quota, resumed=False)

    def forget(self, identity: Identity) -> None:
        """Drops a run that is over and whose object is gone."""
        self._suspected.pop(identity.uid, None)
        stored = self._runs.pop(identity.uid, None)
        if stored is not None:
            uids = self._by_key[stored.run.key]
            del uids[identity.uid]
            if not uids:
                del self._by_key[stored.run.key]

    def every_key(self) -> tuple[Key, ...]:
        return tuple(self._by_key)

    def quiet(self, now: datetime) -> StoredRun | None:
        """Returns an open run if nothing was written for SIGN_OF_LIFE; None if there is no need or no run."""
        last = self.written_at or self.since
        if last is None or timedelta(0) <= now - last < SIGN_OF_LIFE:
            return None
        return next((stored for stored in self._runs.values() if stored.open and not stored.resumed), None)

    def open_count(self) -> int:
        return sum(stored.open for stored in self._runs.values())

    def clear(self) -> None:
        """Forgets everything, as a new process has."""
        self.since = self.alive_until = self.written_at = None
        self._runs.clear()
        self._missing.clear()
        self._suspected.clear()
        self._by_key.clear()
