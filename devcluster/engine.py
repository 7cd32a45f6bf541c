"""Builds images from public base images with Docker or Podman, if one of them is usable."""

from __future__ import annotations

import json
import os
import shutil
from dataclasses import dataclass
from pathlib import Path

from devcluster.errors import CommandFailedError, DevclusterError
from devcluster.progress import Progress
from devcluster.shell import run, stream

PROGRAMS = ("docker", "podman")
WITHOUT = "buildah"
"""The value of CONTAINER_TOOL for neither Docker nor Podman."""
_ASK_LIMIT = 20.0
_MOVE_LIMIT = 600.0
_BUILD_LIMIT = 1200.0


@dataclass(frozen=True)
class Engine:
    """Docker or Podman.  All methods raise CommandFailedError with the program's output."""

    program: str

    def build(self, tag: str, *, containerfile: Path, context: Path, progress: Progress) -> None:
        words: list[str | Path] = [self.program, "build", "--tag", tag, "--file", containerfile, context]
        with progress.step(f"Building {tag} with {self.program}", usual="60 s") as step:

            def show(line: str) -> None:
                step.detail = line[-60:]

            try:
                stream(words, on_line=show, limit=_BUILD_LIMIT)
            except CommandFailedError as error:
                hint = f"Where no image registry is in reach: CONTAINER_TOOL={WITHOUT}."
                raise CommandFailedError(error.message, evidence=error.evidence, hint=hint) from None

    def save(self, tag: str, archive: Path) -> None:
        """Saves the image as a docker archive."""
        unfinished = archive.with_suffix(".new")
        unfinished.unlink(missing_ok=True)  # podman adds to an existing archive
        form = ["--format", "docker-archive"] if self.program == "podman" else []
        run([self.program, "save", *form, "--output", unfinished, tag], limit=_MOVE_LIMIT)
        unfinished.replace(archive)

    def push(self, archive: Path, tag: str, names: tuple[str, ...], progress: Progress) -> None:
        """Pushes the image of an archive under each of the names, to the registries in the names."""
        run([self.program, "load", "--input", archive], limit=_MOVE_LIMIT)
        for name in names:
            with progress.step(f"Pushing {name}", usual="30 s"):
                run([self.program, "tag", tag, name], limit=_ASK_LIMIT)
                run([self.program, "push", name], limit=_MOVE_LIMIT)

    def digest(self, name: str) -> str:
        """Returns the digest, such as sha256:0123…, under which Docker has pushed this name."""
        words = [self.program, "image", "inspect", "--format", "{{json .RepoDigests}}", name]
        repository = name.rpartition(":")[0]
        pushed: list[str] = json.loads(run(words, limit=_ASK_LIMIT).stdout)
        digests = dict(reference.split("@") for reference in pushed)
        if repository not in digests:
            raise CommandFailedError(f"{self.program} knows no digest of {name}", hint="Push it first.")
        return digests[repository]


def find_engine() -> Engine | None:
    """Returns the engine that CONTAINER_TOOL names, else the first of Docker and Podman that answers.

    None means buildah.  The server of each is queried: an installed client alone cannot build.  Raises
    DevclusterError if the named engine is not usable.
    """
    tool = os.environ.get("CONTAINER_TOOL", "")
    if tool == WITHOUT:
        return None
    if tool and tool not in PROGRAMS:
        known = ", ".join((*PROGRAMS, WITHOUT))
        raise DevclusterError(f"CONTAINER_TOOL is {tool!r}", hint=f"It is one of: {known}.")
    for program in (tool,) if tool else PROGRAMS:
        if shutil.which(program) and _answers(program):
            return Engine(program)
    if tool:
        raise DevclusterError(
            f"CONTAINER_TOOL is {tool}, and `{tool} info` does not succeed here",
            hint=f"Start its service, or leave CONTAINER_TOOL out: {WITHOUT} builds without one.",
        )
    return None


def require_engine(purpose: str) -> Engine:
    """Returns the engine.  Raises DevclusterError if there is none."""
    engine = find_engine()
    if engine is None:
        raise DevclusterError(
            f"{purpose} needs Docker or Podman, and neither answers here (`docker info`, `podman info`)"
        )
    return engine


def _answers(program: str) -> bool:
    try:
        return run([program, "info"], limit=_ASK_LIMIT, check=False).returncode == 0
    except DevclusterError:  # the program hangs, or cannot be started
        return False
