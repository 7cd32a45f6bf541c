"""What names kinds and settings may have, and how a wrong one is refused."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest

from fournos.app.run import main
from fournos.engine.queueing.workload import BadNameError
from fournos.systems.multikueue.config import (
    BadConfigError,
    MultiKueueConfiguration,
    held_back,
    parse,
    parse_all,
    read,
)
from tests.multikueue_configuration import configuration

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
  gcInterval: 30s
  origin: east
  workerLostTimeout: 5m
  dispatcherName: kueue.x-k8s.io/multikueue-dispatcher-incremental
  incrementalDispatcherConfig:
    stepSize: 5
  externalFrameworks:
  - name: "PipelineRun.v1.tekton.dev"
  - name: "Workflow.v1alpha1.argoproj.io"
"""


def frameworks(text: str) -> list[str]:
    return [framework.name for framework in read(text).external_frameworks]


def test_the_pages_form_is_read() -> None:
    assert frameworks(PAGE) == ["PipelineRun.v1.tekton.dev"]


def test_kueues_own_form_is_read() -> None:
    found = read(KUEUES)
    assert frameworks(KUEUES) == ["PipelineRun.v1.tekton.dev", "Workflow.v1alpha1.argoproj.io"]
    assert (found.origin, found.worker_lost_timeout) == ("east", timedelta(minutes=5))
    assert found.gc_interval == timedelta(seconds=30)


def test_the_config_map_that_kueue_is_installed_with() -> None:
    indented = "\n".join(f"    {line}" for line in KUEUES.splitlines())
    assert read(f"data:\n  controller_manager_config.yaml: |\n{indented}\n").origin == "east"


def test_a_configuration_without_the_section_is_empty() -> None:
    assert read("kind: Configuration\n") == MultiKueueConfiguration()
    assert read("multiKueue: {origin: null}\n").origin == "fournos"


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("{", "not YAML"),
        ("[]", "a map is expected"),
        ("multiKueue: {}\nmultikueue: {}", "write multiKueue only"),
        (
            "multiKueue: {externalFrameworks: [PipelineRun.v1.tekton.dev]}",
            "externalFrameworks.0: ",
        ),
        ("multiKueue: {externalFrameworks: {name: x}}", "multiKueue.externalFrameworks: "),
        ("multiKueue: {orign: x}", "multiKueue.orign: Extra inputs are not permitted"),
        ("multiKueue: {workerLostTimeout: soon}", "multiKueue.workerLostTimeout: .*'soon' is not a duration"),
        ("multiKueue: {workerLostTimeout: -5m}", "multiKueue.workerLostTimeout: "),
        ("multiKueue: {origin: 3}", "multiKueue.origin: "),
        ("multiKueue: {origin: no label!}", "multiKueue.origin: "),
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


@pytest.mark.parametrize(
    ("section", "expected"),
    [
        ({}, "no kinds: name them in multiKueue.externalFrameworks"),
        ({"externalFrameworks": [{"name": "pipelinerun.v1.tekton.dev"}]}, "kinds start with a capital"),
        (None, "cannot be read"),
    ],
)
def test_the_operator_refuses_to_start(
    section: dict[str, Any] | None,
    expected: str,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    file = "/nowhere" if section is None else configuration(**section)
    monkeypatch.setenv("FOURNOS_MULTIKUEUE_CONFIG_FILE", file)
    assert main(enable=("multikueue",)) == 2
    assert expected in capsys.readouterr().err
