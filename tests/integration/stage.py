"""What the stages of all systems share: a namespace on a real API server, reads, writes and waits."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from fournos.engine.kube.client import Client
from fournos.engine.kube.errors import NotFoundError
from fournos.engine.kube.resource import Key, Obj, Resource
from tests.waiting import LIMIT, Message, until


class Stage:
    """The namespace of one test. The stage of a system adds its objects, its users and its operator."""

    def __init__(self, namespace: str, client: Client) -> None:
        self.namespace = namespace
        self.client = client
        """A direct connection, also where the operator has a fault proxy."""

    def logs(self) -> str:
        """Returns what a failed wait shows; the stage of a system adds the operator's log."""
        return ""

    def key(self, name: str) -> Key:
        return Key(self.namespace, name)

    async def get(self, resource: Resource, name: str) -> Obj:
        return await self.client.get(resource, self.key(name))

    async def patch(self, resource: Resource, name: str, body: Obj, **options: Any) -> Obj:
        return await self.client.patch(resource, self.key(name), body, **options)

    async def is_gone(self, resource: Resource, name: str) -> bool:
        try:
            await self.get(resource, name)
        except NotFoundError:
            return True
        return False

    async def until(self, look: Callable[[], Any], message: Message, *, limit: float = LIMIT) -> Any:
        """Returns the first true result of `look`, as `tests.waiting.until` does."""
        return await until(look, message, limit=limit, report=self.logs)
