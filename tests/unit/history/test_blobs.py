"""Blobs in a directory: whole or absent, under their key and nowhere else.

What every store of blobs does is tested in tests/store/test_blobs.py.
"""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from fournos.history.blobs import BlobKeyError, DirectoryBlobs


def names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.rglob("*"))


async def test_deleting_leaves_no_empty_folder_and_no_other_blob(tmp_path: Path) -> None:
    blobs = DirectoryBlobs(tmp_path)
    for key in ("a/b/1", "a/2", "c/3"):
        await blobs.write(key, b"x")
    await blobs.delete(["a/b/1", "c/3", "never/written"])
    assert names(tmp_path) == ["2", "a"]
    assert await blobs.read("a/2") == b"x"


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
    (tmp_path / "lost+found").write_bytes(b"no key")
    assert [[one.key for one in page] async for page in blobs.pages()] == [["a/b"]]
    assert await blobs.sweep() == 1
    assert names(tmp_path) == ["a", "b", "lost+found"]
