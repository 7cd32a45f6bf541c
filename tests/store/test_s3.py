"""What S3 alone has: a server that is gone, credentials that are refused, certificates."""

from __future__ import annotations

import asyncio
import traceback
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest
from aiohttp import web
from aiohttp.test_utils import TestServer

from fournos.history.blobs import BlobsUnavailableError, BlobsUsageError, S3Location, check_blobs, open_blobs
from tests.store.conftest import keys_of
from tests.store.s3_server import READER, WRITER, S3Server, credentials

SECRETS = (*WRITER, *READER)


def shown(error: BaseException) -> str:
    """Returns what a log would have of it."""
    return "".join(traceback.format_exception(error))


async def refused(place: S3Location, use: Callable[[Any], Awaitable[object]] | None = None) -> str:
    """Returns the message with which the check, or a use, is refused."""
    expected = BlobsUsageError if use is None else BlobsUnavailableError
    with pytest.raises(expected) as caught:
        await (check_blobs(place) if use is None else use(open_blobs(place)))
    text = shown(caught.value)
    assert not [secret for secret in SECRETS if secret in text]
    return str(caught.value)


@pytest.mark.usefixtures("s3_keys")
async def test_the_check_leaves_nothing(s3_server: S3Server) -> None:
    place = s3_server.place()
    assert await check_blobs(place) == []
    assert await keys_of(open_blobs(place)) == []


@pytest.mark.usefixtures("s3_keys")
async def test_two_prefixes_of_a_bucket_are_two_stores(s3_server: S3Server) -> None:
    whole = s3_server.place()
    one = open_blobs(whole)
    below = open_blobs(s3_server.place(prefix=f"{whole.prefix}/below"))
    await below.write("a/1", b"x")
    await one.write("b", b"y")
    assert await keys_of(below) == ["a/1"]
    assert await keys_of(one) == ["b", "below/a/1"]
    bare = open_blobs(s3_server.place(prefix=""))
    assert await bare.read(f"{whole.prefix}/b") == b"y"


@pytest.mark.usefixtures("s3_keys")
async def test_a_bucket_that_is_not_there(s3_server: S3Server) -> None:
    place = s3_server.place(bucket="no-such-bucket")
    assert "create the bucket" in await refused(place)
    message = await refused(place, lambda blobs: blobs.read("run/logs/0"))
    assert message.endswith("create the bucket, or name another one in FOURNOS_HISTORY_BLOBS")
    assert "s3://no-such-bucket/" in message and s3_server.endpoint in message
    assert "NoSuchBucket" in await refused(place, lambda blobs: blobs.delete(["run/logs/0"]))
    assert "NoSuchBucket" in await refused(place, keys_of)


@pytest.mark.parametrize(
    ("keys", "words"),
    [
        (("unknown", WRITER[1]), "does not know the access key: set AWS_ACCESS_KEY_ID"),
        ((WRITER[0], READER[1]), "the secret key does not belong to the access key"),
        (READER, "AccessDenied: these credentials may not do that: allow s3:ListBucket"),
    ],
)
async def test_credentials_that_are_refused(
    s3_server: S3Server, monkeypatch: pytest.MonkeyPatch, keys: tuple[str, str], words: str
) -> None:
    for name, value in credentials(keys).items():
        monkeypatch.setenv(name, value)
    place = s3_server.place()
    assert words in await refused(place)
    assert words in await refused(place, lambda blobs: blobs.delete(["run/logs/0"]))


