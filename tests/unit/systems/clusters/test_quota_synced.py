"""QuotaSynced never refers to a plan that is older than the rest of the same status."""

from __future__ import annotations

from fournos.api.kinds import FOURNOS_CLUSTER
from fournos.engine.api.conditions import is_true
from fournos.engine.queueing.kinds import CLUSTER_QUEUE
from tests.unit.systems.clusters import actors
from tests.unit.systems.clusters.actors import SLOT, condition_of, edit, hub, node, target
from tests.unit.systems.clusters.test_lifecycle import one
from tests.world.group import Group
from tests.world.harness import run_to_quiescence
from tests.world.server import Server


async def test_it_is_true_only_when_the_queue_has_what_the_status_has() -> None:
    server = Server()
    hub(server)
    one(server)
    group = Group(server, actors.controllers())
    for change in (
        lambda: None,
        lambda: target(server, "c1", node(), node("n2", count=8)),
        lambda: edit(server, drain="Wait"),
        lambda: edit(server, drain=None),
        lambda: target(server, "c1", node(), node("n2", count=8), down="Timeout"),
        lambda: target(server, "c1", node(), node("n2", count=8)),
    ):
        change()
        await run_to_quiescence(group, [actors.kueue], horizon=300.0)
        assert condition_of(server, "QuotaSynced")[0] == "True"

    seen: set[tuple[int, int]] = set()
    quota: dict[str, int] = {}
    for written in server.history:
        found = written.object
        if written.resource is CLUSTER_QUEUE:
            entries = {e["name"]: e for g in found["spec"]["resourceGroups"] for e in g["flavors"]}
            quota = {q["name"]: int(q["nominalQuota"]) for q in entries.get("c1", {}).get("resources", ())}
        status = found.get("status") or {}
        current = status.get("observedGeneration") == found["metadata"].get("generation")
        if written.resource is FOURNOS_CLUSTER and current and is_true(found, "QuotaSynced"):
            takes_jobs = status.get("kubeconfigStatus") == "Valid" and not found["spec"].get("drain")
            wanted = (100 if takes_jobs else 0, (status.get("hardware") or {}).get("totalGPUs") or 0)
            assert (quota[SLOT], quota.get("fournos/gpu-l40s", 0)) == wanted, status
            seen.add(wanted)
    assert {(100, 2), (100, 10), (0, 10)} <= seen
