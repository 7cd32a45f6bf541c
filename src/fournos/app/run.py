"""Implements `fournos run`: settings, clients, the enabled parts, leader election, health."""

from __future__ import annotations

import logging
import os
import secrets
import socket
import sys
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

import uvloop
from pydantic import ValidationError
from pydantic_settings import BaseSettings

from fournos.app.parts import PARTS, TABLE
from fournos.engine.kube.api import Api
from fournos.engine.kube.client import Client
from fournos.engine.kube.credentials import Credentials, load
from fournos.engine.kube.errors import CredentialsError, KubeError, NotFoundError
from fournos.engine.kube.resource import NAMESPACE, Key
from fournos.engine.runtime import logs, process
from fournos.engine.runtime.clock import Clock, SystemClock
from fournos.engine.runtime.events import Recorder
from fournos.engine.runtime.lease import Lease
from fournos.engine.runtime.manager import Manager
from fournos.engine.runtime.metrics import Metrics
from fournos.engine.runtime.part import Part, Running, UnsupportedError, preflight
from fournos.engine.runtime.process import Health
from fournos.engine.runtime.webhook.registration import Registrar, WebhookSettings
from fournos.engine.runtime.webhook.review import Webhook
from fournos.engine.runtime.webhook.server import WebhookServer

# --- namespaces -------------------------------------------------------------------------------------
# The namespaces of a part's Lease and of the operator itself.

log = logging.getLogger(__name__)


def operator_namespace(part: Part[Any], settings: BaseSettings, given: str) -> str:
    """Returns the namespace of the operator's Services and certificates; `given` is the one that is set."""
    return given or str(getattr(settings, "namespace", part.namespace))


async def lease_namespace(api: Api, part: Part[Any], settings: BaseSettings, given: str, current: str) -> str:
    """Returns the namespace of a part's Lease.

    A part that works in one namespace has its Lease there, not where the operator is: operators of the same
    jobs have one Lease, wherever each is deployed.  Others have it where the operator is.

    `current`, the namespace of the credentials, is used if none is set and the default one does not exist, so
    that an operator in a terminal needs no deployment before it.
    """
    own = "namespace" in type(settings).model_fields
    namespace = str(getattr(settings, "namespace", given or part.namespace))
    if "namespace" in settings.model_fields_set if own else given:
        return namespace
    try:
        await api.get(NAMESPACE, Key("", namespace))
    except NotFoundError:
        log.info("there is no namespace %s: the Lease lies in namespace %s", namespace, current)
        return current
    except KubeError:
        pass  # the write of the Lease reports the error
    return namespace


# --- webhooks ---------------------------------------------------------------------------------------
# The admission webhooks of the enabled parts, as tasks of the process.


@dataclass(frozen=True, slots=True)
class WebhookOffer:
    """The webhooks of one part, the namespace of its operator, and its lease."""

    webhooks: Sequence[Webhook]
    namespace: str
    lease: Lease


@dataclass(frozen=True, slots=True)
class Served:
    """The tasks and readiness problems that webhooks add to the process; empty if none are served."""

    background: Mapping[str, Callable[[], Awaitable[None]]] = field(default_factory=dict)
    problems: Callable[[], Iterable[str]] = tuple


def served(
    api: Api,
    offers: Iterable[WebhookOffer],
    settings: WebhookSettings,
    *,
    url: str = "",
    clock: Clock,
    metrics: Metrics,
) -> Served:
    """Returns the webhook server and the certificate rotation of all parts.

    `url`: where the API server reaches this process itself, instead of a Service.

    `api` must not be guarded by a lease, because every replica answers.  All webhooks share one port, one
    certificate and one writer of the configurations: the leader of the first part that has webhooks.
    """
    offered = [offer for offer in offers if offer.webhooks]
    target = settings.target(offered[0].namespace, url) if offered else None
    if target is None:
        return Served()
    webhooks = [webhook for offer in offered for webhook in offer.webhooks]
    server = WebhookServer(api, webhooks, metrics=metrics, clients=settings.client_authorities)
    registrar = Registrar(
        api,
        webhooks,
        target,
        secret=Key(offered[0].namespace, target.secret),
        clock=clock,
        metrics=metrics,
        leading=offered[0].lease.leading,
        show=server.show,
    )
    return Served(
        background={
            "webhooks": partial(server.run, port=target.port),
            "webhook-certificates": registrar.run,
        },
        problems=lambda: [*server.problems(), *registrar.problems()],
    )


_RATE = (200.0, 400)
"""Requests per second over time, and at once, of a client without an entry in the table."""
_RATES: Mapping[str, tuple[float, int]] = {
    # The API server is protected by its own priority and fairness.
    "local": (1000.0, 2000),
    "webhooks": (1000.0, 2000),
}

