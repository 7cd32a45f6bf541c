"""Each variable of the kinds that are queued by configuration has its effect."""

from __future__ import annotations

from pathlib import Path

import pytest
import yaml

from fournos.systems.frameworks.part import framework_controllers
from fournos.systems.frameworks.settings import FrameworkSettings
from tests.unit.systems.frameworks.actors import FOO, FOO_ROW, RUN

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
