"""The image of the stand-in `flux`, built when its content has changed."""

from __future__ import annotations

import hashlib
from pathlib import Path

from dev.image import Image
from devcluster.imagebuild import PYTHON_BASE_IMAGE, archive_path, build_image, python_base
from devcluster.locks import file_lock
from devcluster.progress import Progress

FOLDER = Path(__file__).parent / "flux"


def flux_image(progress: Progress) -> Image:
    """Its tag is made of its content.  Raises DevclusterError."""
    digest = hashlib.sha256()
    for file in sorted(FOLDER.iterdir()):
        if file.is_file():
            digest.update(f"{file.name}\0".encode() + file.read_bytes())
    tag = f"docker.io/local/flux-stand-in:{digest.hexdigest()[:12]}"
    archive = archive_path(tag)
    archive.parent.mkdir(parents=True, exist_ok=True)
    with file_lock(archive.with_suffix(".lock"), limit=600, what="the making of the stand-in's image"):
        if not archive.is_file():
            base = python_base(progress)
            build_image(
                tag,
                containerfile=FOLDER / "Containerfile",
                context=FOLDER,
                progress=progress,
                arguments={"BASE": PYTHON_BASE_IMAGE},
                bases=[base],
                target=archive,
            )
    return Image(tag, archive)
