"""Each variable of the MultiKueue adapter has its effect on a manager and two workers.

Its connections (how often they are probed, and the like): tests/unit/app/test_fleets.py.
"""

from __future__ import annotations

from typing import Any

import pytest

from fournos.engine.queueing.kinds import WORKLOAD
from fournos.systems.multikueue import names
from fournos.systems.multikueue.multikueuecluster import multikueueclusters
from fournos.systems.multikueue.part import multikueue_controllers
from fournos.systems.multikueue.settings import MultiKueueSettings
from tests.multikueue_configuration import configuration, settings
from tests.unit.systems.multikueue import actors, workers
from tests.unit.systems.multikueue.actors import fleet, job, line, submit
from tests.unit.systems.multikueue.test_multikueuecluster import Connected, cluster, named, secret
from tests.unit.systems.multikueue.workers import FOO, WORKERS, at
from tests.world.harness import Scenario, in_order, run
from tests.world.server import Server, VirtualClock


async def played(
    *script: Any, setup: Any = submit, watch: Any = lambda server: None, **section: Any
) -> Server:
    """The end of a story under this section of Kueue's Configuration."""
    first, *others = workers.controllers(settings("Foo.v1.example.com", **section))
    case = Scenario(
        first, in_order(fleet, setup), others=others, actors=(*actors.ACTORS, watch), script=script
    )
    return (await run(case)).server


class Times:
    """An actor that notes when something holds for the first time."""

    def __init__(self, **facts: Any) -> None:
        self.facts, self.at = facts, dict[str, float]()

    def __call__(self, server: Server) -> None:
        for name, holds in self.facts.items():
            if name not in self.at and holds(server):
                self.at[name] = server.clock.monotonic()


def only_first(server: Server) -> None:
    line(server, "w2", full=True)
    submit(server)


def finish(server: Server) -> None:
    for worker in WORKERS:
        line(server, worker, finish=True)


# --- kinds and checks ---------------------------------------------------------------------------------


@pytest.mark.parametrize(("kind", "taken"), [("Foo.v1.example.com", True), ("Bar.v1.example.com", False)])
async def test_the_kinds_that_are_taken_to_workers(kind: str, taken: bool) -> None:
    controllers, _ = multikueue_controllers(
        settings(kind), clock=VirtualClock(), wake=lambda controller, key: None
    )
    assert (FOO in {watch.resource for controller in controllers for watch in controller.watches}) is taken


async def test_the_origin_on_all_that_is_made() -> None:
    assert {origin(one) for one in made_on_workers(await played(origin="west"))} == {"west"}


def made_on_workers(server: Server) -> list[Any]:
    return [one for worker in WORKERS for kind in (FOO, WORKLOAD) for one in server.list(at(worker, kind))]


def origin(one: Any) -> str:
    return str(one["metadata"]["labels"][names.ORIGIN_LABEL])


# --- how long things take -------------------------------------------------------------------------------


@pytest.mark.parametrize("seconds", [40, 400])
async def test_how_long_a_worker_may_be_lost(seconds: int) -> None:
    def cut(server: Server) -> None:
        line(server, "w2", full=None)
        line(server, "w1", down=True)

    times = Times(
        cut=lambda server: workers.line_of(server, "w1").get("down"),
        moved=lambda server: (job(server).get("status") or {}).get("where") == "w2",
    )
    await played(cut, setup=only_first, watch=times, workerLostTimeout=f"{seconds}s")
    assert seconds <= times.at["moved"] - times.at["cut"] <= seconds + 5


# --- namespaces ----------------------------------------------------------------------------------------


async def test_the_kueue_namespace_is_where_kubeconfigs_are_read(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FOURNOS_MULTIKUEUE_CONFIG_FILE", configuration("Foo.v1.example.com"))
    monkeypatch.setenv("FOURNOS_MULTIKUEUE_KUEUE_NAMESPACE", "queues")

    def setup(server: Server) -> None:
        named(server, "w1", "w2")
        for worker, namespace in (("w1", "queues"), ("w2", "kueue-system")):
            cluster(server, worker)
            secret(server, f"{worker}-secret", namespace, b"good")

    connected = Connected()
    await run(Scenario(multikueueclusters(MultiKueueSettings(), connected), setup))
    assert list(connected.versions) == ["w1"]
