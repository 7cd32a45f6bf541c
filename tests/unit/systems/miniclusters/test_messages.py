"""What a MiniCluster shows of why its pods do not run, or have not joined."""

from __future__ import annotations

from typing import Any

from fournos.api.kinds import MINICLUSTER
from fournos.engine.kube.resource import EVENT, JOB, POD, Key, key_of, uid_of
from fournos.systems.miniclusters.settings import MiniClusterSettings
from tests.unit.systems.miniclusters.actors import NS, Cluster, get, submit
from tests.unit.systems.miniclusters.statuses import completed, container, set_status, status
from tests.unit.systems.miniclusters.stories import ends_with, story
from tests.world.harness import run
from tests.world.server import Server

# --- what only Events say --------------------------------------------------------------------------------


def warned(name: str, note: str, at: str, *, kind: Any = POD, uid: str = "") -> Any:
    """A warning about the object of this name; with `uid` about another that had the name."""

    def act(server: Server) -> None:
        meta = {"namespace": NS, "name": f"{name}.{note}"}
        regarding = {"name": name, "uid": uid or uid_of(server.get(kind, Key(NS, name)))}
        message = {"reason": "FailedMount", "note": note, "type": "Warning"}
        server.create(
            EVENT, {"metadata": meta, "regarding": regarding, "deprecatedLastTimestamp": at, **message}
        )

    return act


async def test_a_cause_that_only_events_have_is_in_the_message() -> None:
    stuck = Cluster(stuck={"flux-1"})
    old, new = warned("flux-1", "old", "2026-01-01"), warned("flux-1", "no such directory", "2026-01-02")
    other = warned("flux-0", "of another", "2026-01-03")
    earlier = warned("flux-1", "of an earlier one", "2026-01-04", uid="earlier")
    server = (await run(story(old, new, other, earlier, world=lambda: stuck))).server
    assert get(server)["status"]["message"].endswith(": FailedMount: no such directory")


async def test_only_events_of_the_job_explain_a_missing_pod() -> None:
    """An earlier Job and the MiniCluster have the same name."""

    def without_its_worker(server: Server) -> None:
        server.delete(POD, Key(NS, "flux-1"))

    class Refusing(Cluster):
        def _kept_up(self, server: Server, job: Any) -> bool:
            return not server.list(EVENT) and super()._kept_up(server, job)

    refused = warned("flux", "quota", "2026-01-01", kind=JOB)
    others = (
        warned("flux", "of an earlier Job", "2026-01-02", uid="earlier"),
        warned("flux", "of the MiniCluster", "2026-01-03", kind=MINICLUSTER),
    )
    server = (await run(story(refused, *others, without_its_worker, world=Refusing))).server
    assert get(server)["status"]["message"].endswith(": FailedMount: quota")


async def test_a_worker_that_has_completed_is_not_missed() -> None:
    """What failed before is no reason for its absence."""

    def completed(server: Server) -> None:
        job = server.list(JOB)[0]
        server.patch(JOB, key_of(job), {"status": {"completedIndexes": "1"}}, subresource="status")
        server.delete(POD, Key(NS, "flux-1"))

    def completing(server: Server) -> None:
        submit(server, flux={"completeWorkers": True})

    warning = warned("flux", "of a pod before", "2026-01-01", kind=JOB)
    server = (await run(story(warning, completed, setup=completing))).server
    assert get(server)["status"]["message"] == "1 of 2 pods run, 1 are ready"


async def test_the_events_of_its_start_do_not_explain_a_pod_that_has_started() -> None:
    """Its container has ended, and its pod is not over yet."""
    probed = warned("flux-0", "Startup probe failed", "2026-01-01")
    late = ends_with(0, late=True)
    server = (await run(story(probed, world=late, settings=MiniClusterSettings(end_grace_sec=900)))).server
    assert "Startup probe" not in str(get(server)["status"])


async def test_while_flux_shuts_down_nothing_is_waited_for() -> None:
    def ending(server: Server) -> None:
        server.clock.advance(60)
        completed(server, at=server.clock.now())

    found = get((await run(story(ending))).server)["status"]
    assert (found["phase"], found["message"]) == (
        "Running",
        "1 of 2 pods run, 1 are ready: Flux is shutting down",
    )


async def test_brokers_that_run_and_have_not_joined_are_not_ready() -> None:
    """Its certificate may be another one, or its configuration may name another lead."""
    alone = status("Running", container("flux", ready=False))
    server = (await run(story(set_status(1, alone)))).server
    found = get(server)["status"]
    assert (found["phase"], found["ready"]) == ("Running", 1)
    assert found["message"] == "2 of 2 pods run, 1 are ready: waiting for the brokers to join"


async def test_no_event_is_asked_for_where_pods_run() -> None:
    warning = warned("flux-1", "of its start", "2026-01-01")
    server = (await run(story(warning))).server
    assert "of its start" not in str(get(server)["status"])
