"""A FournosJob that a user stops or suspends, or that its own spec ends."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from fournos.api.kinds import FOURNOS_JOB, PIPELINE_RUN
from fournos.engine.kube.resource import Key
from fournos.engine.queueing.workload import WORKLOAD
from tests.unit.systems.jobs.actors import (
    NS,
    Tekton,
    phase,
    submit,
)
from tests.unit.systems.jobs.single import finished, status
from tests.world.server import Server


async def test_stopped_before_it_began() -> None:
    server = await finished(lambda s: submit(s, shutdown="Stop"))
    assert phase(server) == "Stopped"
    assert server.list(PIPELINE_RUN) == []


async def test_work_that_finished_before_the_stop_counts() -> None:
    """Stop arrives when the run has just succeeded."""
    tekton = Tekton(endless={"job"})

    def stop_at_the_end(server: Server) -> None:
        now = "2030-01-01T00:10:00Z"
        over = {"type": "Succeeded", "status": "True", "reason": "Succeeded", "message": "done"}
        server.patch(FOURNOS_JOB, Key(NS, "job"), {"spec": {"shutdown": "Stop"}})
        server.patch(
            PIPELINE_RUN,
            Key(NS, "job"),
            {"status": {"conditions": [over], "completionTime": now}},
            subresource="status",
        )

    server = await finished(tekton=tekton, script=[stop_at_the_end])
    assert phase(server) == "Succeeded"


async def test_a_stop_is_raised_to_terminate() -> None:
    tekton = Tekton(deaf={"job"})

    def spec(shutdown: str) -> Callable[[Server], None]:
        def change(server: Server) -> None:
            server.patch(FOURNOS_JOB, Key(NS, "job"), {"spec": {"shutdown": shutdown}})

        return change

    seen: list[Any] = []

    def look(server: Server) -> None:
        seen.append(server.get(PIPELINE_RUN, Key(NS, "job"))["spec"].get("status"))

    await finished(tekton=tekton, script=[spec("Stop"), look, spec("Terminate"), look], horizon=30)
    assert seen == ["CancelledRunFinally", "Cancelled"]


class Starting(Tekton):
    """Tekton that is creating the TaskRuns of a run when its job is stopped.

    Its first status comes after that.  A cancellation before it misses the TaskRuns, as Tekton's does.
    """

    seen: int = 0
    missed: bool = False

    def _step(self, server: Server, run: Any) -> bool:
        if run.get("status"):
            return super()._step(server, run)
        self.seen += 1
        self.missed = self.missed or bool(run["spec"].get("status"))
        if self.seen == 1:
            server.patch(FOURNOS_JOB, Key(NS, "job"), {"spec": {"shutdown": "Terminate"}})
            return True
        if self.seen < 4:
            labels = {"seen": str(self.seen)}
            server.patch(PIPELINE_RUN, Key(NS, "job"), {"metadata": {"labels": labels}})
            return True
        return super()._step(server, run)


async def test_a_run_is_cancelled_only_when_tekton_has_taken_it_up() -> None:
    tekton = Starting(endless={"job"})
    server = await finished(tekton=tekton)
    assert phase(server) == "Stopped"
    assert tekton.seen == 4 and not tekton.missed
    assert server.get(PIPELINE_RUN, Key(NS, "job"))["spec"]["status"] == "Cancelled"


async def test_suspended_at_creation_and_resumed() -> None:
    def resume(server: Server) -> None:
        assert phase(server) == "Pending"
        assert status(server)["message"].startswith("Suspended")
        server.patch(FOURNOS_JOB, Key(NS, "job"), {"spec": {"suspend": False}})

    server = await finished(lambda s: submit(s, suspend=True), script=[resume])
    assert phase(server) == "Succeeded"


async def test_suspended_while_it_runs() -> None:
    def suspend(value: bool) -> Callable[[Server], None]:
        def change(server: Server) -> None:
            if not value:
                assert (phase(server), server.list(WORKLOAD)) == ("Pending", [])
            server.patch(FOURNOS_JOB, Key(NS, "job"), {"spec": {"suspend": value}})

        return change

    server = await finished(tekton=Tekton(endless={"job"}), script=[suspend(True), suspend(False)])
    assert phase(server) == "Succeeded"
    assert [a["outcome"] for a in status(server)["attempts"]] == ["Stopped", "Succeeded"]


async def test_time_to_live_deletes_the_finished_job() -> None:
    server = await finished(lambda s: submit(s, ttl="30m"), horizon=1700)
    assert phase(server) == "Succeeded"
    server = await finished(lambda s: submit(s, ttl="30m"), horizon=1900)
    assert server.list(FOURNOS_JOB) == []
