"""The life of a single FournosJob in the in-memory world, without a comparison of disturbed runs."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from fournos.systems.jobs.part import jobs_controller
from fournos.systems.jobs.settings import JobSettings, Template
from tests.unit.systems.jobs.actors import (
    SETTINGS,
    TEMPLATE,
    Kueue,
    Resolver,
    Tekton,
    environment,
    job,
    submit,
)
from tests.world.harness import Scenario, in_order, run
from tests.world.server import Server


async def finished(
    setup: Callable[[Server], Any] = submit,
    *,
    writes: dict[str, Any] | None = None,
    resolver: Any = None,
    cast: Any = None,
    settings: JobSettings = SETTINGS,
    template: Template = TEMPLATE,
    script: Any = (),
    tekton: Tekton | None = None,
    horizon: float = 60.0,
) -> Server:
    """Returns the server at the end; `cast` are the actors in place of a Resolver, Kueue and Tekton."""
    cast = cast or [resolver or Resolver(writes or {}), Kueue(), tekton or Tekton()]
    begin = in_order(environment, setup)
    return (
        await run(Scenario(jobs_controller(settings, template), begin, cast, script, horizon=horizon))
    ).server


def status(server: Server) -> Any:
    return job(server).get("status") or {}
