"""The commands that the Hearth README gives its developers, as written: `hearth` is the cluster operator.

The whole suite would run inside of itself, so that `tests/` is one file of it where pytest runs.
"""

from __future__ import annotations

import os
import shlex
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest
import yaml

ROOT = Path(__file__).parents[3]
BLOCKS = yaml.safe_load((ROOT / "tests/e2e/clusters/readme.yaml").read_text())
(LINES,) = (block["text"].splitlines() for block in BLOCKS if block["block"] == "development")
PART = "tests/unit/systems/clusters/test_rules.py"


def run(line: str, tmp_path: Path) -> str:
    path = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
    done = subprocess.run(
        shlex.split(line),
        cwd=ROOT,
        env={**os.environ, "PATH": path, "COVERAGE_FILE": str(tmp_path / "coverage")},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.returncode == 0, f"{line}\n{done.stdout}\n{done.stderr}"
    return done.stdout


@pytest.mark.parametrize("line", [line for line in LINES if line.startswith("ruff")])
def test_lint(line: str, tmp_path: Path) -> None:
    assert "hearth/ tests/" in line
    run(line, tmp_path)


def test_lint_sees_the_cluster_operator(tmp_path: Path) -> None:
    shown = run("ruff check hearth/ --show-files", tmp_path)
    assert len(shown.splitlines()) == len(list((ROOT / "src/fournos/systems/clusters").glob("*.py")))


def test_coverage(tmp_path: Path) -> None:
    (line,) = (line for line in LINES if "--cov" in line)
    assert "pytest tests/ " in line
    shown = run(line.replace("tests/", PART), tmp_path)
    rows = {row.split()[0]: row.split()[3] for row in shown.splitlines() if row.startswith("src/")}
    assert {Path(name).parent for name in rows} == {Path("src/fournos/systems/clusters")}
    assert rows["src/fournos/systems/clusters/rules.py"] == "100%"


def test_a_source_distribution_has_them_once() -> None:
    """The builder would follow the link, and copy what is behind it."""
    build = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["hatch"]["build"]["targets"]
    links = {
        f"/{path.name}"
        for path in ROOT.iterdir()
        if path.is_symlink() and path.is_dir() and path.name[0] != "."
    }
    assert links == {"/hearth"} <= set(build["sdist"]["exclude"])


def test_the_development_extra_has_what_they_need() -> None:
    assert 'pip install -e ".[dev]"' in LINES
    extra = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["optional-dependencies"]["dev"]
    assert {"pytest", "pytest-cov", "ruff"} <= {entry.split(">")[0] for entry in extra}
