"""Images that are pulled to build ours are named by digest, and Dependabot looks at what is pinned."""

from __future__ import annotations

import re
from pathlib import Path

import yaml

ROOT = Path(__file__).parents[3]
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
