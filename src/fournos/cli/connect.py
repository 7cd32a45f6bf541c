"""The way to the API server: credentials, namespace, and the seam where tests put theirs."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import TypeAlias

from fournos.kube.api import Api
from fournos.kube.client import Client
from fournos.kube.credentials import Credentials, load
from fournos.kube.probe import ClusterApi

WORKER_TIMEOUT = 10.0
"""Seconds that an answer of another cluster may take."""


@dataclass(frozen=True, slots=True)
class Connection:
    api: Api
    namespace: str
    """The kubeconfig context's."""


Connect: TypeAlias = Callable[[Path | None, str | None], AbstractAsyncContextManager[Connection]]
"""From --kubeconfig and --context.  Raises CredentialsError."""


@asynccontextmanager
async def connect(kubeconfig: Path | None, context: str | None) -> AsyncIterator[Connection]:
    credentials = load(kubeconfig, context)
    async with Client(credentials, name="cli") as client:
        yield Connection(client, credentials.namespace)


Dial: TypeAlias = Callable[[Credentials], AbstractAsyncContextManager[ClusterApi]]
"""Reaches another cluster."""


@asynccontextmanager
async def dial(credentials: Credentials) -> AsyncIterator[ClusterApi]:
    async with Client(credentials, name="worker", timeout=WORKER_TIMEOUT) as client:
        yield client


@dataclass(frozen=True, slots=True)
class World:
    """What a command meets outside of itself."""

    connect: Connect = connect
    dial: Dial = dial
    now: Callable[[], datetime] = field(default=lambda: datetime.now(UTC))
