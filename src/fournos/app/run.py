"""Implements `fournos run`: settings, clients, the enabled parts, leader election, health."""

from __future__ import annotations

import asyncio
import logging
import os
import secrets
import socket
import sys
from collections.abc import Mapping, Sequence
from contextlib import AsyncExitStack
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

from pydantic import ValidationError
from pydantic_settings import BaseSettings

from fournos.app.metrics import TABLE
from fournos.app.metrics_server import metrics_tasks
from fournos.app.parts import PARTS
from fournos.app.place import lease_namespace
from fournos.app.webhooks import Offer, served
from fournos.kube.client import Client
from fournos.kube.credentials import Credentials, load
from fournos.kube.errors import CredentialsError, KubeError
from fournos.kube.resource import Key
from fournos.runtime import logs, process
from fournos.runtime.clock import SystemClock
from fournos.runtime.events import Recorder
from fournos.runtime.health import Health
from fournos.runtime.lease import Lease
from fournos.runtime.manager import Manager
from fournos.runtime.metrics import Metrics
from fournos.runtime.metrics_server.settings import MetricsSettings
from fournos.runtime.part import Part, Running
from fournos.runtime.preflight import UnsupportedError, preflight
from fournos.runtime.webhook.settings import WebhookSettings

log = logging.getLogger(__name__)

_REQUESTS_PER_SECOND = 1000.0
"""The client-side rate limit; the API server is protected by its own priority and fairness."""


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
    """Runs until a signal stops it.  Returns the exit code: 0, 1 if it gave up, 2 if it cannot start.

    `enable` names parts; each entry has one name or several, separated by commas.
    `webhook_url` is the setting of this name.
    """
    names = tuple(dict.fromkeys(name for entry in enable for name in entry.split(",")))
    unknown = [name for name in names if name not in PARTS]
    if unknown:
        print(f"fournos: unknown system {unknown[0]!r}; known: {', '.join(PARTS)}", file=sys.stderr)
        return 2
    parts = [PARTS[name] for name in names]
    found = [_settings(part.settings) for part in parts]
    settings = [one for one in found if one is not None]
    given = {"url": webhook_url, "service": ""} if webhook_url else {}
    webhooks = _settings(WebhookSettings, **given)
    scraping = _settings(MetricsSettings)
    if len(settings) < len(parts) or webhooks is None or scraping is None:
        return 2
    levels = {name: str(vars(one)["log_level"]) for name, one in zip(names, settings, strict=True)}
    logs.configure(levels=levels)
    try:
        credentials = load(kubeconfig, context)
        return asyncio.run(
            _run(
                list(zip(parts, settings, strict=True)),
                webhooks,
                scraping,
                credentials,
                levels=levels,
                workers=workers,
                health_port=health_port,
            )
        )
    except (CredentialsError, UnsupportedError, KubeError, OSError) as error:
        print(f"fournos: {error}", file=sys.stderr)
        return 2


_Settings = TypeVar("_Settings", bound=BaseSettings)


def _settings(which: type[_Settings], **given: Any) -> _Settings | None:
    """Reads settings from the environment; returns None after printing what is invalid."""
    try:
        return which(**given)
    except ValidationError as error:
        prefix = str(which.model_config.get("env_prefix") or "")
        for problem in error.errors():
            name = "_".join(str(one) for one in problem["loc"]).upper()
            name = name if name.startswith(prefix) else f"{prefix}{name}".rstrip("_")
            said = _NEEDED if problem["type"] == "missing" else problem["msg"].removeprefix("Value error, ")
            print(f"fournos: {name}: {said}", file=sys.stderr)
        return None


