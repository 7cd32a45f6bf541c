"""The workflows of continuous integration: valid, and every command in them is one of this repository."""

from __future__ import annotations

import re
import shlex
import stat
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

ROOT = Path(__file__).parents[3]
FOUND = sorted((ROOT / ".github" / "workflows").glob("*.yml"))
TARGETS = set(re.findall(r"^([a-z0-9-]+):", (ROOT / "Makefile").read_text(), re.MULTILINE))


def read(name: str) -> dict[Any, Any]:
    found: dict[Any, Any] = yaml.safe_load((ROOT / ".github" / "workflows" / name).read_text())
    return found


def triggers(workflow: dict[Any, Any]) -> dict[str, Any]:
    """YAML 1.1 reads the key `on` as true."""
    found: dict[str, Any] = workflow[True]
    return found


def steps(workflow: dict[Any, Any]) -> Iterator[dict[str, Any]]:
    for job in workflow["jobs"].values():
        yield from job["steps"]


def test_lint_tests_and_the_image_have_one_each() -> None:
    assert [path.name for path in FOUND] == ["image.yml", "lint.yml", "tests.yml"]


@pytest.mark.parametrize("name", [path.name for path in FOUND])
def test_a_workflow_is_whole(name: str) -> None:
    workflow = read(name)
    assert workflow["name"] == name.removesuffix(".yml")
    assert workflow["permissions"] == {"contents": "read"}
    assert triggers(workflow)["push"]["branches"] == ["main"]
    assert "pull_request" in triggers(workflow)
    for job in workflow["jobs"].values():
        assert job["runs-on"] == "ubuntu-24.04"
        assert 0 < job["timeout-minutes"] <= 180
    for step in steps(workflow):
        assert ("uses" in step) != ("run" in step)
        assert re.fullmatch(r"[\w-]+/[\w-]+@v\d+", step.get("uses", "a/b@v1")), step


@pytest.mark.parametrize("name", [path.name for path in FOUND])
def test_every_command_exists(name: str) -> None:
    ran = 0
    for step in steps(read(name)):
        for line in step.get("run", "").splitlines():
            program, *arguments = shlex.split(line)
            if program == "make":
                assert arguments and set(arguments) <= TARGETS, line
            elif program != "apt-get":
                assert (ROOT / program).stat().st_mode & stat.S_IXUSR, line
            ran += 1
    assert ran


def test_all_tests_run_where_clusters_may() -> None:
    job = read("tests.yml")["jobs"]["all"]
    assert "--privileged" in job["container"]["options"]
    (cache,) = (step["with"] for step in job["steps"] if step.get("uses", "").startswith("actions/cache"))
    assert cache["path"] == job["env"]["FOURNOS_CACHE"]
    assert list(ROOT.glob(re.findall(r"hashFiles\('([^']+)'\)", cache["key"])[0]))
    assert job["steps"][-1] == {"run": ".ci/run"}


def test_a_pull_request_pushes_nothing() -> None:
    workflow = read("image.yml")
    assert triggers(workflow)["push"]["tags"] == ["v*"]
    jobs = workflow["jobs"]
    assert jobs["build"]["if"] == "github.event_name == 'pull_request'"
    assert "secrets." not in str(jobs["build"])
    assert jobs["push"]["if"] == "github.event_name == 'push'"
    last = jobs["push"]["steps"][-1]
    assert last["run"] == "make docker-push"
    assert (last["env"]["GIT_REF"], last["env"]["GIT_COMMIT"]) == ("${{ github.ref }}", "${{ github.sha }}")
