"""Writes a container image as a docker archive of one layer, without an image builder or a registry."""

from __future__ import annotations

import hashlib
import io
import json
import platform
import tarfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

_EPOCH = 0


@dataclass(frozen=True)
class Recipe:
    """The content of an image: files (path inside → file outside), links (path → target), start settings."""

    tag: str
    files: Mapping[str, Path] = field(default_factory=dict)
    links: Mapping[str, str] = field(default_factory=dict)
    directories: Sequence[str] = ()
    entrypoint: Sequence[str] = ()
    command: Sequence[str] = ()
    user: str = ""

    def key(self) -> str:
        """A hash of the settings and of the size and time of each file: it changes when the image does."""
        stamps = {
            inside: [path.stat().st_size, path.stat().st_mtime_ns] for inside, path in self.files.items()
        }
        settings = [
            self.tag,
            stamps,
            dict(self.links),
            [*self.directories],
            [*self.entrypoint],
            [*self.command],
            self.user,
        ]
        return hashlib.sha256(json.dumps(settings, sort_keys=True).encode()).hexdigest()[:16]


def write_image(recipe: Recipe, target: Path) -> None:
    """Writes the image of `recipe` to `target` atomically: a failure leaves no partial file."""
    layer = target.with_suffix(".layer")
    try:
        _write_layer(recipe, layer)
        config = {
            "Entrypoint": [*recipe.entrypoint] or None,
            "Cmd": [*recipe.command] or None,
            "User": recipe.user,
        }
        wrap_layer(layer, target, tag=recipe.tag, config=config)
    finally:
        layer.unlink(missing_ok=True)


def wrap_layer(layer: Path, target: Path, *, tag: str, config: Mapping[str, object]) -> None:
    """Makes an archive of an uncompressed layer tar and the runtime settings of OCI's image `config`."""
    with layer.open("rb") as file:
        digest = hashlib.file_digest(file, "sha256").hexdigest()
    settings = {"Env": ["PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"], **config}
    image = json.dumps(
        {
            "architecture": _architecture(),
            "os": "linux",
            "config": {key: value for key, value in settings.items() if value},
            "rootfs": {"type": "layers", "diff_ids": [f"sha256:{digest}"]},
            "history": [{"created_by": "devcluster"}],
        }
    ).encode()
    image_name = f"{hashlib.sha256(image).hexdigest()}.json"
    manifest = json.dumps([{"Config": image_name, "RepoTags": [tag], "Layers": [f"{digest}.tar"]}]).encode()
    unfinished = target.with_suffix(".new")
    with tarfile.open(unfinished, "w") as archive:
        archive.add(layer, f"{digest}.tar", filter=_plain)
        _add_bytes(archive, image_name, image)
        _add_bytes(archive, "manifest.json", manifest)
    unfinished.replace(target)


def tags_of(archive: Path) -> list[str]:
    """Returns the tags in a docker archive. Raises KeyError or tarfile.TarError if it is not one."""
    with tarfile.open(archive) as opened:
        manifest = opened.extractfile("manifest.json")
        assert manifest is not None
        return [tag for image in json.load(manifest) for tag in image["RepoTags"] or []]


def _write_layer(recipe: Recipe, layer: Path) -> None:
    with tarfile.open(layer, "w", format=tarfile.GNU_FORMAT) as tar:
        parents = {str(p).lstrip("/") for name in [*recipe.files, *recipe.links] for p in Path(name).parents}
        for directory in sorted((parents | {d.strip("/") for d in recipe.directories}) - {"", "."}):
            entry = tarfile.TarInfo(directory)
            entry.type = tarfile.DIRTYPE
            entry.mode = 0o1777 if directory == "tmp" else 0o755
            tar.addfile(entry)
        for inside, path in sorted(recipe.files.items()):
            tar.add(path.resolve(), inside.lstrip("/"), filter=_executable)
        for inside, goal in sorted(recipe.links.items()):
            entry = tarfile.TarInfo(inside.lstrip("/"))
            entry.type = tarfile.SYMTYPE
            entry.linkname = goal
            tar.addfile(entry)


def _plain(entry: tarfile.TarInfo) -> tarfile.TarInfo:
    entry.uid = entry.gid = 0
    entry.uname = entry.gname = ""
    entry.mtime = _EPOCH
    return entry


def _executable(entry: tarfile.TarInfo) -> tarfile.TarInfo:
    entry.mode = 0o755
    return _plain(entry)


def _add_bytes(archive: tarfile.TarFile, name: str, data: bytes) -> None:
    entry = tarfile.TarInfo(name)
    entry.size = len(data)
    archive.addfile(entry, io.BytesIO(data))


def _architecture() -> str:
    machine = platform.machine()
    return {"x86_64": "amd64", "aarch64": "arm64"}.get(machine, machine)
