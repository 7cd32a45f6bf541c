"""Secrets of one namespace in memory, with the API server's conflicts: enough of `Api` for a sync."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from fournos.engine.kube import errors
from fournos.engine.kube.api import Listing
from fournos.engine.kube.resource import Key, Obj, Resource


class Secrets:
    """`before_write` runs before each write with verb and name: it may raise, or change what is stored."""

    def __init__(self, *secrets: dict[str, Any]) -> None:
        self.stored = {secret["metadata"]["name"]: secret for secret in secrets}
        self.writes: list[str] = []
        self.before_write: Callable[[str, str], None] = lambda verb, name: None
        self._version = 100

    async def get(self, resource: Resource, key: Key) -> Obj:
        if key.name not in self.stored:
            raise errors.NotFoundError(f"secrets {key.name!r} not found", status=404)
        return self.stored[key.name]

    async def list(self, resource: Resource, *, namespace: str = "", selector: str = "") -> Listing:
        wanted = dict(part.split("=") for part in selector.split(","))
        items = [s for s in self.stored.values() if wanted.items() <= (s["metadata"]["labels"] or {}).items()]
        return Listing(list(items), "1")

    async def create(self, resource: Resource, obj: Obj) -> Obj:
        name = str(obj["metadata"]["name"])
        self._begin("create", name)
        if name in self.stored:
            raise errors.AlreadyExistsError(f"secrets {name!r} already exists", status=409)
        self._store(name, {**obj, "metadata": {**obj["metadata"], "uid": f"uid-{name}"}})
        return self.stored[name]

    async def patch(self, resource: Resource, key: Key, body: Obj, *, subresource: str | None = None) -> Obj:
        self._begin("patch", key.name)
        present = self.stored.get(key.name)
        if present is None:
            raise errors.NotFoundError("gone", status=404)
        if body["metadata"]["resourceVersion"] != present["metadata"]["resourceVersion"]:
            raise errors.ConflictError("changed", status=409)
        self._store(key.name, _merged(present, body))
        return self.stored[key.name]

    async def delete(self, resource: Resource, key: Key, *, uid: str | None = None) -> None:
        self._begin("delete", key.name)
        present = self.stored.get(key.name)
        if present is None:
            raise errors.NotFoundError("gone", status=404)
        if uid != present["metadata"]["uid"]:
            raise errors.ConflictError("another object", status=409)
        del self.stored[key.name]

    def touch(self, name: str) -> None:
        """Writes as another client: a new resourceVersion."""
        self._store(name, self.stored[name])

    def _begin(self, verb: str, name: str) -> None:
        self.before_write(verb, name)
        self.writes.append(f"{verb} {name}")

    def _store(self, name: str, secret: Any) -> None:
        self._version += 1
        meta = {**secret["metadata"], "resourceVersion": str(self._version)}
        self.stored[name] = {**secret, "metadata": meta}


def _merged(present: Any, patch: Any) -> Any:
    """RFC 7386."""
    if not isinstance(patch, dict):
        return patch
    result = dict(present) if isinstance(present, dict) else {}
    for key, value in patch.items():
        if value is None:
            result.pop(key, None)
        else:
            result[key] = _merged(result.get(key), value)
    return result