async def test_no_credentials(s3_server: S3Server, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in credentials():
        monkeypatch.delenv(name, raising=False)
    # Nothing listens there: the address of a cloud's metadata may be anything where tests run.
    monkeypatch.setenv("AWS_METADATA_ENDPOINT", "http://127.0.0.1:9")
    message = await refused(s3_server.place())
    assert "no credentials are found: set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY" in message


async def test_profiles_are_no_source_of_credentials(
    s3_server: S3Server, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    for name in credentials():
        monkeypatch.delenv(name, raising=False)
    file = tmp_path / "credentials"
    file.write_text(f"[team]\naws_access_key_id = {WRITER[0]}\naws_secret_access_key = {WRITER[1]}\n")
    monkeypatch.setenv("AWS_SHARED_CREDENTIALS_FILE", str(file))
    monkeypatch.setenv("AWS_PROFILE", "team")
    monkeypatch.setenv("AWS_METADATA_ENDPOINT", "http://127.0.0.1:9")
    assert "no credentials are found" in await refused(s3_server.place())


@pytest.mark.usefixtures("s3_keys")
async def test_a_server_with_an_authority_of_its_own(s3_server: S3Server, tmp_path: Path) -> None:
    place = s3_server.place(endpoint=s3_server.secure_endpoint)
    assert "set FOURNOS_HISTORY_S3_CA_FILE" in await refused(place)
    trusted = s3_server.place(endpoint=s3_server.secure_endpoint, ca_file=str(s3_server.ca_file))
    assert await check_blobs(trusted) == []
    missing = s3_server.place(ca_file=str(tmp_path / "ca.crt"))
    assert (
        await refused(missing) == f"FOURNOS_HISTORY_S3_CA_FILE: {tmp_path}/ca.crt: No such file or directory"
    )
    (tmp_path / "ca.crt").write_text("-----BEGIN CERTIFICATE-----\nnonsense\n-----END CERTIFICATE-----\n")
    assert "FOURNOS_HISTORY_S3_CA_FILE" in await refused(missing)


@pytest.mark.usefixtures("s3_keys")
async def test_a_server_that_is_gone_and_comes_back(s3_server: S3Server) -> None:
    place = s3_server.place()
    blobs = open_blobs(place)
    await blobs.write("run/logs/0", b"before")
    await asyncio.to_thread(s3_server.kill)
    try:
        message = await refused(place, lambda blobs: blobs.write("run/logs/1", b"lost"))
        assert message.endswith("it cannot be reached")
        await refused(place, lambda blobs: blobs.read("run/logs/0"))
        await refused(place, keys_of)
        (warning,) = await check_blobs(place)
        assert warning.endswith("it cannot be reached: logs and artifacts wait for it"), (
            "it may start before S3"
        )
    finally:
        await asyncio.to_thread(s3_server.start)
    assert await blobs.read("run/logs/0") == b"before"
    await blobs.write("run/logs/1", b"after")
    assert await keys_of(blobs) == ["run/logs/0", "run/logs/1"]


# --- answers that the server above does not give: a stand-in, with the bodies that S3 documents -------------

ERROR = (
    '<?xml version="1.0" encoding="UTF-8"?>\n<Error><Code>{code}</Code><Message>A text</Message>'
    f"<AWSAccessKeyId>{WRITER[0]}</AWSAccessKeyId><StringToSign>AWS4-HMAC-SHA256 {WRITER[0]}</StringToSign>"
    "<RequestId>4442587FB7D0A2F9</RequestId></Error>"
)


async def standing_in(status: int, code: str) -> tuple[TestServer, S3Location, list[web.Request]]:
    seen: list[web.Request] = []

    async def answer(request: web.Request) -> web.Response:
        seen.append(request)
        await request.read()
        return web.Response(status=status, text=ERROR.format(code=code) if code else "")

    app = web.Application(client_max_size=2**30)
    app.router.add_route("*", "/{path:.*}", answer)
    server = TestServer(app)
    await server.start_server()
    return server, S3Location("history", "p", endpoint=f"http://127.0.0.1:{server.port}"), seen


@pytest.mark.usefixtures("s3_keys")
@pytest.mark.parametrize(
    ("status", "code", "words"),
    [
        (403, "RequestTimeTooSkewed", "the clock of this machine is wrong: synchronize it (NTP)"),
        (403, "SignatureDoesNotMatch", "the secret key does not belong to the access key"),
        (400, "ExpiredToken", "the credentials have expired: renew them"),
        (400, "AuthorizationHeaderMalformed", "set FOURNOS_HISTORY_S3_REGION"),
        (301, "PermanentRedirect", "set FOURNOS_HISTORY_S3_REGION"),
    ],
)
async def test_an_error_names_its_fix_and_no_credentials(status: int, code: str, words: str) -> None:
    server, place, _ = await standing_in(status, code)
    assert words in await refused(place)
    assert words in await refused(place, lambda blobs: blobs.read("run/logs/0"))
    await server.close()


@pytest.mark.usefixtures("s3_keys")
async def test_a_busy_server_is_asked_again_and_then_reported() -> None:
    server, place, seen = await standing_in(503, "SlowDown")
    message = await refused(place, lambda blobs: blobs.write("run/logs/0", b"x"))
    assert message.endswith("it answers SlowDown (status 503)")
    assert len(seen) == 4
    (warning,) = await check_blobs(place)
    assert "SlowDown" in warning, "that passes by itself"
    await server.close()


@pytest.mark.usefixtures("s3_keys")
async def test_a_blob_is_one_request_so_that_no_unfinished_upload_is_ever_left() -> None:
    server, place, seen = await standing_in(200, "")
    with pytest.raises(BlobsUnavailableError):  # The stand-in's answer has no ETag.
        await open_blobs(place).write("run/artifacts/0", bytes(12 * 2**20))
    assert {(one.method, one.path_qs) for one in seen} == {("PUT", "/history/p/run/artifacts/0")}
    signed = seen[0].headers["x-amz-content-sha256"]
    assert len(signed) == 64, "the server checks the content by it"
    await server.close()
