"""`make docker-push`: pushes the image of this checkout to the registry, with the tags of its git ref.

A version is pushed once, by its tag.  `latest` follows main: image triggers watch it, no manifest uses it.
"""

from __future__ import annotations

import os
import re
import sys
from pathlib import Path

from dev.image import operator_image
from devcluster import DevclusterError
from devcluster.engine import require_engine
from devcluster.progress import Progress
from fournos import __version__

REPOSITORIES = ("quay.io/rh_perfscale/fournos", "quay.io/rh_perfscale/hearth")
_TAG_LENGTH = 128


def tags(ref: str, commit: str, version: str) -> tuple[str, ...]:
    """Returns the image tags for a full git ref.

    Raises DevclusterError for a version tag that differs from this checkout's version.
    """
    kind, _, name = ref.removeprefix("refs/").partition("/")
    if kind == "tags":
        if name.removeprefix("v") != version:
            raise DevclusterError(
                f"The tag {name} is not the version of this checkout, {version}",
                hint="Set the version in pyproject.toml, src/fournos/__init__.py and the manifests first.",
            )
        return (version,)
    if kind != "heads" or not name:
        raise DevclusterError(
            f"No image is pushed for the git ref {ref!r}",
            hint="Set GIT_REF to refs/heads/BRANCH or refs/tags/VERSION.",
        )
    if name == "main":
        return (f"main-{commit[:12]}", "latest")
    tag = re.sub(r"[^A-Za-z0-9_.-]+", "-", name).strip(".-")[:_TAG_LENGTH]
    if tag in ("latest", version) or tag.startswith("main-"):
        raise DevclusterError(f"The branch {name} would take the tag {tag}, which is main's or a version's")
    return (tag,)


def _write_digest(output: Path, digests: set[str]) -> None:
    """Gives the digest to the later steps of a workflow, which sign it.  Raises DevclusterError."""
    if len(digests) != 1:
        raise DevclusterError(f"The registries have different images: {', '.join(sorted(digests))}")
    with output.open("a", encoding="utf-8") as file:
        file.write(f"digest={digests.pop()}\n")


def main() -> int:
    progress = Progress()
    try:
        image_tags = tags(os.environ.get("GIT_REF", ""), os.environ.get("GIT_COMMIT", ""), __version__)
        engine = require_engine("make docker-push")
        image = operator_image(progress, engine)
        names = tuple(f"{repository}:{tag}" for repository in REPOSITORIES for tag in image_tags)
        engine.push(image.archive, image.tag, names, progress)
        if output := os.environ.get("GITHUB_OUTPUT"):
            _write_digest(Path(output), {engine.digest(name) for name in names})
    except DevclusterError as error:
        print(f"error: {error}", file=sys.stderr)
        return 1
    print("\n".join(names))
    return 0


if __name__ == "__main__":
    sys.exit(main())
