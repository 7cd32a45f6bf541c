"""fournos init benchmark: the files are what a cluster takes, and nothing is overwritten."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest
import yaml

from fournos.api.fournosjob import FournosJob
from tests.unit.cli.api import Api, Program


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    result = Program(Api())("init", "benchmark", "checksum", "--to", str(tmp_path / "made"))
    assert result.exit_code == 0, result.stderr
    return tmp_path / "made"


def test_the_files(folder: Path) -> None:
    assert {path.name for path in folder.iterdir()} == {"README.md", "gate.sh", "job.yaml", "pipeline.yaml"}
    assert not any("BENCHMARK" in path.read_text() for path in folder.iterdir())
    assert os.access(folder / "gate.sh", os.X_OK)


def test_the_job_is_valid_and_its_params_are_declared(folder: Path) -> None:
    manifest = yaml.safe_load((folder / "job.yaml").read_text())
    manifest["metadata"]["name"], manifest["spec"]["owner"] = "checksum-1", "me"
    job = FournosJob.model_validate(manifest)
    pipeline = yaml.safe_load((folder / "pipeline.yaml").read_text())
    assert job.spec.pipeline == pipeline["metadata"]["name"] == "checksum"
    declared = {each["name"] for each in pipeline["spec"]["params"]}
    assert set(manifest["spec"]["params"]) <= declared


def test_the_script_writes_results_that_are_valid(folder: Path, tmp_path: Path) -> None:
    from fournos.history.results.read import read_file

    pipeline = yaml.safe_load((folder / "pipeline.yaml").read_text())
    (step,) = pipeline["spec"]["tasks"][0]["taskSpec"]["steps"]
    out = tmp_path / "results"
    script = (
        step["script"].replace("$(params.lines)", "1000").replace("$(results.fournos-results.path)", str(out))
    )
    subprocess.run(["sh"], input=script, text=True, check=True, timeout=60)
    checked = read_file(out.read_bytes(), "results.json")
    (record,) = checked.tests
    assert not checked.problems
    assert [(kpi.kpi_id, kpi.unit, kpi.higher_is_better) for kpi in record.kpis] == [
        ("size", "bytes", False),
        ("duration", "ms", None),
    ]
    assert 100 < (record.kpis[0].value or 0) < 3893, "compressed"


def test_nothing_is_overwritten(folder: Path) -> None:
    (folder / "gate.sh").unlink()
    (folder / "job.yaml").write_text("mine")
    result = Program(Api())("init", "benchmark", "checksum", "--to", str(folder))
    assert result.exit_code == 2 and "is there already" in result.stderr
    assert (folder / "job.yaml").read_text() == "mine" and not (folder / "gate.sh").exists()


@pytest.mark.parametrize("name", ["Check", "a" * 60, "-a", "a_b", "../a"])
def test_a_name_that_no_pipeline_can_have(name: str, tmp_path: Path) -> None:
    result = Program(Api())("init", "benchmark", "--to", str(tmp_path / "made"), "--", name)
    assert result.exit_code == 2 and "is not a name" in result.stderr
    assert not (tmp_path / "made").exists()


def test_the_gate_finds_a_relative_kubeconfig(folder: Path, tmp_path: Path) -> None:
    """As the GitHub lines of its README write one: in the folder in which they run."""
    (tmp_path / "kubeconfig").touch()
    fake = tmp_path / "fournos"
    fake.write_text('#!/bin/sh\ntest -f "$KUBECONFIG" || exit 9\n[ "$1" != submit ] || ls "$3"\n')
    fake.chmod(0o755)
    environment = {"PATH": f"{tmp_path}:{os.environ['PATH']}", "KUBECONFIG": "kubeconfig"}
    done = subprocess.run([folder / "gate.sh"], cwd=tmp_path, env=environment, check=False)
    assert done.returncode == 0
