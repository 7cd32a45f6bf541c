"""A process's connection to the in-memory API server; a test can break in before and after each write."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from typing import Any

from fournos.engine.kube.api import Listing, WatchEvent
from fournos.engine.kube.errors import ForbiddenError, InvalidError
from fournos.engine.kube.resource import Key, Obj, Resource, key_of
from tests.world.server import Server, copied


class Connection:
    """The `Api` of one process: counts its writes and lets a test break in before and after each.

    `before(n)` and `after(n)` may raise what the client would, or what ends the process.
    """

    def __init__(
        self,
        server: Server,
        *,
        before: Callable[[int], None] = lambda n: None,
        after: Callable[[int], None] = lambda n: None,
    ) -> None:
        self.server = server
        self.writes: list[str] = []
        self._before = before
        self._after = after

    async def get(self, resource: Resource, key: Key) -> Obj:
        if resource in self.server.unreadable:
            raise ForbiddenError(f"{resource} is forbidden", status=403)
        return self.server.get(resource, key)

    async def list(
        self,
        resource: Resource,
        *,
        namespace: str = "",
        selector: str = "",
        fields: str = "",
        page_size: int = 500,
        keep: Callable[[Obj], Obj] | None = None,
    ) -> Listing:
        items = self.server.list(resource, namespace=namespace, selector=selector)
        for field in filter(None, fields.split(",")):
            path, _, value = field.partition("=")
            items = [item for item in items if _at(item, path.split(".")) == value]
        own = map(copied, items)
        return Listing([keep(item) if keep else item for item in own], str(self.server.version))

    async def create(self, resource: Resource, obj: Obj, *, dry_run: bool = False) -> Obj:
        assert not dry_run, "not played here"
        return self._write(f"create {resource} {key_of(obj)}", lambda: self.server.create(resource, obj))

    async def patch(self, resource: Resource, key: Key, body: Obj, *, subresource: str | None = None) -> Obj:
        what = f"patch {resource}{'/' + subresource if subresource else ''} {key}"
        return self._write(what, lambda: self.server.patch(resource, key, body, subresource=subresource))

    async def delete(
        self,
        resource: Resource,
        key: Key,
        *,
        uid: str | None = None,
        propagation: str = "Background",
        grace_seconds: int | None = None,
    ) -> None:
        self._write(f"delete {resource} {key}", lambda: self.server.delete(resource, key, uid=uid) or {})

    def watch(
        self,
        resource: Resource,
        *,
        namespace: str = "",
        selector: str = "",
        fields: str = "",
        resource_version: str,
    ) -> AsyncIterator[WatchEvent]:
        name = fields.removeprefix("metadata.name=")
        return self.server.watch(
            resource, namespace=namespace, selector=selector, name=name, since=int(resource_version)
        )

    async def logs(
        self,
        pod: Key,
        *,
        container: str | None = None,
        tail: int | None = None,
        limit_bytes: int | None = None,
        follow: bool = False,
    ) -> AsyncIterator[str]:
        lines = self.server.logs.get(pod)
        if lines is None:
            raise InvalidError(f'container of pod "{pod.name}" is waiting to start', status=400)
        lines = lines[-tail:] if tail is not None else lines
        return _iterate(lines if limit_bytes is None else _first_bytes(lines, limit_bytes))

    def _write(self, what: str, write: Callable[[], Obj]) -> Obj:
        self.writes.append(what)
        number = len(self.writes)
        self._before(number)
        answer = write()
        self._after(number)
        return answer


def _first_bytes(lines: list[str], most: int) -> list[str]:
    """The lines that the kubelet sends with limitBytes; the last one may be cut."""
    return "\n".join(lines).encode()[:most].decode(errors="replace").split("\n") if lines else []


async def _iterate(lines: list[str]) -> AsyncIterator[str]:
    for line in lines:
        yield line


def _at(obj: Any, path: list[str]) -> Any:
    for name in path:
        obj = (obj or {}).get(name)
    return obj
