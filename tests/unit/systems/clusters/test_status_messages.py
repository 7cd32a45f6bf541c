"""The status of a FournosCluster: its draft, and the messages where something around it is missing."""

from __future__ import annotations

from datetime import UTC, datetime

from fournos.engine.queueing.workload import CLUSTER_QUEUE
from fournos.systems.clusters.status import StatusDraft
from tests.unit.systems.clusters import actors
from tests.unit.systems.clusters.actors import QUEUE, cluster, condition_of, edit, hub
from tests.unit.systems.clusters.test_lifecycle import one
from tests.world.harness import Scenario, in_order, run
from tests.world.server import Server


def message(server: Server, type_: str) -> str:
    (found,) = [c for c in cluster(server)["status"]["conditions"] if c["type"] == type_]
    return str(found["message"])


async def test_without_a_clusterqueue_its_name_and_setting_are_named() -> None:
    first, *others = actors.controllers()
    server = (await run(Scenario(first, one, others=others, horizon=100.0))).server
    assert server.find(CLUSTER_QUEUE, QUEUE) is None
    assert condition_of(server, "QuotaSynced") == ("False", "NoClusterQueue")
    assert message(server, "QuotaSynced") == (
        "there is no ClusterQueue fournos-queue to give it quota (HEARTH_KUEUE_CLUSTER_QUEUE_NAME)"
    )


async def test_a_lock_without_an_operator_of_jobs_reports_it() -> None:
    first, *others = actors.controllers()
    script = (lambda server: edit(server, owner="ann"),)
    story = Scenario(
        first, in_order(hub, one), others=others, actors=[actors.kueue], script=script, horizon=100.0
    )
    server = (await run(story)).server
    assert condition_of(server, "Locked") == ("False", "Requested")
    expected = "waits for an operator of FournosJobs to queue psap-automation/cluster-lock-c1"
    assert message(server, "Locked") == expected


NOW = datetime(2026, 3, 1, tzinfo=UTC)


def test_rendering_does_not_change_the_draft() -> None:
    draft = StatusDraft({"metadata": {"generation": 7}, "status": {"lockState": "Held"}}, NOW)
    assert draft.render() == {"lockState": "Held", "observedGeneration": 7}
    assert draft.group("observedGeneration") == {}


def test_without_a_generation_none_is_written() -> None:
    assert StatusDraft({"metadata": {}, "status": {"lockState": "Held"}}, NOW).render() == {
        "lockState": "Held"
    }