async def _run(
    parts: Sequence[tuple[Part[Any], Any]],
    webhook_settings: WebhookSettings,
    metrics_settings: MetricsSettings,
    credentials: Credentials,
    *,
    levels: Mapping[str, str],
    workers: int,
    health_port: int,
) -> int:
    clock, metrics = SystemClock(), Metrics(TABLE)
    identity = f"{socket.gethostname()}_{os.getpid()}_{secrets.token_hex(4)}"
    async with AsyncExitStack() as stack:
        lease_api = await stack.enter_async_context(
            Client(credentials, name="lease", observer=metrics.requests("lease"))
        )
        events_api = await stack.enter_async_context(
            Client(credentials, name="events", observer=metrics.requests("events"))
        )
        # Not guarded by a lease, because every replica answers.
        webhook_api = await stack.enter_async_context(
            Client(
                credentials,
                name="webhooks",
                qps=_REQUESTS_PER_SECOND,
                burst=2 * int(_REQUESTS_PER_SECOND),
                observer=metrics.requests("webhooks"),
            )
        )
        # A separate client, because reviews of unknown clients' tokens must not delay other requests.
        metrics_api = await stack.enter_async_context(
            Client(credentials, name="metrics", qps=10, burst=20, observer=metrics.requests("metrics"))
        )
        for warning in await preflight(
            events_api, dict.fromkeys(one for part, _ in parts for one in part.required)
        ):
            log.warning(warning)
        for part, settings in parts:
            for warning in await part.verify(settings, events_api) if part.verify else ():
                log.warning(warning)
        recorder = Recorder(events_api, clock, metrics, instance=identity)
        controllers, running, offers = [], [], []
        for part, settings in parts:
            # Each part has its own lease, whatever else its process runs: a part has only one writer.
            namespace = await lease_namespace(lease_api, settings, credentials.namespace)
            lease = Lease(lease_api, Key(namespace, part.lease), identity, clock)
            api = await stack.enter_async_context(
                Client(
                    credentials,
                    name="local",
                    qps=_REQUESTS_PER_SECOND,
                    burst=2 * int(_REQUESTS_PER_SECOND),
                    guard=lease.check,
                    observer=metrics.requests("local"),
                )
            )
            wake = _Wake()
            its = part.start(settings, clock, metrics, wake)
            wake.controller = Manager(
                api,
                its.controllers,
                lease=lease,
                clock=clock,
                metrics=metrics,
                record=recorder.record,
                workers=workers,
                collect_interval=part.collect_interval(settings),
            )
            controllers.append(wake.controller)
            running.append(its)
            offers.append(Offer(part.webhooks(settings), settings.namespace, lease))
        logs.configure(levels=_by_system(levels, running))
        webhooks = served(webhook_api, offers, webhook_settings, clock=clock, metrics=metrics)

        def refresh() -> None:
            for controller, its in zip(controllers, running, strict=True):
                controller.refresh_metrics()
                its.refresh(controller)

        health = Health(
            clock,
            metrics,
            alive=lambda: [text for controller in controllers for text in controller.informers.stuck()],
            ready=lambda: [
                *(text for controller in controllers for text in controller.informers.unsynced()),
                *webhooks.complaints(),
            ],
            remarks=lambda: [text for controller in controllers for text in controller.informers.hindered()],
            plain=metrics_settings.plain,
            refresh=refresh,
        )
        metrics_server = metrics_tasks(
            metrics_api,
            metrics_settings,
            namespace=parts[0][1].namespace,
            clock=clock,
            metrics=metrics,
            refresh=refresh,
        )
        return await process.run(
            controllers,
            clock=clock,
            metrics=metrics,
            recorder=recorder,
            background={
                "health": partial(health.run, port=health_port),
                **{name: job for one in running for name, job in one.background.items()},
                **webhooks.background,
                **metrics_server,
            },
        )


def _by_system(levels: Mapping[str, str], running: Sequence[Running]) -> dict[str, str]:
    """Returns the log level of each part, by the names of its packages and of its controllers."""
    found = dict(levels)
    for level, its in zip(levels.values(), running, strict=True):
        found |= dict.fromkeys((controller.name for controller in its.controllers), level)
    return found


class _Wake:
    """Enqueues keys of the part's manager, which is created after the part has started."""

    controller: Manager

    def __call__(self, system: str, key: Key | None = None) -> None:
        self.controller.wake(system, key)
