"""A running job that carries a lock's label, or a lock's name as well, is a running job."""

from __future__ import annotations

from typing import Any

import pytest

from fournos.api.kinds import FOURNOS_JOB
from fournos.engine.kube.resource import Key
from fournos.engine.queueing.kinds import WORKLOAD
from tests.unit.systems.clusters.actors import NS, cluster, condition_of
from tests.unit.systems.clusters.test_lifecycle import LOCK, one, owned, scenario
from tests.world.harness import run
from tests.world.server import Server

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
