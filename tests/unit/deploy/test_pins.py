"""What is pinned: images by digest, which Dependabot looks at; the second set of versions has its tests."""

from __future__ import annotations

import re

import pytest
import yaml

from dev.second_set import KUEUES_OWN, ROOT, WITH_PODS, WITHOUT_PODS

CONTAINERFILES = sorted(
    path
    for folder in (".", "bundle", "dev/mock-resolve", "tests/fakes/flux")
    for path in (ROOT / folder).glob("Containerfile*")
)
PULLED = re.compile(r"^(?:FROM|ARG BASE=) ?((?!docker\.io/local/)[\w.-]+\.\w+/\S+)", re.MULTILINE)
"""Images under docker.io/local/ are made here."""
BY_VERSION = {"registry.k8s.io/kubectl:v1.34.4"}
"""Their digests were not known when they were written.  The image is for tests only."""


def test_no_containerfile_is_left_out() -> None:
    ours = {path for path in ROOT.rglob("*Containerfile*") if not {".venv", "build"} & set(path.parts)}
    assert ours == set(CONTAINERFILES)


def test_an_image_that_is_pulled_is_named_by_digest() -> None:
    """A tag may mean another image tomorrow."""
    pulled = {image for path in CONTAINERFILES for image in PULLED.findall(path.read_text())}
    assert len(pulled) == 3
    assert {image for image in pulled if not re.search(r":[\w.-]+@sha256:[0-9a-f]{64}$", image)} == BY_VERSION


def test_dependabot_looks_at_each_place_where_something_is_pinned() -> None:
    updates = yaml.safe_load((ROOT / ".github/dependabot.yml").read_text())["updates"]
    folders = {
        (update["package-ecosystem"], folder)
        for update in updates
        for folder in update.get("directories", [update.get("directory")])
    }
    modules = {("gomod", f"/{path.parent.relative_to(ROOT)}") for path in ROOT.glob("dev/go/*/go.mod")}
    assert folders == {("github-actions", "/"), ("docker", "/dev/mock-resolve"), *modules}


@pytest.mark.parametrize("test", (*WITHOUT_PODS, *WITH_PODS))
def test_a_chosen_test_exists(test: str) -> None:
    file, _, function = test.partition("::")
    assert f"def {function or 'test_'}" in (ROOT / file).read_text()


def test_all_that_holds_for_an_older_kueue_alone_is_chosen() -> None:
    """No other run has it."""
    marked = {
        f"{path.name}::{name}"
        for path in (ROOT / "tests" / "integration" / "multikueue").glob("test_*.py")
        for name in re.findall(r"^@BEFORE_019\nasync def (\w+)\(", path.read_text(), re.MULTILINE)
    }
    assert marked == set(KUEUES_OWN)
