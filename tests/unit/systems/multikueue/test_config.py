"""What names kinds and settings may have, and how a wrong one is refused."""

from __future__ import annotations

from pathlib import Path

import pytest

from fournos.app.run import main
from fournos.engine.queueing.workload import BadNameError
from fournos.systems.multikueue.config import BadConfigError, held_back, parse, parse_all, read
from fournos.systems.multikueue.settings import MultiKueueSettings

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
