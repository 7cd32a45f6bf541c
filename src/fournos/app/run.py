"""`fournos run`: settings, clients, the chosen systems, leadership, health."""

from __future__ import annotations

import asyncio
import logging
import os
import secrets
import socket
import sys
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from fournos.app.files import roots
from fournos.app.preflight import UnsupportedError, preflight
from fournos.jobs.controller import jobs_system
from fournos.jobs.orphans import orphans_system
from fournos.jobs.settings import JobSettings
from fournos.jobs.template import load_template
from fournos.kube.client import Client
from fournos.kube.credentials import Credentials, load
from fournos.kube.errors import CredentialsError, KubeError
from fournos.kube.resource import Key
from fournos.runtime import logs, process
from fournos.runtime.clock import SystemClock
from fournos.runtime.controller import Controller
from fournos.runtime.events import Recorder
from fournos.runtime.health import Health
from fournos.runtime.lease import Lease
from fournos.runtime.metrics import Metrics
from fournos.runtime.system import System

log = logging.getLogger(__name__)

LEASE = "fournos"
_REQUESTS_PER_SECOND = 1000.0
"""The operator's own limit; the API server's priority and fairness is what protects it."""


def _jobs(settings: JobSettings) -> list[System[Any]]:
    template = load_template(settings.resolve_job_template, roots=roots())
    if template.error:
        log.error("the resolve Job template '%s' %s: jobs wait", template.path, template.error)
    return [jobs_system(settings, template), orphans_system(settings)]


SYSTEMS: Mapping[str, Callable[[JobSettings], list[System[Any]]]] = {"jobs": _jobs}
"""What `--enable` may name."""


def main(
    *,
    enable: tuple[str, ...] = ("jobs",),
    workers: int = 8,
    health_port: int = 8080,
    kubeconfig: Path | None = None,
    context: str | None = None,
) -> int:
    """Runs until told to stop.  Returns the exit code: 0, 1 if it had to give up, 2 if it cannot start."""
    try:
        settings = JobSettings()  # from the environment
    except ValidationError as error:
        for problem in error.errors():
            name = "_".join(str(part) for part in problem["loc"]).upper()
            name = name if name.startswith("FOURNOS_") else f"FOURNOS_{name}"
            print(f"fournos: {name}: {problem['msg']}", file=sys.stderr)
        return 2
    logs.configure(settings.log_level)
    unknown = [name for name in enable if name not in SYSTEMS]
    if unknown:
        print(f"fournos: unknown system {unknown[0]!r}; known: {', '.join(SYSTEMS)}", file=sys.stderr)
        return 2
    try:
        credentials = load(kubeconfig, context)
        return asyncio.run(
            _run(settings, credentials, enable=enable, workers=workers, health_port=health_port)
        )
    except (CredentialsError, UnsupportedError, KubeError, OSError) as error:
        print(f"fournos: {error}", file=sys.stderr)
        return 2


async def _run(
    settings: JobSettings,
    credentials: Credentials,
    *,
    enable: tuple[str, ...],
    workers: int,
    health_port: int,
) -> int:
    clock, metrics = SystemClock(), Metrics()
    identity = f"{socket.gethostname()}_{os.getpid()}_{secrets.token_hex(4)}"
    async with (
        Client(credentials, name="lease", observer=metrics.requests("lease")) as lease_api,
        Client(credentials, name="events", observer=metrics.requests("events")) as events_api,
    ):
        lease = Lease(lease_api, Key(settings.namespace, LEASE), identity, clock)
        async with Client(
            credentials,
            name="local",
            qps=_REQUESTS_PER_SECOND,
            burst=2 * int(_REQUESTS_PER_SECOND),
            guard=lease.check,
            observer=metrics.requests("local"),
        ) as api:
            for warning in await preflight(api):
                log.warning(warning)
            recorder = Recorder(events_api, clock, metrics, instance=identity)
            controller = Controller(
                api,
                [system for name in enable for system in SYSTEMS[name](settings)],
                clock=clock,
                metrics=metrics,
                tell=recorder.tell,
                workers=workers,
                collect_interval=settings.gc_interval_sec,
            )
            health = Health(
                clock,
                metrics,
                alive=controller.stuck,
                ready=controller.unsynced,
                refresh=controller.refresh_metrics,
            )
            return await process.run(
                [controller],
                clock=clock,
                metrics=metrics,
                lease=lease,
                recorder=recorder,
                background={"health": partial(health.run, port=health_port)},
            )
