"""A stand-in for Docker or Podman: it takes the command lines that the real clients take, and no others.

Its images are files beside it.  A program whose name is in FAKE_ENGINE_DOWN is a client without a server.
"""

from __future__ import annotations

import argparse
import fcntl
import io
import json
import os
import sys
import tarfile
from pathlib import Path

DIGEST = f"sha256:{'d' * 64}"
"""Of every image that is pushed."""


def install(directory: Path, *programs: str) -> Path:
    """A directory for PATH with these programs."""
    directory.mkdir(exist_ok=True)
    for program in programs:
        path = directory / program
        path.write_text(f'#!/bin/sh\nexec "{sys.executable}" "{Path(__file__).resolve()}" "$0" "$@"\n')
        path.chmod(0o755)
    return directory


def calls(directory: Path) -> list[list[str]]:
    """What was run there, `info` left out: program, command, arguments."""
    log = directory / "calls"
    lines = log.read_text().splitlines() if log.exists() else []
    return [words for words in map(json.loads, lines) if words[1] != "info"]


def _parser(program: str) -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog=program, allow_abbrev=False)
    commands = parser.add_subparsers(dest="command", required=True)
    commands.add_parser("info")
    build = commands.add_parser("build", allow_abbrev=False)
    build.add_argument("--tag", required=True)
    build.add_argument("--file", type=Path, required=True)
    build.add_argument("context", type=Path)
    save = commands.add_parser("save", allow_abbrev=False)
    save.add_argument("--output", type=Path, required=True)
    if program == "podman":
        save.add_argument("--format", choices=["docker-archive"], required=True)
    save.add_argument("image")
    load = commands.add_parser("load", allow_abbrev=False)
    load.add_argument("--input", type=Path, required=True)
    tag = commands.add_parser("tag", allow_abbrev=False)
    tag.add_argument("source")
    tag.add_argument("target")
    push = commands.add_parser("push", allow_abbrev=False)
    push.add_argument("name")
    if program == "docker":
        inspect = commands.add_parser("image", allow_abbrev=False)
        inspect.add_argument("inspect", choices=["inspect"])
        inspect.add_argument("--format", choices=["{{json .RepoDigests}}"], required=True)
        inspect.add_argument("name")
    return parser


def _familiar(program: str, name: str) -> str:
    """Docker leaves its own registry's name out, Podman keeps it."""
    return name.removeprefix("docker.io/") if program == "docker" else name


def main(path: str, *words: str) -> int:
    program, home = Path(path).name, Path(path).parent
    parsed = _parser(program).parse_args(words)
    with (home / "calls").open("a") as log:
        log.write(json.dumps([program, *words]) + "\n")
    if program in os.environ.get("FAKE_ENGINE_DOWN", "").split():
        print(f"Cannot connect to the {program} service", file=sys.stderr)
        return 1
    with (home / f"{program}-lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)  # an engine keeps the images of commands that run side by side
        return _act(program, parsed, home / f"{program}-images", home / f"{program}-pushed")


def _act(program: str, parsed: argparse.Namespace, images: Path, pushed: Path) -> int:
    found = set(images.read_text().splitlines()) if images.exists() else set()
    if parsed.command == "build":
        assert parsed.file.is_file() and parsed.context.is_dir()
        found.add(parsed.tag)
    elif parsed.command == "save":
        assert parsed.image in found, parsed.image
        _write(parsed.output, _familiar(program, parsed.image))
    elif parsed.command == "load":
        with tarfile.open(parsed.input) as archive:
            manifest = archive.extractfile("manifest.json")
            assert manifest is not None
            (image,) = json.load(manifest)
        found |= {name for tag in image["RepoTags"] for name in (tag, f"docker.io/{tag}")}
    elif parsed.command == "tag":
        assert parsed.source in found, parsed.source
        found.add(parsed.target)
    elif parsed.command == "push":
        assert parsed.name in found, parsed.name
        with pushed.open("a") as file:
            file.write(f"{parsed.name.rpartition(':')[0]}@{DIGEST}\n")
    elif parsed.command == "image":
        print(json.dumps(sorted(set(pushed.read_text().splitlines())) if pushed.exists() else []))
    images.write_text("\n".join(sorted(found)))
    return 0


def _write(target: Path, name: str) -> None:
    content = json.dumps([{"Config": "c.json", "RepoTags": [name], "Layers": []}]).encode()
    with tarfile.open(target, "w") as archive:
        entry = tarfile.TarInfo("manifest.json")
        entry.size = len(content)
        archive.addfile(entry, io.BytesIO(content))


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
