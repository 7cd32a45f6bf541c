"""An object of each of our kinds, from samples/, as catalogs show them."""

from __future__ import annotations

from pathlib import Path
from typing import Final

from dev.release_install import Document
from devcluster import manifests

SAMPLES: Final = ("first-job", "schedule", "fournoscluster", "appwrapper", "minicluster")
"""Files with one object of a kind of ours each, and what it needs."""


def examples(tree: Path) -> list[Document]:
    return [_example(tree / "samples" / f"{name}.yaml") for name in SAMPLES]


def _example(path: Path) -> Document:
    objects = manifests.parse(path.read_text(encoding="utf-8"))
    (example,) = (item for item in objects if item["kind"] != "Pipeline")
    return example
