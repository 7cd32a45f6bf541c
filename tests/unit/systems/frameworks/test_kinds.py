"""The table of kinds, and the settings that choose of it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml
from pydantic import ValidationError

from fournos.engine.queueing.podsets import RequestsError, parse_requests
from fournos.systems.frameworks.kinds import BUILT_IN, Framework, TableError, load
from fournos.systems.frameworks.part import framework_controllers
from fournos.systems.frameworks.queued import queued
from fournos.systems.frameworks.settings import FrameworkSettings
from tests.unit.systems.frameworks.actors import FOO, FOO_ROW, RUN, foo


def written(tmp_path: Path, *rows: Any) -> str:
    file = tmp_path / "frameworks.yaml"
    file.write_text(yaml.safe_dump({"frameworks": list(rows)}))
    return str(file)


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        (
            "PipelineRun.tekton.dev",
            "'tekton' is not an API version; write the version, as PipelineRun.v1.tekton.dev",
        ),
        ("pipelinerun.v1.tekton.dev", "kinds start with a capital, as Pipelinerun"),
        ("PipelineRun", "'' is not an API version, as PipelineRun.v1.example.com"),
        ("PipelineRun.v1", "'' is not an API group"),
        ("PipelineRun.v1.tekton", "'tekton' is not an API group"),
        ("Pipeline-Run.v1.tekton.dev", "'Pipeline-Run' is not a kind"),
    ],
)
def test_wrong_names_are_refused_with_the_reason_and_the_fix(name: str, expected: str) -> None:
    with pytest.raises(ValidationError, match=r"is not a Kind\.version\.group") as caught:
        FrameworkSettings(kinds=(name,))
    assert expected in str(caught.value)


def test_without_a_file_there_is_pipelinerun() -> None:
    assert load("") == BUILT_IN
    (one,) = FrameworkSettings().frameworks()
    assert (str(one.resource), one.default_requests) == (
        "pipelineruns.tekton.dev",
        {"tekton.dev/pipelineruns": 1},
    )


def test_a_file_adds_and_replaces(tmp_path: Path) -> None:
    own = {
        "name": "PipelineRun.v1beta1.tekton.dev",
        "hold": {"path": "spec.x"},
        "finished": [{"condition": "C"}],
    }
    found = load(written(tmp_path, FOO_ROW, own))
    assert [one.name for one in found] == ["PipelineRun.v1beta1.tekton.dev", "Foo.v1.example.com"]
    settings = FrameworkSettings(file=written(tmp_path, FOO_ROW), kinds="Foo.v1.example.com")  # type: ignore[arg-type]
    assert [str(one.resource) for one in settings.frameworks()] == ["foos.example.com"]


@pytest.mark.parametrize(
    ("row", "expected"),
    [
        ({}, "frameworks[0].name: Field required"),
        ({**FOO_ROW, "name": "Foo.example.com"}, "frameworks[0].name: 'Foo.example.com' is not a Kind"),
        ({**FOO_ROW, "sort": 1}, "frameworks[0].sort: Extra inputs are not permitted"),
        ({**FOO_ROW, "hold": {"path": "spec..x"}}, "frameworks[0].hold.path: 'spec..x' is not a path"),
        ({**FOO_ROW, "hold": {"path": "spec.x", "onlyAtCreation": True}}, "needs stop"),
        ({**FOO_ROW, "finished": [{}]}, "needs either condition or path"),
        ({**FOO_ROW, "finished": [{"path": "status.x"}]}, "what at status.x means the end?"),
        ({**FOO_ROW, "requests": {"default": {"cpu": "much"}}}, "'much' is not a quantity"),
    ],
)
def test_a_wrong_row_is_reported_with_its_place(tmp_path: Path, row: Any, expected: str) -> None:
    with pytest.raises(TableError) as caught:
        load(written(tmp_path, row))
    assert expected in str(caught.value)


def test_a_kind_stands_in_a_file_once(tmp_path: Path) -> None:
    with pytest.raises(TableError, match="stands there twice"):
        load(written(tmp_path, FOO_ROW, FOO_ROW))


def test_settings_refuse_what_cannot_be_used(tmp_path: Path) -> None:
    with pytest.raises(ValidationError, match="cannot be read"):
        FrameworkSettings(file=str(tmp_path / "none.yaml"))
    with pytest.raises(ValidationError, match=r"Bar\.v1\.example\.com is not described"):
        FrameworkSettings(kinds=("Bar.v1.example.com",))


def test_requests() -> None:
    assert parse_requests(" cpu=4, memory = 8Gi ,x.com/gpu=1") == {
        "cpu": "4",
        "memory": "8Gi",
        "x.com/gpu": "1",
    }
    for text in ("", "cpu", "cpu=", "cpu=1,cpu=2", "pods=3", "cpu=-1", "=1"):
        with pytest.raises(RequestsError):
            parse_requests(text)


def with_condition(type_: str, status: str) -> dict[str, Any]:
    return {"conditions": [{"type": type_, "status": status}]}


COMPLETE, FAILED = {"condition": "Complete", "means": "succeeded"}, {"condition": "Failed", "means": "failed"}
PHASE = {"path": "status.phase", "succeeded": ["Done"], "failed": ["Bad"]}


@pytest.mark.parametrize(
    ("rules", "status", "wanted"),
    [
        ([FAILED, COMPLETE], with_condition("Complete", "True"), True),
        ([FAILED, COMPLETE], with_condition("Failed", "True"), False),
        ([FAILED, COMPLETE], with_condition("Failed", "False"), None),
        ([{"condition": "Succeeded"}], with_condition("Succeeded", "False"), False),
        ([{"condition": "Succeeded"}], with_condition("Succeeded", "Unknown"), None),
        ([PHASE], {"phase": "Done"}, True),
        ([PHASE], {"phase": "Bad"}, False),
        ([PHASE], {}, None),
    ],
)
def test_the_end_is_seen(rules: Any, status: Any, wanted: bool | None) -> None:
    kind = Framework.model_validate({**FOO_ROW, "finished": rules})
    found = queued(kind, {**foo(), "status": status}).finished()
    assert (found.succeeded if found else None) == wanted


# --- test settings -------------------------------------------------------------------------------------
# Each variable of the kinds that are queued by configuration has its effect.

PREFIX = "FOURNOS_FRAMEWORKS_"


@pytest.fixture
def file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = tmp_path / "frameworks.yaml"
    file.write_text(yaml.safe_dump({"frameworks": [FOO_ROW]}))
    monkeypatch.setenv(f"{PREFIX}FILE", str(file))


def watched() -> set[str]:
    return {str(controller.watches[0].resource) for controller in framework_controllers(FrameworkSettings())}


@pytest.mark.usefixtures("file")
def test_the_file_adds_a_kind(monkeypatch: pytest.MonkeyPatch) -> None:
    assert watched() == {str(RUN), str(FOO)}
    monkeypatch.setenv(f"{PREFIX}FILE", "")
    assert watched() == {str(RUN)}


@pytest.mark.usefixtures("file")
def test_kinds_are_those_that_are_queued(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(f"{PREFIX}KINDS", "Foo.v1.example.com")
    assert watched() == {str(FOO)}