_NEEDED = "needed and not set; name the namespace of the jobs: export FOURNOS_NAMESPACE=<namespace>"
"""The namespace is the only setting without a default."""


def main(
    *,
    enable: tuple[str, ...] = ("jobs",),
    workers: int = 8,
    health_port: int = 8080,
    kubeconfig: Path | None = None,
    context: str | None = None,
    webhook_url: str = "",
) -> int:
    """Runs until a signal stops it.  Returns the exit code, one of `process.ExitCode`.

    `enable` names parts; each entry has one name or several, separated by commas.
    `webhook_url`: where the API server reaches this process, for development.
    """
    names = tuple(dict.fromkeys(name for entry in enable for name in entry.split(",")))
    unknown = [name for name in names if name not in PARTS]
    if unknown:
        print(f"fournos: unknown system {unknown[0]!r}; known: {', '.join(PARTS)}", file=sys.stderr)
        return process.ExitCode.NOT_STARTED
    parts = [PARTS[name] for name in names]
    valid = [_settings(part.settings) for part in parts]
    settings = [part_settings for part_settings in valid if part_settings is not None]
    webhooks = _settings(WebhookSettings)
    own = _settings(process.ProcessSettings)
    if len(settings) < len(parts) or webhooks is None or own is None:
        return process.ExitCode.NOT_STARTED
    try:
        webhooks.target("", webhook_url)
    except ValueError as error:
        print(f"fournos: --webhook-url: {error}", file=sys.stderr)
        return process.ExitCode.NOT_STARTED
    logs.configure(_level([own, *settings]))
    try:
        credentials = load(kubeconfig, context)
        return uvloop.run(
            _run(
                list(zip(parts, settings, strict=True)),
                webhooks,
                webhook_url,
                own,
                credentials,
                workers=workers,
                health_port=health_port,
            )
        )
    except (CredentialsError, UnsupportedError, KubeError, OSError) as error:
        print(f"fournos: {error}", file=sys.stderr)
        return process.ExitCode.NOT_STARTED


def check_ports(ports: Mapping[str, int]) -> None:
    """Raises OSError for a port that cannot be listened on; `ports`: what names it → port, 0 if unused."""
    for name, port in ports.items():
        try:
            if port:
                socket.create_server(("", port)).close()
        except OSError as error:
            raise OSError(f"port {port} ({name}) cannot be used: {os.strerror(error.errno or 0)}") from None


def _level(settings: Sequence[BaseSettings]) -> str:
    """Returns the most detailed level that is set: a part may have a published variable of its own."""
    levels = [str(vars(one)["log_level"]) for one in settings if "log_level" in one.model_fields_set]
    return min(levels, key=logging.getLevelNamesMapping().__getitem__, default="INFO")


_Settings = TypeVar("_Settings", bound=BaseSettings)


def _settings(which: type[_Settings]) -> _Settings | None:
    """Reads settings from the environment; returns None after printing what is invalid."""
    try:
        return which()
    except ValidationError as error:
        prefix = str(which.model_config.get("env_prefix") or "")
        for problem in error.errors():
            name = "_".join(str(one) for one in problem["loc"]).upper()
            name = name if name.startswith((prefix, "FOURNOS_")) else f"{prefix}{name}".rstrip("_")
            message = (
                _NEEDED if problem["type"] == "missing" else problem["msg"].removeprefix("Value error, ")
            )
            print(f"fournos: {name}: {message}", file=sys.stderr)
        return None


@dataclass(frozen=True, slots=True)
class _Shared:
    """What all parts of the process share."""

    credentials: Credentials
    clients: AsyncExitStack
    """Closes the clients when the process ends."""
    clock: Clock
    metrics: Metrics
    workers: int
    identity: str
    operator: str
    """The namespace of the operator itself, if it is set."""

    async def client(self, name: str, *, guard: Callable[[], None] | None = None) -> Client:
        """Returns a client with a rate limit of its own; its requests are counted under this name."""
        qps, burst = _RATES.get(name, _RATE)
        observer = self.metrics.requests(name)
        client = Client(self.credentials, name=name, qps=qps, burst=burst, guard=guard, observer=observer)
        return await self.clients.enter_async_context(client)


@dataclass(frozen=True, slots=True)
class _Started:
    """A part with its manager and what it offers to the webhook server."""

    running: Running
    manager: Manager | None
    """None for a part without controllers."""
    offer: WebhookOffer | None
    tasks: Mapping[str, Callable[[], Awaitable[None]]]
    """The part's tasks beside its controllers, by name."""

    def refresh(self) -> None:
        if self.manager is not None:
            self.manager.refresh_metrics()
            self.running.refresh(self.manager)


