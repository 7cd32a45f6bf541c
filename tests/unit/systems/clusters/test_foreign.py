"""What uses a cluster beside plain jobs: Workloads without a FournosJob, jobs with a lock's label or name.

The former are observed, reported, waited for, and never changed; the latter are running jobs.
"""

from __future__ import annotations

from typing import Any

import pytest

from fournos.api.kinds import FOURNOS_JOB
from fournos.engine.api.conditions import is_true
from fournos.engine.kube.resource import Key
from fournos.engine.queueing.kinds import CLUSTER_QUEUE, WORKLOAD
from tests.unit.systems.clusters import actors
from tests.unit.systems.clusters.actors import NS, QUEUE, SLOT, cluster, condition_of, foreign, hub, quotas
from tests.unit.systems.clusters.test_lifecycle import FOREIGN, LOCK, deleted, one, owned, scenario
from tests.world.harness import Scenario, in_order, run
from tests.world.server import Server


async def test_a_foreign_workload_keeps_a_deleted_cluster_and_is_named_and_left_alone() -> None:
    server = (await run(scenario(one, foreign, owned(drain="Stop"), deleted))).server
    assert is_true(server.get(WORKLOAD, FOREIGN), "Admitted")
    assert cluster(server)["status"]["decommission"] == "Draining" and "c1" in quotas(server)
    assert condition_of(server, "Draining") == ("True", "Waiting")
    (shown,) = [c for c in cluster(server)["status"]["conditions"] if c["type"] == "Draining"]
    assert shown["message"].endswith("end or delete them: test-blocked-job")


async def test_quota_that_kueue_counts_for_another_namespace_keeps_a_deleted_cluster() -> None:
    def used(server: Server) -> None:
        """Kueue counts a Workload in a namespace that is not watched."""
        reserved = [{"name": "c1", "resources": [{"name": SLOT, "total": "1"}]}]
        status = {"flavorsReservation": reserved}
        server.patch(CLUSTER_QUEUE, QUEUE, {"status": status}, subresource="status")

    first, *others = actors.controllers()
    story = Scenario(first, in_order(hub, one), others=others, script=(used, deleted), horizon=300.0)
    server = (await run(story)).server
    assert cluster(server)["status"]["decommission"] == "Draining" and "c1" in quotas(server)
    assert condition_of(server, "QuotaSynced") == ("False", "InUse")


async def test_a_lock_behind_a_foreign_workload_names_it() -> None:
    server = (await run(scenario(one, foreign, owned(owner="ann")))).server
    assert cluster(server)["status"]["lock"]["behind"] == ["workload/test-blocked-job"]
    assert cluster(server)["status"]["runningJobs"] == 1


LABEL = {"fournos.dev/cluster-lock": "c1"}


def labelled(name: str, **spec: Any) -> Any:
    def setup(server: Server) -> None:
        meta = {"name": name, "namespace": NS, "labels": LABEL}
        whole = {"cluster": "c1", "exclusive": True, "executionEngine": {"forge": {}}, **spec}
        server.create(FOURNOS_JOB, {"metadata": meta, "spec": whole})

    return setup


@pytest.mark.parametrize(
    ("name", "spec"),
    [
        ("job-1", {}),
        (LOCK.name, {}),
        ("job-1", {"lockOnly": True}),
    ],
)
async def test_a_drain_waits_for_it(name: str, spec: dict[str, Any]) -> None:
    server = (await run(scenario(one, labelled(name, **spec), owned(drain="Wait")))).server
    assert cluster(server)["status"]["runningJobs"] == 1
    assert condition_of(server, "Draining")[1] == "Waiting"


async def test_it_is_no_lock_and_gets_no_lock_s_priority() -> None:
    server = (await run(scenario(one, labelled(LOCK.name), owned(owner="ann")))).server
    assert cluster(server)["status"]["locked"] is False
    assert condition_of(server, "Locked") == ("False", "NameTaken")
    assert server.get(WORKLOAD, Key(NS, LOCK.name))["spec"].get("priority", 0) == 0
