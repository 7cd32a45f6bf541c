"""The files of other projects are what their packages contain, with their licenses."""

from __future__ import annotations

import hashlib
import json

from dev.vendor import FOLDER, PACKAGES


def test_each_file_is_the_published_one() -> None:
    listed = json.loads((FOLDER / "vendor.json").read_text())
    there = {path.name for path in FOLDER.iterdir()} - {"vendor.json"}
    assert set(listed) == there
    for name, entry in listed.items():
        assert hashlib.sha256((FOLDER / name).read_bytes()).hexdigest() == entry["sha256"], name


def test_versions_and_licenses_are_those_of_the_list() -> None:
    listed = json.loads((FOLDER / "vendor.json").read_text())
    found = {(one["package"], one["version"], one["license"]) for one in listed.values()}
    assert found == {(one.name, one.version, one.license) for one in PACKAGES}
    for package in PACKAGES:
        assert f"{package.name}.LICENSE" in listed
