"""The documents are correct: examples are valid, links have targets, commands exist."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path
from typing import Any

import pytest
from pymdownx.slugs import slugify
from typer.main import get_command

from devcluster import manifests
from fournos.cli.app import build
from fournos.systems.jobs.rules import check_manifest

ROOT = Path(__file__).resolve().parents[2]
PAGES = sorted([*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md")])
BLOCK = re.compile(r"^```(\w+)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
LINK = re.compile(r"\]\((?!https?:|#)([^)#]+)(?:#[^)]*)?\)")
ANCHOR = re.compile(r"\]\((?!https?:)([^)#]*)#([^)]+)\)")
NAMED = re.compile(r"`((?:src|tests|dev|devcluster|bench)/[\w/]+\.py)(?:::(\w+))?`")
"""A file of Python, and a test in it."""


def blocks(page: Path, language: str) -> list[str]:
    return [text for found, text in BLOCK.findall(page.read_text(encoding="utf-8")) if found == language]


def examples() -> list[Any]:
    """Every complete FournosJob in a document, by page and number."""
    found = []
    for page in PAGES:
        for number, text in enumerate(blocks(page, "yaml")):
            for document in manifests.parse(text):
                if isinstance(document, dict) and document.get("kind") == "FournosJob":
                    name = f"{page.relative_to(ROOT)}-{number}"
                    found.append(pytest.param(document, id=name))
    return found


@pytest.mark.parametrize("document", examples())
def test_an_example_would_be_accepted(document: Any) -> None:
    assert check_manifest(document) == []


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_links_lead_somewhere(page: Path) -> None:
    for target in LINK.findall(page.read_text(encoding="utf-8")):
        assert (page.parent / target).exists(), f"{page.name} links to {target}"


@pytest.mark.parametrize("page", sorted(ROOT.glob("*.md")), ids=lambda page: page.name)
def test_anchors_of_pages_outside_of_the_site_exist(page: Path) -> None:
    """Those inside are checked by `mkdocs build`, with anchors made in the same way: GitHub's."""
    anchor_of = slugify(case="lower")
    for target, anchor in ANCHOR.findall(page.read_text(encoding="utf-8")):
        text = (page.parent / target if target else page).read_text(encoding="utf-8")
        headings = re.findall(r"^#+ (.+)$", text, re.MULTILINE)
        assert anchor in [anchor_of(heading, "-") for heading in headings], f"{target}#{anchor}"


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_files_and_tests_that_are_named_exist(page: Path) -> None:
    for path, test in NAMED.findall(page.read_text(encoding="utf-8")):
        assert (ROOT / path).is_file(), f"{page.name} names {path}"
        assert not test or f"def {test}(" in (ROOT / path).read_text(encoding="utf-8"), (
            f"{path} has no {test}"
        )


def test_make_targets_exist() -> None:
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    targets = set(re.findall(r"^([a-z0-9-]+):", makefile, re.MULTILINE))
    for page in PAGES:
        for script in blocks(page, "bash"):
            for line in script.splitlines():
                words = [word for word in line.partition("#")[0].split() if "=" not in word]
                if words[:1] == ["make"]:
                    assert set(words[1:]) <= targets, f"{page.name}: {line}"


INSTALLS_BY_NAME = re.compile(r"""pip\d? install[^\n#]*[ '"]fournos(?![-/\w])""")
"""Matches a command that takes the package from an index, where anybody could take the name."""


def test_nothing_installs_a_package_of_our_name_from_an_index() -> None:
    words = ["git", "grep", "--untracked", "-I", "--name-only", "-E", "pip[0-9]? install"]
    files = subprocess.run(words, cwd=ROOT, capture_output=True, text=True, check=True, timeout=60).stdout
    texts = [ROOT / name for name in files.splitlines()]
    assert ROOT / "docs/notebooks/first-benchmark.ipynb" in texts
    assert [path.name for path in texts if INSTALLS_BY_NAME.search(path.read_text())] == []


def test_commands_exist() -> None:
    program = get_command(build())
    known = set(program.commands)  # type: ignore[attr-defined]
    for page in PAGES:
        for script in blocks(page, "bash"):
            for line in script.splitlines():
                found = re.match(r"\s*fournos ([a-z]+)", line)
                assert not found or found[1] in known, f"{page.name}: {line}"
