"""The image of this checkout under the names that published manifests and commands use."""

from __future__ import annotations

import io
import json
import tarfile
from collections.abc import Sequence
from pathlib import Path


def named(archive: Path, names: Sequence[str], target: Path) -> Path:
    """A copy of a docker archive whose one image has these names."""
    with tarfile.open(archive) as source, tarfile.open(target, "w") as copy:
        for member in source:
            content = source.extractfile(member)
            if member.name == "manifest.json":
                assert content is not None
                (image,) = json.load(content)
                data = json.dumps([{**image, "RepoTags": list(names)}]).encode()
                member.size = len(data)
                content = io.BytesIO(data)  # type: ignore[assignment]
            copy.addfile(member, content)
    return target
