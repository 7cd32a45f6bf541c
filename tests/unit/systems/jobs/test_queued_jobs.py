"""A FournosJob in the queue: how long it waits, what its message names, and when it is queued anew."""

from __future__ import annotations

from fournos.api.kinds import FOURNOS_JOB
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


async def test_a_wait_that_is_too_long_fails() -> None:
    def setup(server: Server) -> None:
        submit(server, "first", cluster="cluster-1")
        submit(server, timeouts={"pending": "10m"})

    server = await finished(setup, tekton=Tekton(endless={"first"}), horizon=700)
    assert phase(server) == "Failed"
    assert "Not admitted within spec.timeouts.pending (10m)" in status(server)["message"]


async def test_the_holder_of_the_cluster_is_reported() -> None:
    def setup(server: Server) -> None:
        submit(server, "first")
        submit(server)

    server = await finished(setup, tekton=Tekton(endless={"first"}))
    expected = "Cluster cluster-1 is exclusively locked by job first, waiting for it to finish"
    assert (phase(server), status(server)["message"]) == ("Pending", expected)


async def test_the_reported_holder_is_the_present_one() -> None:
    """Kueue's message stays the same when one job takes the cluster over from another; ours must not."""

    def setup(server: Server) -> None:
        submit(server, "first")
        submit(server, "urgent", priority="nightly")
        submit(server)

    def end_first(server: Server) -> None:
        assert "by job first" in status(server)["message"]
        server.patch(FOURNOS_JOB, Key(NS, "first"), {"spec": {"shutdown": "Terminate"}})

    server = await finished(setup, tekton=Tekton(endless={"first", "urgent"}), script=[end_first])
    assert phase(server, "first") == "Stopped"
    expected = "Cluster cluster-1 is exclusively locked by job urgent, waiting for it to finish"
    assert (phase(server), status(server)["message"]) == ("Pending", expected)


async def test_a_job_for_any_cluster_reports_that_all_are_locked() -> None:
    def setup(server: Server) -> None:
        submit(server, "first", cluster="cluster-1")
        submit(server, "second", cluster="cluster-2")

    def submit_shared(server: Server) -> None:
        submit(server, cluster=None, exclusive=False, hardware={"gpuType": "a100", "gpuCount": 2})

    def end_second(server: Server) -> None:
        expected = "All eligible clusters are exclusively locked, waiting for availability"
        assert (phase(server), status(server)["message"]) == ("Pending", expected)
        server.patch(FOURNOS_JOB, Key(NS, "second"), {"spec": {"shutdown": "Terminate"}})

    tekton = Tekton(endless={"first", "second"})
    server = await finished(setup, tekton=tekton, script=[submit_shared, end_second])
    assert (phase(server), status(server)["cluster"]) == ("Succeeded", "cluster-2")


async def test_a_long_queue_is_not_written_again_for_every_job_that_ends() -> None:
    def setup(server: Server) -> None:
        submit(server, "first")
        for number in range(60):
            submit(server, f"waiting-{number}")

    server = await finished(setup, tekton=Tekton(endless={"first"}))
    messages = [j["status"]["message"] for j in server.list(FOURNOS_JOB) if j["metadata"]["name"] != "first"]
    assert sum("by job first" in message for message in messages) == 50
    assert sum("by another job" in message for message in messages) == 10


async def test_a_lost_workload_stops_the_run_and_queues_it_again() -> None:
    def lose(server: Server) -> None:
        server.delete(WORKLOAD, Key(NS, "job"))

    server = await finished(tekton=Tekton(endless={"job"}, pods=True), script=[lose])
    assert phase(server) == "Succeeded"
    assert [a["outcome"] for a in status(server)["attempts"]] == ["Lost", "Succeeded"]


async def test_a_spec_that_changes_in_the_queue_is_queued_anew() -> None:
    """Cluster and priority are free until a cluster is assigned."""

    def setup(server: Server) -> None:
        submit(server, "first")
        submit(server)

    def move(server: Server) -> None:
        assert phase(server) == "Pending"
        server.patch(FOURNOS_JOB, Key(NS, "job"), {"spec": {"cluster": "cluster-2"}})

    server = await finished(setup, tekton=Tekton(endless={"first"}), script=[move])
    assert (phase(server), status(server)["cluster"]) == ("Succeeded", "cluster-2")
