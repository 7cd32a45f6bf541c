"""The hook of the documentation's site: links out of docs/, and assets of other hosts."""

from __future__ import annotations

from pathlib import Path

import pytest

from dev.docs_site import loaded, to_repository

REPOSITORY = "https://git.test/o/r"


@pytest.fixture
def root(tmp_path: Path) -> Path:
    (tmp_path / "deploy").mkdir()
    (tmp_path / "README.md").write_text("# R")
    return tmp_path


@pytest.mark.parametrize(
    ("source", "link", "rewritten"),
    [
        ("a.md", "../README.md", f"{REPOSITORY}/blob/main/README.md"),
        ("a.md", "../README.md#r", f"{REPOSITORY}/blob/main/README.md#r"),
        ("a.md", "../deploy", f"{REPOSITORY}/tree/main/deploy"),
        ("a.md", "../deploy/", f"{REPOSITORY}/tree/main/deploy"),
        ("decisions/a.md", "../../README.md", f"{REPOSITORY}/blob/main/README.md"),
        ("decisions/a.md", "../a.md#r", "../a.md#r"),
        ("a.md", "b.md", "b.md"),
        ("a.md", "../docs/b.md", "../docs/b.md"),
        ("a.md", "https://other.test/../x", "https://other.test/../x"),
    ],
)
def test_a_link_out_of_the_folder_leads_to_the_repository(
    root: Path, source: str, link: str, rewritten: str
) -> None:
    warnings: list[str] = []
    text = to_repository(f"see [it]({link}), [b](b.md)", source, root, REPOSITORY, warnings.append)
    assert text == f"see [it]({rewritten}), [b](b.md)"
    assert warnings == []


def test_a_link_to_what_the_repository_does_not_have_is_a_warning(root: Path) -> None:
    warnings: list[str] = []
    to_repository("[x](../gone.md#y)", "a.md", root, REPOSITORY, warnings.append)
    assert warnings == ["Doc file 'a.md' contains a link '../gone.md', but the repository has no 'gone.md'"]


@pytest.mark.parametrize(
    ("html", "addresses"),
    [
        ('<script async src="https://cdn.test/a.js"></script>', ["https://cdn.test/a.js"]),
        ('<img alt="x" src="http://x.test/a.png">', ["http://x.test/a.png"]),
        ('<link rel="stylesheet" href="https://fonts.test/css">', ["https://fonts.test/css"]),
        ('<link rel="canonical" href="https://site.test/">', []),
        ('<a href="https://git.test/o/r" data-md-component="source">', ["https://api.github.com"]),
        ('<a href="https://site.test/">x</a><img src="../a.png">', []),
    ],
)
def test_what_a_page_loads_from_other_hosts_is_found(html: str, addresses: list[str]) -> None:
    assert loaded(html) == addresses
