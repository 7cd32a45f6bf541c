"""Blobs in a directory: whole or absent, under their key and nowhere else."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from fournos.history.blobs import BlobKeyError, DirectoryBlobs


def names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.rglob("*"))


async def test_a_blob_is_read_as_it_was_written_and_replaced_as_a_whole(tmp_path: Path) -> None:
    blobs = DirectoryBlobs(tmp_path / "blobs")
    assert await blobs.read("run/log/0") is None
    await blobs.write("run/log/0", b"first")
    await blobs.write("run/log/0", b"\x00second")
    assert await blobs.read("run/log/0") == b"\x00second"
    assert await blobs.size() == 7


async def test_deleting_leaves_no_empty_folder_and_no_other_blob(tmp_path: Path) -> None:
    blobs = DirectoryBlobs(tmp_path)
    for key in ("a/b/1", "a/2", "c/3"):
        await blobs.write(key, b"x")
    await blobs.delete(["a/b/1", "c/3", "never/written"])
    assert names(tmp_path) == ["2", "a"]
    assert await blobs.read("a/2") == b"x"


@pytest.mark.parametrize(
    "key",
    [
        "",
        "/etc/passwd",
        "../x",
        "a/../b",
        "a//b",
        "a/",
        ".hidden",
        "a/.b",
        "a\x00b",
        "a\nb",
        "ä",
        "a" * 128,
        "a/" * 8 + "b",
    ],
)
async def test_a_key_that_could_be_another_path_is_refused(tmp_path: Path, key: str) -> None:
    blobs = DirectoryBlobs(tmp_path)
    for use in (blobs.read(key), blobs.write(key, b"x"), blobs.delete([key])):
        with pytest.raises(BlobKeyError):
            await use
    assert names(tmp_path) == []


async def test_a_link_in_the_directory_leads_nowhere(tmp_path: Path) -> None:
    outside, root = tmp_path / "outside", tmp_path / "root"
    outside.mkdir()
    root.mkdir()
    (outside / "secret").write_bytes(b"secret")
    (root / "folder").symlink_to(outside)
    (root / "file").symlink_to(outside / "secret")
    blobs = DirectoryBlobs(root)
    with pytest.raises(BlobKeyError):
        await blobs.read("folder/secret")
    with pytest.raises(OSError, match="file"):
        await blobs.read("file")
    await blobs.delete(["file"])
    assert (outside / "secret").exists()


async def test_a_write_that_fails_leaves_what_was_there(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    blobs = DirectoryBlobs(tmp_path)
    await blobs.write("a", b"first")

    def full(_descriptor: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(OSError, match="No space"):
        await blobs.write("a", b"second")
    assert await blobs.read("a") == b"first"
    assert names(tmp_path) == ["a"]


async def test_what_a_killed_writer_left_is_swept(tmp_path: Path) -> None:
    blobs = DirectoryBlobs(tmp_path)
    await blobs.write("a/b", b"x")
    (tmp_path / "a" / ".unfinished-1").write_bytes(b"half")
    assert await blobs.sweep() == 1
    assert await blobs.size() == 1
