"""The page of versions is made from what pins them."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from dev.second_set import ROOT, WITH_PODS
from dev.versions_page import PAGE, main, page
from devcluster.versions import SETS, Versions


def rows(text: str) -> dict[str, list[str]]:
    """First cell → the other cells, of each row of the table."""
    lines = [line.split("|")[1:-1] for line in text.splitlines() if line.startswith("|")]
    return {first.strip(): [cell.strip() for cell in others] for first, *others in lines}


def test_each_pinned_version_is_in_its_column() -> None:
    table = rows(page())
    older, newest = (Versions.named(name) for name in sorted(SETS))
    for what, name in (("kubernetes", "Kubernetes"), ("kueue", "Kueue"), ("tekton", "Tekton Pipelines")):
        pinned = [getattr(versions, what).removeprefix("v") for versions in (newest, older)]
        assert table[name][1:] == pinned
    assert table["Kubernetes"][0] == "1.30 or newer"
    assert table["Kueue"][0] == "serves `kueue.x-k8s.io/v1beta2`; else upgrade Kueue to 0.15 or newer"


def test_python_is_that_of_the_package_and_of_continuous_integration(tmp_path: Path) -> None:
    (tmp_path / ".github").mkdir()
    shutil.copytree(ROOT / ".github/workflows", tmp_path / ".github/workflows")
    shutil.copy(ROOT / "pyproject.toml", tmp_path)
    assert rows(page(tmp_path))["Python"][0] == "3.11 or newer"
    workflow = tmp_path / ".github/workflows/tests.yml"
    workflow.write_text(workflow.read_text().replace('"3.11", "3.12"', '"3.12", "3.14"'))
    assert rows(page(tmp_path))["Python"][1] == "unit tests: 3.12, 3.14, 3.13"


def test_the_tests_on_the_older_set_are_named() -> None:
    assert all(f"- `{test.partition('::')[0]}`" in page() for test in WITH_PODS)


def test_a_file_that_differs_is_shown_and_written_again(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / PAGE
    file.parent.mkdir(parents=True)
    file.write_text(page().replace("1.30 or newer", "1.29 or newer"))
    assert main(["--check", "--root", str(tmp_path)]) == 1
    assert "+| Kubernetes | 1.30 or newer" in capsys.readouterr().out
    assert main(["--root", str(tmp_path)]) == 0
    assert file.read_text() == page()
    assert main(["--check", "--root", str(tmp_path)]) == 0
