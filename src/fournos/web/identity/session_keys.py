"""The keys that encrypt sessions, and the sessions that ended before their time: one Secret for all replicas.

A new key comes each week.  A session is in a cookie, so one that a person has left must be known as ended
until its own end.
"""

from __future__ import annotations

import asyncio
import base64
import binascii
import hashlib
import logging
from collections.abc import Callable, Iterable, Mapping
from contextlib import aclosing, suppress
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from itertools import pairwise
from typing import Any, Final, cast

from cryptography.fernet import Fernet

from fournos.engine.kube.api import Api
from fournos.engine.kube.errors import AlreadyExistsError, ConflictError, KubeError, NotFoundError
from fournos.engine.kube.resource import SECRET, Key, Obj
from fournos.engine.kube.transport import Backoff
from fournos.engine.runtime.clock import Clock
from fournos.web.errors import PageError
from fournos.web.identity.sessions import Sealer, Session

log = logging.getLogger(__name__)

LOOK: Final = timedelta(minutes=10)
"""Time between two reads of the Secret."""
_TOGETHER: Final = 1.0
"""Seconds after a change: what changes meanwhile is read with it."""
SETTLE: Final = 2 * LOOK
"""Time until every replica has read a new key; only then it encrypts."""
NEW_KEY: Final = timedelta(days=7)
_FORMAT: Final = "key-%Y%m%dT%H%M%SZ"
_ENDED: Final = "ended-"
MOST_ENDED: Final = 4096
"""Ended sessions in the Secret, a quarter of what it can hold; of more, those that end first are left out."""


@dataclass(frozen=True, slots=True, repr=False)
class Keys:
    """The keys with the times of their creation, the newest first.  No repr: they are secret."""

    entries: tuple[tuple[datetime, bytes], ...] = ()

    def in_order(self, now: datetime) -> list[bytes]:
        """Returns the keys, the one that encrypts first."""
        settled = [key for made, key in self.entries if made + SETTLE <= now]
        # A first key has nothing to wait for.
        first = settled[0] if settled else self.entries[-1][1]
        return [first, *(key for _, key in self.entries if key != first)]


def rotated(keys: Keys, now: datetime, lifetime: timedelta, make: Callable[[], bytes]) -> Keys:
    """Returns the keys as they should be: a new one when the newest is old, without those of ended sessions.

    `lifetime` is that of a session.
    """
    entries = list(keys.entries)
    if not entries or entries[0][0] + NEW_KEY <= now:
        entries.insert(0, (now.replace(microsecond=0), make()))
    entries_kept = [entries[0]]
    for newer, entry in pairwise(entries):
        if newer[0] + SETTLE + lifetime > now:
            entries_kept.append(entry)
    return Keys(tuple(entries_kept))


def read(secret: Obj | None) -> Keys:
    """Returns the keys of a Secret.  Data of another form is not a key."""
    entries = []
    for name, value in ((secret or {}).get("data") or {}).items():
        try:
            made = datetime.strptime(name, _FORMAT).replace(tzinfo=UTC)
            key = base64.b64decode(value, validate=True)
            Fernet(key)
        except (ValueError, binascii.Error, TypeError):
            continue
        entries.append((made, key))
    return Keys(tuple(sorted(entries, reverse=True)))


def ended_sessions(secret: Obj | None) -> dict[str, float]:
    """Returns the marks of ended sessions, each with the session's own end in seconds since the epoch."""
    ended = {}
    for name, value in ((secret or {}).get("data") or {}).items():
        if name.startswith(_ENDED):
            try:
                ended[name.removeprefix(_ENDED)] = float(base64.b64decode(value, validate=True))
            except (ValueError, binascii.Error, TypeError):
                continue
    return ended


def outdated(ended: Mapping[str, float], now: float) -> list[str]:
    """Returns the marks that the Secret need not hold any more."""
    lasting = sorted((ends, mark) for mark, ends in ended.items() if ends > now)
    return [mark for mark, ends in ended.items() if ends <= now] + [
        mark for _, mark in lasting[: max(0, len(lasting) - MOST_ENDED)]
    ]


