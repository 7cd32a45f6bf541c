"""Blobs in a directory and in S3: the same in both; and an S3 server that is gone or refuses."""

from __future__ import annotations

import asyncio
import random
import subprocess
import sys
import traceback
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest

from fournos.history.blobs import CHUNK, Blobs, BlobsUnavailableError, BlobsUsageError, open_blobs
from tests.store.conftest import keys_of
from tests.store.killed_blob_writer import KEY, SIZE
from tests.store.s3_server import READER, WRITER, S3Server

ROOT = Path(__file__).parents[2]
SECRETS = (*WRITER, *READER)


async def in_pieces(content: bytes, error: Exception | None = None) -> AsyncIterator[bytes]:
    """Yields the content, and raises the error after it."""
    for start in range(0, len(content), 2**18):
        yield content[start : start + 2**18]
    if error is not None:
        raise error


async def test_a_blob_is_read_as_it_was_written_and_replaced_as_a_whole(blobs: Blobs) -> None:
    assert await blobs.read("run/log/0") is None
    for content in (b"first, and longer", b"\x00second", b"", bytes(range(256)) * 2**14):
        await blobs.write("run/log/0", content)
        assert await blobs.read("run/log/0") == content
    assert await keys_of(blobs) == ["run/log/0"]


async def test_content_that_comes_in_pieces_is_stored_as_a_whole_or_not_at_all(blobs: Blobs) -> None:
    content = bytes(range(256)) * (CHUNK // 256 * 2 + 7)
    await blobs.write("run/model", in_pieces(content))
    chunks = await blobs.chunks("run/model")
    assert chunks is not None
    pieces = [piece async for piece in chunks]
    assert b"".join(pieces) == content and max(map(len, pieces)) < 3 * CHUNK
    await blobs.write("run/empty", in_pieces(b""))
    assert await blobs.read("run/empty") == b""
    for size in (10, len(content)):
        with pytest.raises(ValueError, match="another checksum"):
            await blobs.write("run/bad", in_pieces(content[:size], ValueError("another checksum")))
    assert await keys_of(blobs) == ["run/empty", "run/model"]


async def test_deleting_takes_no_other_blob(blobs: Blobs) -> None:
    for key in ("a/b/1", "a/2", "a/22", "c/3"):
        await blobs.write(key, b"x")
    await blobs.delete(["a/b/1", "never/written", "c/3", "a/2"])
    assert await keys_of(blobs) == ["a/22"]
    assert await blobs.read("a/b/1") is None
    await blobs.delete([])
    assert await blobs.read("a/22") == b"x"


@pytest.mark.parametrize("key", ["../x", "a/../b", "a//b", "a\x00b"])
async def test_a_key_that_could_be_another_path_is_refused(blobs: Blobs, key: str) -> None:
    for use in (blobs.read(key), blobs.write(key, b"x")):
        with pytest.raises((ValueError, OSError), match="path"):
            await use
    assert await keys_of(blobs) == []


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


async def test_a_writer_that_is_killed_leaves_nothing_by_half(blobs: Blobs, place: str) -> None:
    command = [sys.executable, "-m", "tests.store.killed_blob_writer", place]
    for lines in (1, 2, 4):
        written = await asyncio.to_thread(killed_after, lines, command)
        content = await blobs.read(KEY)
        assert content is not None and len(content) == SIZE
        assert set(content) == {content[0]}, "it holds the bytes of one write"
        assert content[0] >= written, "what was reported as written is there"
        assert await keys_of(blobs) == [KEY]


async def test_the_check_leaves_nothing(blobs: Blobs) -> None:
    assert await blobs.check() == []
    assert await keys_of(blobs) == []


def test_a_directory_that_cannot_be_made() -> None:
    with pytest.raises(BlobsUsageError, match="cannot use /proc/nothing/blobs: "):
        open_blobs("/proc/nothing/blobs")


# --- S3 alone -----------------------------------------------------------------------------------


async def refused(blobs: Blobs, use: Callable[[Blobs], Awaitable[Any]], expected: type[Exception]) -> str:
    """Returns the message with which the use is refused; no log has a secret of it."""
    with pytest.raises(expected) as caught:
        await use(blobs)
    assert not [secret for secret in SECRETS if secret in "".join(traceback.format_exception(caught.value))]
    return str(caught.value)


@pytest.mark.usefixtures("s3_keys")
async def test_a_bucket_that_is_not_there_is_no_blob_that_is_gone() -> None:
    blobs = open_blobs("s3://no-such-bucket/x")
    words = "s3://no-such-bucket/x: it answers NoSuchBucket"
    assert words in await refused(blobs, Blobs.check, BlobsUsageError)
    assert words in await refused(blobs, lambda blobs: blobs.read("run/logs/0"), BlobsUnavailableError)
    assert words in await refused(blobs, lambda blobs: blobs.delete(["run/logs/0"]), BlobsUnavailableError)


@pytest.mark.parametrize(
    ("keys", "code"),
    [
        (("unknown", WRITER[1]), "InvalidAccessKeyId"),
        ((WRITER[0], READER[1]), "SignatureDoesNotMatch"),
        (READER, "AccessDenied"),
    ],
)
async def test_credentials_that_are_refused(
    s3_server: S3Server, monkeypatch: pytest.MonkeyPatch, keys: tuple[str, str], code: str
) -> None:
    for name, value in s3_server.variables(keys).items():
        monkeypatch.setenv(name, value)
    blobs = open_blobs(s3_server.place())
    assert f"it answers {code}" in await refused(blobs, Blobs.check, BlobsUsageError)
    assert code in await refused(blobs, lambda blobs: blobs.delete(["run/logs/0"]), BlobsUnavailableError)


@pytest.mark.usefixtures("s3_keys")
async def test_a_server_with_an_authority_of_its_own(
    s3_server: S3Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AWS_ENDPOINT_URL", s3_server.secure_endpoint)
    (warning,) = await open_blobs(s3_server.place()).check()
    assert "set FOURNOS_HISTORY_S3_CA_FILE" in warning
    assert await open_blobs(s3_server.place(), str(s3_server.ca_file)).check() == []
    with pytest.raises(BlobsUsageError, match=r"No such file or directory: '.*/ca.crt'"):
        open_blobs(s3_server.place(), str(tmp_path / "ca.crt"))
    (tmp_path / "ca.crt").write_text("-----BEGIN CERTIFICATE-----\nnonsense\n-----END CERTIFICATE-----\n")
    with pytest.raises(BlobsUsageError, match="FOURNOS_HISTORY_S3_CA_FILE"):
        open_blobs(s3_server.place(), str(tmp_path / "ca.crt"))


@pytest.mark.usefixtures("s3_keys")
async def test_a_server_that_is_gone_and_comes_back(s3_server: S3Server) -> None:
    blobs = open_blobs(s3_server.place())
    await blobs.write("run/logs/0", b"before")
    await asyncio.to_thread(s3_server.kill)
    try:
        message = await refused(
            blobs, lambda blobs: blobs.write("run/logs/1", b"lost"), BlobsUnavailableError
        )
        assert "it does not answer" in message
        await refused(blobs, lambda blobs: blobs.read("run/logs/0"), BlobsUnavailableError)
        (warning,) = await blobs.check()
        assert warning.endswith("logs and artifacts wait for it"), "it may start before S3"
    finally:
        await asyncio.to_thread(s3_server.start)
    assert await blobs.read("run/logs/0") == b"before"
    await blobs.write("run/logs/1", b"after")
    assert await keys_of(blobs) == ["run/logs/0", "run/logs/1"]
