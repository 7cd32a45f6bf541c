"""Each variable of the MultiKueue adapter has its effect on a manager and two workers.

Its connections (how often they are probed, and the like): tests/unit/app/test_fleets.py."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from fournos.app.run import main
from fournos.engine.queueing.kinds import WORKLOAD
from fournos.engine.queueing.workload import BadNameError
from fournos.systems.multikueue import names
from fournos.systems.multikueue.config import BadConfigError, held_back, parse, parse_all, read
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


# --- test config ---------------------------------------------------------------------------------------
# What names kinds and settings may have, and how a wrong one is refused.

PAGE = """
apiVersion: config.kueue.x-k8s.io/v1beta1
kind: Configuration
data:
  multikueue:
    externalFrameworks:
    - name: "PipelineRun.v1.tekton.dev"
"""
KUEUES = """
apiVersion: config.kueue.x-k8s.io/v1beta2
kind: Configuration
multiKueue:
  gcInterval: 1m
  origin: east
  workerLostTimeout: 5m
  dispatcherName: kueue.x-k8s.io/multikueue-dispatcher-incremental
  incrementalDispatcherConfig:
    stepSize: 5
  externalFrameworks:
  - name: "PipelineRun.v1.tekton.dev"
  - name: "Workflow.v1alpha1.argoproj.io"
"""


def test_the_pages_form_is_read() -> None:
    assert read(PAGE).frameworks == ("PipelineRun.v1.tekton.dev",)


def test_kueues_own_form_is_read() -> None:
    found = read(KUEUES)
    assert found.frameworks == ("PipelineRun.v1.tekton.dev", "Workflow.v1alpha1.argoproj.io")
    assert (found.origin, found.worker_lost_timeout) == ("east", 300)


def test_the_config_map_that_kueue_is_installed_with() -> None:
    indented = "\n".join(f"    {line}" for line in KUEUES.splitlines())
    assert read(f"data:\n  controller_manager_config.yaml: |\n{indented}\n").origin == "east"


def test_a_configuration_without_the_section_is_empty() -> None:
    assert read("kind: Configuration\n").frameworks == ()


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("{", "not YAML"),
        ("[]", "a map is expected"),
        ("multiKueue: {}\nmultikueue: {}", "write multiKueue only"),
        ("multiKueue: {externalFrameworks: [PipelineRun.v1.tekton.dev]}", "write a map with a name"),
        ("multiKueue: {externalFrameworks: {name: x}}", "must be a list"),
        ("multiKueue: {orign: x}", "multiKueue.orign: no such field"),
        ("multiKueue: {workerLostTimeout: soon}", "multiKueue.workerLostTimeout: 'soon' is not a duration"),
        ("multiKueue: {origin: 3}", "multiKueue.origin must be text"),
    ],
)
def test_what_cannot_be_used_is_refused(text: str, expected: str) -> None:
    with pytest.raises(BadConfigError, match=expected):
        read(text)


def test_names_of_kinds() -> None:
    found = parse("PipelineRun.v1.tekton.dev")
    assert (found.group, found.version, found.kind, found.plural) == (
        "tekton.dev",
        "v1",
        "PipelineRun",
        "pipelineruns",
    )
    assert parse("Box.v1beta1.example.com=boxen").plural == "boxen"


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("PipelineRun.tekton.dev", "write the version, as PipelineRun.v1.tekton.dev"),
        ("Foo.v1.example.com=Foos", "plural"),
        ("Job.v1.batch", "left to Kueue's adapter"),
    ],
)
def test_wrong_names_have_a_reason(name: str, expected: str) -> None:
    with pytest.raises(BadNameError, match=expected):
        parse(name)


def test_a_kind_is_named_once() -> None:
    with pytest.raises(BadNameError, match="named twice"):
        parse_all(["Foo.v1.example.com", "Foo.v2.example.com"])


def test_how_a_copy_is_held_back() -> None:
    assert held_back(parse("PipelineRun.v1.tekton.dev"), {}) == {"status": "PipelineRunPending"}
    assert held_back(parse("Foo.v1.example.com"), {"suspend": False}) == {"suspend": True}
    assert held_back(parse("Foo.v1.example.com"), {}) == {}
    assert held_back(parse("FournosJob.v1.fournos.dev"), {"suspend": False}) == {}


def test_the_file_and_the_variables(tmp_path: Path) -> None:
    path = tmp_path / "config.yaml"
    path.write_text(KUEUES)
    found = MultiKueueSettings(config_file=str(path), external_frameworks="Foo.v1.example.com")
    assert [kind.kind for kind in found.kinds] == ["Foo", "PipelineRun", "Workflow"]
    assert (found.the_origin, found.worker_lost) == ("east", 300)
    own = MultiKueueSettings(config_file=str(path), origin="west", worker_lost_timeout_sec=7)
    assert (own.the_origin, own.worker_lost) == ("west", 7)


@pytest.mark.parametrize(
    ("variables", "expected"),
    [
        ({}, "no kinds: name them in FOURNOS_MULTIKUEUE_EXTERNAL_FRAMEWORKS"),
        ({"EXTERNAL_FRAMEWORKS": "pipelinerun.v1.tekton.dev"}, "kinds start with a capital"),
        ({"EXTERNAL_FRAMEWORKS": "Foo.v1.example.com", "ORIGIN": "no label!"}, "is not a label value"),
        ({"EXTERNAL_FRAMEWORKS": "Foo.v1.example.com", "CONFIG_FILE": "/nowhere"}, "cannot be read"),
    ],
)
def test_the_operator_refuses_to_start(
    variables: dict[str, str],
    expected: str,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    for name, value in variables.items():
        monkeypatch.setenv(f"FOURNOS_MULTIKUEUE_{name}", value)
    assert main(enable=("multikueue",)) == 2
    assert expected in capsys.readouterr().err
