"""Each variable of the MultiKueue adapter has its effect on a manager and two workers.

Its connections (how often they are probed, and the like): tests/unit/app/test_fleets.py.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from fournos.api.kinds import FOURNOS_CLUSTER
from fournos.engine.kube.resource import SECRET, Key, key_of
from fournos.engine.queueing.kinds import ADMISSION_CHECK, WORKLOAD
from fournos.systems.multikueue import names
from fournos.systems.multikueue.controller import multikueue_controllers
from fournos.systems.multikueue.fournoscluster.controller import fournosclusters
from fournos.systems.multikueue.kinds import MULTIKUEUE_CLUSTER
from fournos.systems.multikueue.multikueuecluster.controller import multikueueclusters
from fournos.systems.multikueue.settings import MultiKueueSettings
from tests.fakes.clusters import kubeconfig
from tests.unit.systems.multikueue import actors, workers
from tests.unit.systems.multikueue.actors import fleet, job, line, mirrors, state, submit, workload
from tests.unit.systems.multikueue.test_connections import SELECTED, Connected, cluster, named, secret
from tests.unit.systems.multikueue.workers import CHECK, FOO, NS, WORKERS, at
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


@pytest.mark.parametrize("name", [names.CONTROLLER, "example.com/another"])
async def test_the_controller_name_of_the_checks(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(f"{PREFIX}CONTROLLER_NAME", name)

    def setup(server: Server) -> None:
        server.patch(ADMISSION_CHECK, Key("", CHECK), {"spec": {"controllerName": "example.com/another"}})
        submit(server)

    server = await played(setup=setup)
    assert bool(mirrors(server)) is (name != names.CONTROLLER)


async def test_the_origin_on_all_that_is_made(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(f"{PREFIX}ORIGIN", "west")
    assert {origin(one) for one in made_on_workers(await played())} == {"west"}


def made_on_workers(server: Server) -> list[Any]:
    return [one for worker in WORKERS for kind in (FOO, WORKLOAD) for one in server.list(at(worker, kind))]


def origin(one: Any) -> str:
    return str(one["metadata"]["labels"][names.ORIGIN_LABEL])


# --- which workers are asked ---------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("variables", "expected"),
    [
        ({"DISPATCHER": "all-at-once"}, 0),
        ({"DISPATCHER": "incremental"}, 0),
        ({"DISPATCHER": "incremental", "INCREMENTAL_STEP": "1"}, 300),
        ({"DISPATCHER": "incremental", "INCREMENTAL_STEP": "1", "INCREMENTAL_INTERVAL_SEC": "70"}, 70),
    ],
)
async def test_when_the_second_worker_is_asked(
    variables: dict[str, str], expected: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in variables.items():
        monkeypatch.setenv(PREFIX + name, value)

    def setup(server: Server) -> None:
        for worker in WORKERS:
            line(server, worker, full=True)
        submit(server)

    times = Times(second=lambda server: all(server.list(at(worker, WORKLOAD)) for worker in WORKERS))
    await played(setup=setup, watch=times)
    assert expected <= times.at["second"] <= expected + 2


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


@pytest.mark.parametrize("seconds", [30, 600])
async def test_how_long_an_evicted_job_may_take_to_stop(
    seconds: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A copy that its controller does not stop is deleted then."""
    monkeypatch.setenv(f"{PREFIX}STOP_GRACE_SEC", str(seconds))

    def stuck(server: Server) -> None:
        server.patch(at("w1", FOO), Key(NS, "a"), {"metadata": {"finalizers": ["example.com/gone"]}})
        line(server, "w2", full=None)
        server.patch(WORKLOAD, Key(NS, "foo-a"), {"spec": {"evict": True}})

    times = Times(
        evicted=lambda server: (workload(server)["status"].get("schedulingStats") or {}).get("evictions"),
        moved=lambda server: (job(server).get("status") or {}).get("where") == "w2",
    )
    await played(stuck, setup=only_first, watch=times)
    assert seconds <= times.at["moved"] - times.at["evicted"] <= 2 * seconds + 15


@pytest.mark.parametrize("seconds", [0, 50, 500])
async def test_how_long_a_finished_job_is_kept(seconds: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(f"{PREFIX}KEEP_FINISHED_SEC", str(seconds))
    times = Times(
        finished=lambda server: (job(server).get("status") or {}).get("phase") == "Succeeded",
        gone=lambda server: state(server) == "Ready" and not mirrors(server),
    )
    await played(finish, watch=times)
    assert seconds <= times.at["gone"] - times.at["finished"] <= seconds + 5


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


async def test_the_namespaces_of_fournosclusters_and_their_secrets(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(f"{PREFIX}CLUSTERS_NAMESPACE", "ovens")
    monkeypatch.setenv(f"{PREFIX}SECRETS_NAMESPACE", "vaults")
    monkeypatch.setenv(f"{PREFIX}KUEUE_NAMESPACE", "queues")

    def setup(server: Server) -> None:
        for name, where, secrets in (
            ("c1", "ovens", "vaults"),
            ("c2", "hearth", "vaults"),
            ("c3", "ovens", "psap-secrets"),
        ):
            meta = {"name": name, "namespace": where, "labels": {names.OPT_IN: "true"}}
            spec = {"kubeconfigSecret": f"kubeconfig-{name}"}
            server.create(FOURNOS_CLUSTER, {"metadata": meta, "spec": spec})
            content = kubeconfig(f"https://{name}.example.com")
            secret(server, spec["kubeconfigSecret"], secrets, content, **SELECTED)

    server = (await run(Scenario(fournosclusters(MultiKueueSettings(), VirtualClock()), setup))).server
    assert [one["metadata"]["name"] for one in server.list(MULTIKUEUE_CLUSTER)] == ["c1"]
    copies = [key_of(one) for one in server.list(SECRET, namespace="queues")]
    assert copies == [Key("queues", "fournos-c1-kubeconfig")]


@pytest.mark.parametrize("value", ["", "ovens"])
def test_without_a_clusters_namespace_no_fournoscluster_is_looked_at(
    value: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(f"{PREFIX}CLUSTERS_NAMESPACE", value)
    settings = MultiKueueSettings()
    controllers, _ = multikueue_controllers(settings, clock=VirtualClock(), wake=lambda controller, key: None)
    watched = {watch.resource for controller in controllers for watch in controller.watches}
    assert (FOURNOS_CLUSTER in watched) is bool(value)