async def _run(
    parts: Sequence[tuple[Part[Any], Any]],
    webhook_settings: WebhookSettings,
    webhook_url: str,
    own: process.ProcessSettings,
    credentials: Credentials,
    *,
    workers: int,
    health_port: int,
) -> int:
    # Before the Lease: a process that cannot serve must not lead.
    target = webhook_settings.target("", webhook_url)
    check_ports(
        {
            "--health-port": health_port,
            "FOURNOS_METRICS_PORT": own.metrics_port,
            "admission webhooks": target.port if target else 0,
            **{f"{one.model_config.get('env_prefix')}PORT": getattr(one, "port", 0) for _, one in parts},
        }
    )
    clock, metrics = SystemClock(), Metrics(TABLE)
    identity = f"{socket.gethostname()}_{os.getpid()}_{secrets.token_hex(4)}"
    async with AsyncExitStack() as clients:
        shared = _Shared(credentials, clients, clock, metrics, workers, identity, own.controller_namespace)
        lease_api, events_api = await shared.client("lease"), await shared.client("events")
        await _verify(parts, events_api)
        recorder = Recorder(events_api, clock, metrics, instance=identity)
        started = [await _start(part, settings, shared, lease_api, recorder) for part, settings in parts]
        # Not guarded by a lease, because every replica answers.
        webhooks = served(
            await shared.client("webhooks"),
            [part.offer for part in started if part.offer is not None],
            webhook_settings,
            url=webhook_url,
            clock=clock,
            metrics=metrics,
        )
        managers = [part.manager for part in started if part.manager is not None]
        health = _health(started, webhooks, shared)
        return await process.run(
            managers,
            clock=clock,
            metrics=metrics,
            recorder=recorder,
            background={
                "health": partial(health.run, port=health_port, metrics_port=own.metrics_port),
                **{name: task for part in started for name, task in part.tasks.items()},
                **webhooks.background,
            },
        )


async def _verify(parts: Sequence[tuple[Part[Any], Any]], api: Client) -> None:
    """Logs what the cluster lacks.  Raises UnsupportedError if a part cannot run there."""
    for warning in await preflight(api, dict.fromkeys(one for part, _ in parts for one in part.required)):
        log.warning(warning)
    for part, settings in parts:
        for warning in await part.verify(settings, api) if part.verify else ():
            log.warning(warning)


async def _start(
    part: Part[Any], settings: Any, shared: _Shared, lease_api: Client, recorder: Recorder
) -> _Started:
    """Starts a part.

    Each part has its own Lease, whatever else its process runs: a part has only one writer.
    """
    if not part.lease:
        running = part.start(settings, shared.clock, shared.metrics, _Wake())
        api = await shared.client(part.name)
        return _Started(running, None, None, {**running.background, **running.serve(api)})
    namespace = await lease_namespace(
        lease_api, part, settings, shared.operator, shared.credentials.namespace
    )
    lease = Lease(lease_api, Key(namespace, part.lease), shared.identity, shared.clock)
    api = await shared.client("local", guard=lease.check)
    wake = _Wake()
    running = part.start(settings, shared.clock, shared.metrics, wake)
    tasks = {**running.background, **running.serve(await shared.client(part.name))}
    wake.manager = Manager(
        api,
        running.controllers,
        lease=lease,
        clock=shared.clock,
        metrics=shared.metrics,
        record=recorder.record,
        workers=shared.workers,
        collect_interval=part.collect_interval(settings),
    )
    running.started(wake.manager)
    offer = WebhookOffer(part.webhooks(settings), operator_namespace(part, settings, shared.operator), lease)
    return _Started(running, wake.manager, offer, tasks)


def _health(started: Sequence[_Started], webhooks: Served, shared: _Shared) -> Health:
    informers = [part.manager.informers for part in started if part.manager is not None]

    def problems() -> list[str]:
        return [text for part in started for text in part.running.problems()]

    # The API server must reach webhooks whatever else their process does not reach: without them it refuses
    # the objects that they review.
    decides = not webhooks.background
    return Health(
        shared.clock,
        shared.metrics,
        alive=lambda: [text for informer in informers for text in informer.stuck()],
        ready=lambda: [
            *(text for informer in informers for text in informer.unsynced()),
            *webhooks.problems(),
            *(problems() if decides else ()),
        ],
        remarks=lambda: [
            *(text for informer in informers for text in informer.failing()),
            *problems(),
        ],
        refresh=[part.refresh for part in started],
    )


class _Wake:
    """Enqueues keys of the part's manager, which is created after the part has started."""

    manager: Manager

    def __call__(self, controller: str, key: Key | None = None) -> None:
        self.manager.wake(controller, key)
