"""Static files: each class of the style sheets has one meaning, colours stand in one file.

The files of other projects are what their packages contain, with their licenses.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections import Counter
from pathlib import Path

import pytest

import fournos.web
from dev.vendor import FOLDERS
from fournos.api.phase import Phase
from fournos.web.render import SHEET, Assets

STATIC = Path(fournos.web.__file__).parent / "static"
SHEETS = {path.name: path.read_text() for path in STATIC.glob("*.css")}


def test_no_class_is_styled_as_a_whole_by_two_sheets() -> None:
    """Every page loads all sheets: the second rule would change the pages of the first."""
    found = Counter(
        name
        for text in SHEETS.values()
        for name in set(re.findall(r"^\.([\w-]+)(?= \{| dt| dd)", text, re.M))
    )
    assert [name for name, sheets in found.items() if sheets > 1] == []


def test_colours_stand_in_the_tokens_alone() -> None:
    others = {name: text for name, text in SHEETS.items() if name != "tokens.css"}
    assert others
    for name, text in others.items():
        assert not re.search(r"#[0-9a-fA-F]{3,8}\b|\brgba?\(|\bhsl", text), name


def test_a_job_that_stops_does_not_look_like_one_that_has_ended() -> None:
    coloured = set(re.findall(r'\.phase\[data-phase="(\w+)"\]', SHEETS["page.css"]))
    assert {one.value.lower() for one in Phase} - coloured == {"stopped"}


def test_pages_load_all_sheets_as_one() -> None:
    assets = Assets()
    together = assets.content(SHEET).decode()
    assert together.index("--font:") < min(
        together.index(text) for name, text in SHEETS.items() if name != "tokens.css"
    )
    templates = "".join(path.read_text() for path in (STATIC.parent / "templates").iterdir())
    assert re.findall(r"asset\('([^']+\.css)'\)", templates) == [SHEET]


folders = pytest.mark.parametrize("folder", FOLDERS, ids=("served", "tests"))


@folders
def test_each_file_is_the_published_one(folder: Path) -> None:
    listed = json.loads((folder / "vendor.json").read_text())
    there = {path.name for path in folder.iterdir()} - {"vendor.json"}
    assert set(listed) == there
    for name, entry in listed.items():
        assert hashlib.sha256((folder / name).read_bytes()).hexdigest() == entry["sha256"], name


@folders
def test_versions_and_licenses_are_those_of_the_list(folder: Path) -> None:
    packages = FOLDERS[folder]
    listed = json.loads((folder / "vendor.json").read_text())
    found = {(one["package"], one["version"], one["license"]) for one in listed.values()}
    assert found == {(one.name, one.version, one.license) for one in packages}
    for package in packages:
        assert f"{package.name}.LICENSE" in listed
