"""Connects to API servers.  `World` is the interface that tests replace."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import TypeAlias

from fournos.client.connection import dial
from fournos.engine.kube.api import Api
from fournos.engine.kube.client import Client
from fournos.engine.kube.credentials import contexts as contexts
from fournos.engine.kube.credentials import load
from fournos.insight.workers import Dial


@dataclass(frozen=True, slots=True)
class CliSession:
    """An open connection to an API server, and a namespace."""

    api: Api
    namespace: str
    """Of a new connection that of the kubeconfig context; in a command the effective one."""


Connect: TypeAlias = Callable[[Path | None, str | None], AbstractAsyncContextManager[CliSession]]
"""Connects by the values of --kubeconfig and --context.  Raises CredentialsError."""


@asynccontextmanager
async def connect(kubeconfig: Path | None, context: str | None) -> AsyncIterator[CliSession]:
    credentials = load(kubeconfig, context)
    async with Client(credentials, name="cli") as client:
        yield CliSession(client, credentials.namespace)


@dataclass(frozen=True, slots=True)
class World:
    """The external dependencies of a command: API servers and the clock."""

    connect: Connect = connect
    dial: Dial = dial
    now: Callable[[], datetime] = field(default=lambda: datetime.now(UTC))
