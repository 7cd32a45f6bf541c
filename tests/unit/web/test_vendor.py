"""The files of other projects are what their packages contain, with their licenses."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path

import pytest

from dev.vendor import FOLDERS

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
