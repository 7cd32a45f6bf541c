"""The steps that open and close this process's connections to other clusters."""

from __future__ import annotations

import base64
import binascii
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Protocol

from fournos.engine.kube.api import Api
from fournos.engine.kube.errors import CredentialsError, KubeError
from fournos.engine.kube.probe import Probe
from fournos.engine.kube.resource import SECRET, Key, Resource
from fournos.engine.kube.store import Store
from fournos.engine.runtime.controller import Executor
from fournos.engine.runtime.steps import Custom
from fournos.systems.clusters.names import SECRET_KEY


class Targets(Protocol):
    """The connections to other clusters, as this operator needs them (`fournos.engine.kube.fleet.Fleet`)."""

    def connect(
        self, name: str, kubeconfig: bytes, *, version: str, unreachable_since: datetime | None = None
    ) -> None: ...
    def disconnect(self, name: str) -> None: ...
    def version_of(self, name: str) -> str | None: ...
    def probe(self, name: str) -> Probe | None: ...
    def store(self, name: str, resource: Resource) -> Store | None: ...
    def watch_error(self, name: str, resource: Resource) -> KubeError | None: ...


@dataclass(frozen=True, slots=True)
class Connect(Custom):
    """Opens a connection with the kubeconfig of this Secret.

    The executor reads the bytes, so that they never pass through a decision. Raises CredentialsError if they
    are not base64.
    """

    secret: Key
    cluster: str
    version: str
    unreachable_since: datetime | None = None


@dataclass(frozen=True, slots=True)
class Disconnect(Custom):
    """Closes the connection, if there is one."""

    cluster: str


def executors(targets: Targets) -> Mapping[type[Custom], Executor]:
    """Returns the executor of each step."""

    async def connect(step: Connect, api: Api) -> None:
        secret = await api.get(SECRET, step.secret)
        try:
            content = base64.b64decode((secret.get("data") or {}).get(SECRET_KEY) or "", validate=True)
        except (binascii.Error, ValueError):
            raise CredentialsError(f"Secret {step.secret}: {SECRET_KEY} is not base64") from None
        targets.connect(step.cluster, content, version=step.version, unreachable_since=step.unreachable_since)

    async def disconnect(step: Disconnect, api: Api) -> None:
        targets.disconnect(step.cluster)

    return {Connect: connect, Disconnect: disconnect}
