"""Each variable of the MultiKueue adapter has its effect on a manager and two workers.

Its connections (how often they are probed, and the like): tests/unit/app/test_fleets.py.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from fournos.engine.queueing.kinds import WORKLOAD
from fournos.systems.multikueue import names
from fournos.systems.multikueue.multikueuecluster import multikueueclusters
from fournos.systems.multikueue.part import multikueue_controllers
from fournos.systems.multikueue.settings import MultiKueueSettings
from tests.unit.systems.multikueue import actors, workers
from tests.unit.systems.multikueue.actors import fleet, job, line, submit
from tests.unit.systems.multikueue.test_multikueuecluster import Connected, cluster, named, secret
from tests.unit.systems.multikueue.workers import FOO, WORKERS, at
from tests.world.harness import Scenario, in_order, run
from tests.world.server import Server, VirtualClock

PREFIX = "FOURNOS_MULTIKUEUE_"


@pytest.fixture(autouse=True)
def kinds(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(f"{PREFIX}EXTERNAL_FRAMEWORKS", "Foo.v1.example.com")


async def played(*script: Any, setup: Any = submit, watch: Any = lambda server: None) -> Server:
    """The end of a story under the settings of the environment."""

    first, *others = workers.controllers(MultiKueueSettings())
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
async def test_the_kinds_that_are_taken_to_workers(
    kind: str, taken: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(f"{PREFIX}EXTERNAL_FRAMEWORKS", kind)
    settings = MultiKueueSettings()
    controllers, _ = multikueue_controllers(settings, clock=VirtualClock(), wake=lambda controller, key: None)
    assert (FOO in {watch.resource for controller in controllers for watch in controller.watches}) is taken


async def test_the_origin_on_all_that_is_made(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(f"{PREFIX}ORIGIN", "west")
    assert {origin(one) for one in made_on_workers(await played())} == {"west"}


def made_on_workers(server: Server) -> list[Any]:
    return [one for worker in WORKERS for kind in (FOO, WORKLOAD) for one in server.list(at(worker, kind))]


def origin(one: Any) -> str:
    return str(one["metadata"]["labels"][names.ORIGIN_LABEL])


# --- which workers are asked ---------------------------------------------------------------------------


async def test_the_config_file_of_kueue_counts_too(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = tmp_path / "config.yaml"
    file.write_text("multiKueue: {origin: east, externalFrameworks: [{name: Bar.v1.example.com}]}")
    monkeypatch.setenv(f"{PREFIX}CONFIG_FILE", str(file))
    assert [kind.kind for kind in MultiKueueSettings().kinds] == ["Foo", "Bar"]
    assert {origin(one) for one in made_on_workers(await played())} == {"east"}


# --- how long things take -------------------------------------------------------------------------------


@pytest.mark.parametrize("seconds", [40, 400])
async def test_how_long_a_worker_may_be_lost(seconds: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(f"{PREFIX}WORKER_LOST_TIMEOUT_SEC", str(seconds))

    def cut(server: Server) -> None:
        line(server, "w2", full=None)
        line(server, "w1", down=True)

    times = Times(
        cut=lambda server: workers.line_of(server, "w1").get("down"),
        moved=lambda server: (job(server).get("status") or {}).get("where") == "w2",
    )
    await played(cut, setup=only_first, watch=times)
    assert seconds <= times.at["moved"] - times.at["cut"] <= seconds + 5


# --- namespaces ----------------------------------------------------------------------------------------


async def test_the_kueue_namespace_is_where_kubeconfigs_are_read(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(f"{PREFIX}KUEUE_NAMESPACE", "queues")

    def setup(server: Server) -> None:
        named(server, "w1", "w2")
        for worker, namespace in (("w1", "queues"), ("w2", "kueue-system")):
            cluster(server, worker)
            secret(server, f"{worker}-secret", namespace, b"good")

    connected = Connected()
    await run(Scenario(multikueueclusters(MultiKueueSettings(), connected), setup))
    assert list(connected.versions) == ["w1"]
