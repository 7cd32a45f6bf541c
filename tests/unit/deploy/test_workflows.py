"""The workflows of continuous integration: valid, and every command in them is one of this repository."""

from __future__ import annotations

import re
import shlex
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from dev.publish import REPOSITORIES

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


def commands(workflow: dict[Any, Any]) -> Iterator[str]:
    """The lines of all steps, once for each value of a job's matrix."""
    for job in workflow["jobs"].values():
        lines = [line for step in job["steps"] for line in step.get("run", "").splitlines()]
        for name, values in job.get("strategy", {}).get("matrix", {}).items():
            variable = f"${{{{ matrix.{name} }}}}"
            lines = list(dict.fromkeys(line.replace(variable, value) for line in lines for value in values))
        yield from lines


def test_lint_tests_the_image_the_site_a_release_and_the_night_have_one_each() -> None:
    names = ["docs.yml", "image.yml", "lint.yml", "nightly.yml", "release.yml", "tests.yml"]
    assert [path.name for path in FOUND] == names


@pytest.mark.parametrize("name", [path.name for path in FOUND])
def test_a_workflow_is_whole(name: str) -> None:
    workflow = read(name)
    assert workflow["name"] == name.removesuffix(".yml")
    assert workflow["permissions"] == {"contents": "read"}
    if name == "nightly.yml":
        assert set(triggers(workflow)) == {"schedule", "workflow_dispatch"}
    elif name == "release.yml":
        assert triggers(workflow) == {"push": {"tags": ["v*"]}}
    elif name == "docs.yml":
        assert triggers(workflow) == {"push": {"branches": ["main"]}, "workflow_dispatch": None}
    else:
        assert triggers(workflow)["push"]["branches"] == ["main"]
        assert "pull_request" in triggers(workflow)
    for job in workflow["jobs"].values():
        assert job["runs-on"] == "ubuntu-24.04"
        assert 0 < job["timeout-minutes"] <= 180
    for step in steps(workflow):
        assert ("uses" in step) != ("run" in step)


@pytest.mark.parametrize("path", FOUND, ids=lambda path: path.name)
def test_an_action_is_a_commit_with_its_version_beside_it_and_an_image_a_digest(path: Path) -> None:
    """A tag of somebody else's repository may be moved to other code."""
    used = re.findall(r"uses: (.*)", path.read_text())
    assert used
    images = [job["container"]["image"] for job in read(path.name)["jobs"].values() if "container" in job]
    assert all(re.search(r"@sha256:[0-9a-f]{64}$", image) for image in images)
    for action in used:
        assert re.fullmatch(r"[\w-]+/[\w-]+@[0-9a-f]{40} # v\d+\.\d+\.\d+", action), action


@pytest.mark.parametrize("name", [path.name for path in FOUND])
def test_every_command_exists(name: str) -> None:
    lines = [*commands(read(name))]
    assert lines
    for line in lines:
        program, *arguments = shlex.split(line)
        if program == "make":
            assert arguments and {word for word in arguments if "=" not in word} <= TARGETS, line
        elif program == ".venv/bin/python":
            assert arguments[:3] == ["-m", "dev.go_tools", "cosign"], line
        else:
            assert program in ("apt-get", "git", "test", "gh"), line


def test_all_tests_run_where_clusters_may() -> None:
    """Those of the product and those of the set-up are two jobs."""
    job = read("tests.yml")["jobs"]["clusters"]
    assert "--privileged" in job["container"]["options"]
    (cache,) = (step["with"] for step in job["steps"] if step.get("uses", "").startswith("actions/cache"))
    assert cache["path"] == job["env"]["FOURNOS_CACHE"]
    hashed = re.findall(r"'([^']+)'", cache["key"])
    assert hashed == ["devcluster/go/**", "dev/go/**"]
    assert all(list(ROOT.glob(pattern)) for pattern in hashed)
    targets = job["strategy"]["matrix"]["target"]
    assert job["steps"][-1] == {"run": "make ${{ matrix.target }}"}
    local = (ROOT / ".ci" / "run").read_text().split("exec make ")[1]
    assert shlex.split(local) == ["--keep-going", *targets, "KEEP_CLUSTERS=no"]
    assert job["strategy"]["fail-fast"] is False


def test_a_pull_request_pushes_nothing() -> None:
    workflow = read("image.yml")
    assert triggers(workflow)["push"]["tags"] == ["v*"]
    jobs = workflow["jobs"]
    assert jobs["build"]["if"] == "github.event_name == 'pull_request'"
    assert "secrets." not in str(jobs["build"])
    assert jobs["push"]["if"] == "github.event_name == 'push'"
    (push,) = (step for step in jobs["push"]["steps"] if step.get("run") == "make docker-push")
    assert (push["env"]["GIT_REF"], push["env"]["GIT_COMMIT"]) == ("${{ github.ref }}", "${{ github.sha }}")


