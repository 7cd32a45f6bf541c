"""The steps that connect to a worker, refuse its kubeconfig or disconnect it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial

from fournos.engine.kube.api import Api
from fournos.engine.kube.resource import SECRET, Key
from fournos.engine.runtime.controller import Executor
from fournos.engine.runtime.steps import Custom
from fournos.systems.multikueue.kubeconfig import content_of
from fournos.systems.multikueue.remote_clients import RemoteClients


@dataclass(frozen=True, slots=True)
class Connect(Custom):
    """Connects with the kubeconfig of this Secret; its content is read here and never part of a decision."""

    worker: str
    secret: Key
    version: str


@dataclass(frozen=True, slots=True)
class Refuse(Custom):
    """Drops the connection and records why this version of the kubeconfig cannot be used."""

    worker: str
    version: str
    text: str


@dataclass(frozen=True, slots=True)
class Disconnect(Custom):
    """Drops the connection and its state."""

    worker: str


def executors(workers: RemoteClients) -> Mapping[type[Custom], Executor]:
    return {
        Connect: partial(_connect, workers),
        Refuse: partial(_refuse, workers),
        Disconnect: partial(_disconnect, workers),
    }


async def _connect(workers: RemoteClients, step: Connect, api: Api) -> None:
    workers.connect(step.worker, content_of(await api.get(SECRET, step.secret)), version=step.version)


async def _refuse(workers: RemoteClients, step: Refuse, api: Api) -> None:
    workers.refuse(step.worker, step.version, step.text)


async def _disconnect(workers: RemoteClients, step: Disconnect, api: Api) -> None:
    workers.disconnect(step.worker)
