"""fournos frameworks list: which kinds are queued, and whether a file of them can be used."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from fournos.cli.errors import Exit
from tests.unit.cli.api import Api, Program

ROOT = Path(__file__).parents[3]


@pytest.fixture
def program() -> Program:
    return Program(Api())


def test_the_kinds_and_how_they_are_queued(program: Program) -> None:
    result = program("frameworks", "list", "-f", str(ROOT / "samples" / "frameworks.yaml"))
    assert result.exit_code == 0
    header, *rows = result.stdout.splitlines()
    assert header.split("  ")[0] == "KIND"
    assert [row.split()[0] for row in rows] == [
        "PipelineRun.v1.tekton.dev",
        "Foo.v1.example.com",
        "Workflow.v1alpha1.argoproj.io",
    ]
    assert "spec.status=PipelineRunPending" in rows[0] and "tekton.dev/pipelineruns=1" in rows[0]
    assert "spec.suspend=true" in rows[1] and "status.phase" in rows[1]


def test_what_is_printed_can_be_read_again(program: Program, tmp_path: Path) -> None:
    text = program("frameworks", "list", "-o", "yaml").stdout
    again = tmp_path / "again.yaml"
    again.write_text(text)
    result = program("frameworks", "list", "-f", str(again), "-o", "json")
    assert [one["name"] for one in json.loads(result.stdout)["frameworks"]] == ["PipelineRun.v1.tekton.dev"]


def test_an_unusable_file_is_reported(program: Program, tmp_path: Path) -> None:
    file = tmp_path / "f.yaml"
    file.write_text("frameworks: [{name: PipelineRun.tekton.dev}]")
    result = program("frameworks", "list", "-f", str(file))
    assert result.exit_code == Exit.USAGE
    assert "write the version, as PipelineRun.v1.tekton.dev" in result.stderr
