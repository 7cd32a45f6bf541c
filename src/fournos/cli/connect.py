"""Connects to API servers.  `World` is the interface that tests replace."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import TypeAlias

from fournos.client.asynchronous import AsyncClient
from fournos.client.connection import dial
from fournos.insight.dispatch import Dial

CliSession: TypeAlias = AsyncClient
"""What a command works with: an open connection and the effective namespace."""
Connect: TypeAlias = Callable[
    [Path | None, str | None, str | None, str], AbstractAsyncContextManager[CliSession]
]
"""Connects by the values of --kubeconfig, --context and -n, for an owner."""


@asynccontextmanager
async def connect(
    kubeconfig: Path | None, context: str | None, namespace: str | None, owner: str
) -> AsyncIterator[CliSession]:
    async with AsyncClient(
        kubeconfig=kubeconfig, context=context, namespace=namespace, owner=owner
    ) as client:
        yield client


@dataclass(frozen=True, slots=True)
class World:
    """The external dependencies of a command: API servers and the clock."""

    connect: Connect = connect
    dial: Dial = dial
    now: Callable[[], datetime] = field(default=lambda: datetime.now(UTC))
