"""An API server in memory, for tests of decisions.

It keeps: resourceVersions, generations, UIDs, merge patches with preconditions, the separation of spec and
status, finalizers, label selectors, garbage collection by owner (on demand), the history of every change
(so that a cache can lag behind) and pod logs.

It does not: validate against a schema, default, run admission, convert versions, page lists, expire
history (410), keep field managers (`apply` is a merge patch), propagate deletion in the foreground, honour
grace periods, count quota, or check rights.  What these do is tested on a real API server.
"""

from __future__ import annotations

import asyncio
import pickle
from collections.abc import AsyncIterator, Callable, Iterator, Mapping
from datetime import UTC, datetime
from typing import Any, NamedTuple

import orjson

from fournos.engine.kube.api import EventType, WatchEvent
from fournos.engine.kube.errors import (
    AlreadyExistsError,
    ConflictError,
    InvalidError,
    KubeError,
    NoSuchResourceError,
    NotFoundError,
)
from fournos.engine.kube.resource import Key, Obj, Resource, key_of, owner_uids
from fournos.engine.runtime.controller import matcher

BOOKMARK_INTERVAL = 60.0
"""Seconds, as real API servers."""

Refuse = Callable[[str, Resource, Obj], KubeError | None]


class VirtualClock:
    def __init__(self, start: datetime = datetime(2030, 1, 1, tzinfo=UTC)) -> None:
        self._start = start
        self.seconds = 0.0

    def now(self) -> datetime:
        return datetime.fromtimestamp(self._start.timestamp() + self.seconds, UTC)

    def monotonic(self) -> float:
        return self.seconds

    def advance(self, seconds: float) -> None:
        self.seconds += seconds


class Change(NamedTuple):
    version: int
    resource: Resource
    type: EventType
    object: Obj


def clone(obj: Obj) -> dict[str, Any]:
    """A deep copy; fails on what is not JSON."""
    copy: dict[str, Any] = orjson.loads(orjson.dumps(obj))
    return copy


def copied(stored: Obj) -> dict[str, Any]:
    """A deep copy of a stored object, which no code changes in place: half the time of `clone`."""
    copy: dict[str, Any] = pickle.loads(pickle.dumps(stored, pickle.HIGHEST_PROTOCOL))
    return copy


def _is_orphan(obj: Obj, living: set[str]) -> bool:
    owners = owner_uids(obj)
    return bool(owners) and not owners & living


def merge(target: dict[str, Any], patch: Mapping[str, Any]) -> dict[str, Any]:
    """RFC 7396."""
    for key, value in patch.items():
        if value is None:
            target.pop(key, None)
        elif isinstance(value, Mapping):
            inner = target.get(key)
            target[key] = merge(inner if isinstance(inner, dict) else {}, value)
        else:
            target[key] = value
    return target