SIGNS = {"contents": "read", "id-token": "write", "attestations": "write"}
RIGHTS = {
    ("image.yml", "push"): SIGNS,
    ("release.yml", "make"): SIGNS,
    ("release.yml", "publish"): {"contents": "write"},
    ("docs.yml", "publish"): {"pages": "write", "id-token": "write"},
}
"""The jobs that have more rights than to read the sources."""


def test_what_signs_may_sign_and_nothing_else_may_more_than_read() -> None:
    rights = {
        (path.name, name): job["permissions"]
        for path in FOUND
        for name, job in read(path.name)["jobs"].items()
        if "permissions" in job
    }
    assert rights == RIGHTS


def test_the_pushed_image_is_signed_by_its_digest_in_each_repository() -> None:
    """A tag may mean another image by then."""
    steps = read("image.yml")["jobs"]["push"]["steps"]
    (pushed,) = (number for number, step in enumerate(steps) if step.get("run") == "make docker-push")
    sign, attest = steps[pushed + 1 :]
    assert steps[pushed]["id"] == "image"
    words = shlex.split(sign["run"])
    assert words[3:6] == ["cosign", "sign", "--yes"]
    assert words[6:] == [f"{repository}@$DIGEST" for repository in REPOSITORIES]
    assert sign["env"]["DIGEST"] == attest["with"]["subject-digest"] == "${{ steps.image.outputs.digest }}"
    assert attest["with"]["subject-name"] in REPOSITORIES


def test_a_release_is_signed_as_it_is_made_and_published_by_a_job_without_that_identity() -> None:
    jobs = read("release.yml")["jobs"]
    lines = [step.get("run", "") for step in jobs["make"]["steps"]]
    (made,) = (shlex.split(line) for line in lines if line.startswith("make release"))
    arguments = made[2].removeprefix("RELEASE_ARGS=").split()
    assert arguments == ["--out", "build/release", "--sign-keyless"]
    used = {step["uses"].partition("@")[0]: step["with"] for step in jobs["make"]["steps"] if "with" in step}
    assert used["actions/attest-build-provenance"] == {"subject-checksums": "build/release/SHA256SUMS"}
    assert used["actions/upload-artifact"]["path"] == "build/release"
    assert not [step for step in jobs["make"]["steps"] if "cache" in step.get("uses", "")]
    assert jobs["publish"]["needs"] == "make"
    assert "--draft" in jobs["publish"]["steps"][-1]["run"]


def test_every_night_a_machine_with_its_own_kernel_is_set_up_and_its_log_is_kept() -> None:
    job = read("nightly.yml")["jobs"]["vm"]
    assert [step["run"] for step in job["steps"] if step.get("run", "").startswith("make")] == ["make vm"]
    assert job["steps"][-1]["if"] == "always()"
    assert job["steps"][-1]["with"]["path"] == "build/vm/*.log"


def test_every_night_faults_are_measured_under_load_and_the_numbers_are_kept() -> None:
    job = read("nightly.yml")["jobs"]["soak"]
    (make,) = [step["run"] for step in job["steps"] if step.get("run", "").startswith("make")]
    assert make.split()[:3] == ["make", "programs", "soak"]
    kept = job["steps"][-1]
    assert kept["if"] == "always()"
    assert kept["with"]["path"].split() == ["bench/results/*.json", "bench/results/soak/report.html"]


def test_the_documented_identity_is_that_of_our_workflow_for_a_tag_and_no_other() -> None:
    page = (ROOT / "docs" / "install.md").read_text()
    (pattern,) = re.findall(r"--certificate-identity-regexp '([^']+)'", page)
    repository = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["urls"]["Repository"]
    release = "/.github/workflows/release.yml@refs"
    assert re.search(pattern, f"{repository}{release}/tags/v1.2.3")
    for other in (
        f"{repository}{release}/heads/main",
        f"{repository}-fork{release}/tags/v1.2.3",
        f"{repository}/.github/workflows/image.yml@refs/tags/v1.2.3",
        f"https://example.com/{repository}{release}/tags/v1.2.3",
    ):
        assert not re.search(pattern, other), other


def test_the_site_that_is_published_is_the_one_that_was_checked() -> None:
    build, publish = read("docs.yml")["jobs"].values()
    assert build["steps"][-2] == {"run": "make verify"}
    site = re.findall(r"^site_dir: (.+)$", (ROOT / "mkdocs.yml").read_text(), re.MULTILINE)
    assert site == [build["steps"][-1]["with"]["path"]]
    assert publish["needs"] == "build"