def _mark(session: Session) -> str:
    """Returns the hash that is stored of an ended session; it cannot be used to log in."""
    return hashlib.sha256(session.csrf.encode()).hexdigest()[:32]


def data(keys: Keys) -> dict[str, str]:
    return {f"{made:{_FORMAT}}": base64.b64encode(key).decode() for made, key in keys.entries}


class SessionKeys:
    """The keys as the Secret has them."""

    def __init__(self, api: Api, secret: Key, *, lifetime: timedelta, clock: Clock) -> None:
        self._api = api
        self._key = secret
        self._lifetime = lifetime
        self._clock = clock
        self._keys = Keys()
        self._sealer: tuple[list[bytes], Sealer] | None = None
        self._ended: dict[str, float] = {}
        self._version = "0"

    def sealer(self) -> Sealer:
        """Raises PageError while the Secret was not read."""
        if not self._keys.entries:
            raise PageError(503, "Not ready", "The key of sessions is not there yet.", "Try again soon.")
        keys = self._keys.in_order(self._clock.now())
        if self._sealer is None or self._sealer[0] != keys:
            self._sealer = keys, Sealer(keys)
        return self._sealer[1]

    def ended(self, session: Session) -> bool:
        """True if its person has logged out."""
        return _mark(session) in self._ended

    async def end(self, session: Session) -> None:
        """Ends a session, on the other replicas as soon as their watch reports it.  Raises KubeErrors."""
        mark = _mark(session)
        self._ended[mark] = session.ends
        value = base64.b64encode(str(session.ends).encode()).decode()
        await self._api.patch(SECRET, self._key, {"data": {_ENDED + mark: value}})

    async def run(self) -> None:
        """Reads and rotates the keys until cancelled."""
        backoff = Backoff()
        while True:
            try:
                await self.look()
                await self._change(LOOK.total_seconds())
                backoff.reset()
                wait = _TOGETHER
            except ConflictError:  # another replica was first: read what it wrote
                wait = backoff.next()
            except KubeError as error:
                wait = backoff.next()
                log.warning("the key of sessions: Secret %s: %s", self._key, error.message)
            await asyncio.sleep(wait)

    async def look(self) -> None:
        """Reads the Secret once and writes what is due.  Raises KubeErrors."""
        try:
            secret: Obj | None = await self._api.get(SECRET, self._key)
        except NotFoundError:
            secret = None
        self._ended |= ended_sessions(secret)
        self._version = (secret or {}).get("metadata", {}).get("resourceVersion", "0")
        before = read(secret)
        after = rotated(before, self._clock.now(), self._lifetime, Fernet.generate_key)
        over = outdated(self._ended, self._clock.now().timestamp())
        if after != before or over:
            await self._store(secret, before, after, over)
        self._keys = after
        for mark in over:
            del self._ended[mark]

    async def _change(self, limit: float) -> None:
        """Returns when the Secret has changed, or after `limit` seconds.  Raises KubeErrors."""
        changes = self._api.watch(
            SECRET,
            namespace=self._key.namespace,
            fields=f"metadata.name={self._key.name}",
            resource_version=self._version,
        )
        with suppress(TimeoutError):
            async with asyncio.timeout(limit), aclosing(cast(Any, changes)) as events:
                async for event in events:
                    if event.type != "BOOKMARK":
                        return

    async def _store(self, secret: Obj | None, before: Keys, after: Keys, over: Iterable[str]) -> None:
        if secret is not None:
            gone = dict.fromkeys(
                [*(data(before).keys() - data(after).keys()), *(_ENDED + mark for mark in over)]
            )
            body: dict[str, Any] = {
                "metadata": {"resourceVersion": secret["metadata"]["resourceVersion"]},
                "data": {**data(after), **gone},
            }
            await self._api.patch(SECRET, self._key, body)
            return
        try:
            await self._api.create(
                SECRET,
                {
                    "apiVersion": SECRET.api_version,
                    "kind": SECRET.kind,
                    "metadata": {"namespace": self._key.namespace, "name": self._key.name},
                    "type": "Opaque",
                    "data": data(after),
                },
            )
        except AlreadyExistsError as error:
            raise ConflictError(error.message) from error