class Server:
    """The objects.  Actors call its methods directly; a controller goes through a `Connection`."""

    def __init__(self, clock: VirtualClock | None = None) -> None:
        self.clock = clock or VirtualClock()
        self.history: list[Change] = []
        self.checked = -1
        """The version at which invariants were last looked at."""
        self.logs: dict[Key, list[str]] = {}
        self.unserved: set[Resource] = set()
        """Resource types whose CRD is not installed."""
        self.without_status: set[Resource] = set()
        """Types whose CRD has no status subresource: their status is written with the rest."""
        self.unreadable: set[Resource] = set()
        """Resource types whose objects a controller may not get."""
        self.refusals: list[Refuse] = []
        """Each may refuse a write (verb, resource type, the object or patch body)."""
        self._objects: dict[Resource, dict[Key, dict[str, Any]]] = {}
        self._views: dict[str, dict[str, Any]] = {}
        """By resourceVersion: the copy that all readers of a stored object share."""
        self._uids = 0
        self._changed = asyncio.Event()

    @property
    def version(self) -> int:
        return len(self.history)

    # --- reading -------------------------------------------------------------------------------------

    def get(self, resource: Resource, key: Key) -> dict[str, Any]:
        """Returns a copy of the reader's own."""
        return copied(self._stored(resource, key))

    # What these return is for all readers, who do not change it: invariants and actors read after each write.

    def find(self, resource: Resource, key: Key) -> dict[str, Any] | None:
        stored = self._of(resource).get(key)
        return self._view(stored) if stored is not None else None

    def list(self, resource: Resource, *, namespace: str = "", selector: str = "") -> list[dict[str, Any]]:
        matches = matcher(selector)
        return [
            self._view(obj)
            for key, obj in sorted(self._of(resource).items())
            if (not namespace or key.namespace == namespace) and matches(obj["metadata"].get("labels") or {})
        ]

    def everything(self) -> Iterator[tuple[Resource, dict[str, Any]]]:
        for resource, objects in sorted(self._objects.items(), key=lambda item: str(item[0])):
            for _, obj in sorted(objects.items()):
                yield resource, copied(obj)

    # --- writing -------------------------------------------------------------------------------------

    def create(self, resource: Resource, obj: Obj) -> dict[str, Any]:
        self._admit("create", resource, obj)
        new = clone(obj)
        new.pop("status", None)
        meta = new["metadata"]
        key = key_of(new)
        if bool(key.namespace) != resource.namespaced:
            raise InvalidError(f"namespace of {resource} {key}", status=400)
        if key in self._of(resource):
            raise AlreadyExistsError(f'{resource} "{key.name}" already exists', status=409)
        self._uids += 1
        meta["uid"] = f"uid-{self._uids}"
        meta["generation"] = 1
        meta["creationTimestamp"] = self._time()
        return self._store("ADDED", resource, new)

    def patch(
        self, resource: Resource, key: Key, body: Obj, *, subresource: str | None = None
    ) -> dict[str, Any]:
        self._admit("patch", resource, body)
        if subresource == "status" and resource in self.without_status:
            raise NotFoundError(f"{resource} {key.name!r} not found", status=404)
        old = self._stored(resource, key)
        wanted = body.get("metadata") or {}
        for field in ("resourceVersion", "uid"):
            if wanted.get(field) not in (None, old["metadata"][field]):
                raise ConflictError(f'{field} of {resource} "{key.name}" is not that', status=409)
        if subresource == "status":
            new = merge(copied(old), {"status": clone(body).get("status") or {}})
        else:
            hidden = () if resource in self.without_status else ("status",)
            new = merge(
                copied(old), {part: value for part, value in clone(body).items() if part not in hidden}
            )
            fixed = ("uid", "creationTimestamp", "deletionTimestamp", "name", "namespace", "generation")
            for field in fixed:
                if new["metadata"].get(field) != old["metadata"].get(field):
                    raise InvalidError(f"metadata.{field} is immutable", status=422)
        if old["metadata"].get("deletionTimestamp") and set(new["metadata"].get("finalizers") or ()) - set(
            old["metadata"].get("finalizers") or ()
        ):
            raise InvalidError("no new finalizers can be added if the object is being deleted", status=422)
        new["metadata"]["resourceVersion"] = old["metadata"]["resourceVersion"]
        if new == old:
            return copied(old)
        if {part: new.get(part) for part in new if part not in ("metadata", "status")} != {
            part: old.get(part) for part in old if part not in ("metadata", "status")
        }:
            new["metadata"]["generation"] = old["metadata"]["generation"] + 1
        if new["metadata"].get("deletionTimestamp") and not new["metadata"].get("finalizers"):
            return self._store("DELETED", resource, new)
        return self._store("MODIFIED", resource, new)

    def apply(self, resource: Resource, obj: Obj) -> dict[str, Any]:
        key = key_of(obj)
        return self.patch(resource, key, obj) if key in self._of(resource) else self.create(resource, obj)

    def delete(self, resource: Resource, key: Key, *, uid: str | None = None) -> None:
        self._admit("delete", resource, {"metadata": {"namespace": key.namespace, "name": key.name}})
        old = self._stored(resource, key)
        if uid is not None and old["metadata"]["uid"] != uid:
            raise ConflictError(f'UID of {resource} "{key.name}" is not that', status=409)
        new = copied(old)
        if not old["metadata"].get("finalizers"):
            self._store("DELETED", resource, new)
        elif not old["metadata"].get("deletionTimestamp"):
            new["metadata"]["deletionTimestamp"] = self._time()
            self._store("MODIFIED", resource, new)

    def collect_garbage(self) -> int:
        """Deletes what has owners that are all gone; returns how many objects that changed."""
        before = self.version
        stored = [(resource, obj) for resource, objects in self._objects.items() for obj in objects.values()]
        living = {obj["metadata"]["uid"] for _, obj in stored}
        orphans = [(resource, key_of(obj)) for resource, obj in stored if _is_orphan(obj, living)]
        for resource, key in sorted(orphans, key=str):
            self.delete(resource, key)
        return self.version - before

    # --- watching ------------------------------------------------------------------------------------

    async def watch(
        self, resource: Resource, *, namespace: str, selector: str, since: int, name: str = ""
    ) -> AsyncIterator[WatchEvent]:
        position = since
        matches = matcher(selector)
        while True:
            while position < self.version:
                change = self.history[position]
                position += 1
                meta = change.object["metadata"]
                inside = namespace in ("", meta.get("namespace")) and name in ("", meta["name"])
                if change.resource == resource and inside and matches(meta.get("labels") or {}):
                    yield WatchEvent(change.type, copied(change.object))
            self._changed.clear()
            try:
                async with asyncio.timeout(BOOKMARK_INTERVAL):
                    await self._changed.wait()
            except TimeoutError:
                yield WatchEvent("BOOKMARK", {"metadata": {"resourceVersion": str(position)}})

    # --- inside --------------------------------------------------------------------------------------

    def _of(self, resource: Resource) -> dict[Key, dict[str, Any]]:
        if resource in self.unserved:
            raise NoSuchResourceError(f"{resource} is not served", status=404)
        return self._objects.setdefault(resource, {})

    def _stored(self, resource: Resource, key: Key) -> dict[str, Any]:
        try:
            return self._of(resource)[key]
        except KeyError:
            raise NotFoundError(f'{resource} "{key.name}" not found', status=404) from None

    def _admit(self, verb: str, resource: Resource, obj: Obj) -> None:
        for refuse in self.refusals:
            error = refuse(verb, resource, obj)
            if error is not None:
                raise error

    def _view(self, stored: Obj) -> dict[str, Any]:
        version = stored["metadata"]["resourceVersion"]
        if version not in self._views:
            self._views[version] = copied(stored)
        return self._views[version]

    def _store(self, type_: EventType, resource: Resource, obj: dict[str, Any]) -> dict[str, Any]:
        old = self._of(resource).get(key_of(obj))
        if old is not None:
            view = self._views.pop(old["metadata"]["resourceVersion"], old)
            assert view == old, (
                f"a reader changed {resource} {key_of(obj)} in place: get() returns a copy to change"
            )
        obj["metadata"]["resourceVersion"] = str(self.version + 1)
        if type_ == "DELETED":
            del self._of(resource)[key_of(obj)]
        else:
            self._of(resource)[key_of(obj)] = obj
        self.history.append(Change(self.version + 1, resource, type_, obj))
        self._changed.set()
        return copied(obj)

    def _time(self) -> str:
        return self.clock.now().strftime("%Y-%m-%dT%H:%M:%SZ")
