"""Blobs in a directory and in S3: the same in both."""

from __future__ import annotations

import asyncio
import random
import subprocess
import sys
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from fournos.history.blobs import BlobKeyError, Blobs, S3Location
from fournos.history.blobs.blobs import PAGE
from tests.store.conftest import keys_of
from tests.store.killed_blob_writer import KEY, SIZE

ROOT = Path(__file__).parents[2]


async def test_a_blob_is_read_as_it_was_written_and_replaced_as_a_whole(blobs: Blobs) -> None:
    assert await blobs.read("run/log/0") is None
    for content in (b"first, and longer", b"\x00second", b"", bytes(range(256)) * 2**14):
        await blobs.write("run/log/0", content)
        assert await blobs.read("run/log/0") == content
    assert await keys_of(blobs) == ["run/log/0"]


async def test_deleting_takes_no_other_blob(blobs: Blobs) -> None:
    for key in ("a/b/1", "a/2", "a/22", "c/3"):
        await blobs.write(key, b"x")
    await blobs.delete(["a/b/1", "c/3", "a/2", "never/written"])
    assert await keys_of(blobs) == ["a/22"]
    assert await blobs.read("a/b/1") is None
    await blobs.delete([])
    assert await blobs.read("a/22") == b"x"


@pytest.mark.parametrize(
    "key",
    [
        *("", "/etc/passwd", "../x", "a/../b", "a//b", "a/", ".hidden", "a/.b"),
        *("a\x00b", "a\nb", "ä", "a" * 128, "a/" * 8 + "b"),
    ],
)
async def test_a_key_that_could_be_another_path_is_refused(blobs: Blobs, key: str) -> None:
    for use in (blobs.read(key), blobs.write(key, b"x"), blobs.delete([key])):
        with pytest.raises(BlobKeyError):
            await use
    assert await keys_of(blobs) == []


async def test_all_are_listed_page_by_page_with_size_and_time(blobs: Blobs) -> None:
    before = datetime.now(UTC) - timedelta(seconds=5)
    wanted = {f"run-{number % 7}/logs/{number:06}": number % 3 for number in range(PAGE + 50)}
    await asyncio.gather(*(blobs.write(key, b"x" * size) for key, size in wanted.items()))
    pages = [page async for page in blobs.pages()]
    assert len(pages) == 2 and max(map(len, pages)) == PAGE
    assert {one.key: one.size for page in pages for one in page} == wanted
    after = datetime.now(UTC) + timedelta(seconds=5)
    assert all(before <= one.written_at <= after for page in pages for one in page)
    await blobs.delete(wanted)
    assert [page async for page in blobs.pages()] == []


async def test_a_cancelled_write_is_whole_or_absent(blobs: Blobs) -> None:
    source, content = random.Random(5), b"z" * 2**20
    for number in range(20):
        writing = asyncio.create_task(blobs.write(f"run/{number}", content))
        for _ in range(source.randrange(8)):
            await asyncio.sleep(0)
        writing.cancel()
        await asyncio.wait([writing])
    for number in range(20):
        assert await blobs.read(f"run/{number}") in (None, content)
    await blobs.write("run/next", b"the store is usable")
    assert await blobs.read("run/next")


def killed_after(lines: int, command: list[str]) -> int:
    """Ends a writer when it has reported this many writes; returns the number of the last."""
    with subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        reported = [process.stdout.readline() for _ in range(lines)]
        process.kill()
        reported += process.stdout.readlines()
    return int(reported[-1])


async def test_a_writer_that_is_killed_leaves_nothing_by_half(blobs: Blobs, place: Path | S3Location) -> None:
    arguments = (
        [place.bucket, place.prefix, place.endpoint] if isinstance(place, S3Location) else [str(place)]
    )
    command = [sys.executable, "-m", "tests.store.killed_blob_writer", *arguments]
    for lines in (1, 2, 4):
        written = await asyncio.to_thread(killed_after, lines, command)
        content = await blobs.read(KEY)
        assert content is not None and len(content) == SIZE
        assert set(content) == {content[0]}, "it holds the bytes of one write"
        assert content[0] >= written, "what was reported as written is there"
        await blobs.sweep()
        assert await keys_of(blobs) == [KEY]
