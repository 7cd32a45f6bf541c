"""Each variable of the kinds that are queued by configuration has its effect."""

from __future__ import annotations

from pathlib import Path

import pytest
import yaml

from fournos.systems.frameworks.controller import framework_controllers
from fournos.systems.frameworks.settings import FrameworkSettings
from tests.unit.systems.frameworks.actors import FOO, FOO_ROW, RUN, pipeline_run, submitted
from tests.unit.systems.frameworks.test_lifecycle import endless, preempting
from tests.world.harness import Scenario, run

PREFIX = "FOURNOS_FRAMEWORKS_"


@pytest.fixture(autouse=True)
def file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = tmp_path / "frameworks.yaml"
    file.write_text(yaml.safe_dump({"frameworks": [FOO_ROW]}))
    monkeypatch.setenv(f"{PREFIX}FILE", str(file))


def watched() -> set[str]:
    return {str(controller.watches[0].resource) for controller in framework_controllers(FrameworkSettings())}


def test_the_file_adds_a_kind(monkeypatch: pytest.MonkeyPatch) -> None:
    assert watched() == {str(RUN), str(FOO)}
    monkeypatch.setenv(f"{PREFIX}FILE", "")
    assert watched() == {str(RUN)}


def test_kinds_are_those_that_are_queued(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(f"{PREFIX}KINDS", "Foo.v1.example.com")
    assert watched() == {str(FOO)}


@pytest.mark.parametrize("attempts", [1, 3])
async def test_max_attempts_of_an_object_that_is_made_anew(
    attempts: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each attempt is preempted."""
    monkeypatch.setenv(f"{PREFIX}MAX_ATTEMPTS", str(attempts))
    monkeypatch.setenv(f"{PREFIX}KINDS", "PipelineRun.v1.tekton.dev")
    (controller,) = framework_controllers(FrameworkSettings())
    tried = ("again", "again-r2", "again-r3", "again-r4")
    case = Scenario(
        controller,
        submitted(pipeline_run("again", on_eviction="recreate")),
        cast=(preempting(*tried), endless(*tried)),
    )
    assert len((await run(case)).server.list(RUN)) == attempts
