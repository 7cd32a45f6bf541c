"""Kueue's webhook refuses a resolve Job: the job waits with the reason and the remedy, and then goes on."""

from __future__ import annotations

from typing import Any

from fournos.engine.api.conditions import condition
from fournos.engine.kube.errors import ServerError
from fournos.engine.kube.resource import JOB
from tests.unit.engine.queueing.test_kind_names import SILENT
from tests.unit.systems.jobs.actors import job, phase, submit
from tests.unit.systems.jobs.test_lifecycle import scenario
from tests.world.harness import run
from tests.world.server import Server


async def test_a_resolve_job_that_kueue_holds_up_names_the_cure() -> None:
    messages: list[str] = []

    def setup(server: Server) -> None:
        submit(server)

        def refuse(verb: str, resource: Any, body: Any) -> Any:
            if (verb, resource) != ("create", JOB) or messages:
                return None
            found = condition(job(server), "Retrying") or {}
            messages.extend([found["message"]] if found else [])
            return ServerError(SILENT, status=500)

        server.refusals.append(refuse)

    done = await run(scenario(setup))
    assert phase(done.server) == "Succeeded"
    (message,) = messages
    assert SILENT in message and message.endswith("kubectl apply --server-side -k deploy/kueue)")
