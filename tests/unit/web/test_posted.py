"""Forms as bodies of requests: what is read, and that a hostile one costs little and is not a fault."""

from __future__ import annotations

import asyncio
import gzip
import io
from contextlib import closing

import pytest

from fournos.engine.runtime.listening import HEADER
from fournos.web import requests
from fournos.web.server import LARGEST
from tests.unit.web.stage import ADMIN, Stage, stage
from tests.unit.web.stage import HEADER as HEADER_OF
from tests.waiting import until

FORM = "application/x-www-form-urlencoded"


async def logged_in(site: Stage) -> None:
    site.may("ann", *ADMIN)
    await site.login()


async def status(site: Stage, body: bytes, kind: str = FORM, **headers: str) -> int:
    given = {"Content-Type": kind, "Sec-Fetch-Site": "same-origin", **headers}
    async with site.client.post(
        "/act/x", data=io.BytesIO(body), headers=given, allow_redirects=False
    ) as answer:
        return answer.status


async def test_the_last_field_of_a_name_counts_and_what_is_no_utf_8_is_replaced() -> None:
    async with stage() as site:
        await logged_in(site)
        assert await status(site, b"a=1&a=2&b=&c=%C3%A9+%FF") == 303
        assert site.done == [("ann", {"a": "2", "b": "", "c": "é \ufffd"})]


@pytest.mark.parametrize("charset", ["nonsense", "utf-7", "base64", "utf-16", '"', "idna"])
async def test_a_charset_is_not_obeyed(charset: str) -> None:
    async with stage() as site:
        await logged_in(site)
        assert await status(site, b"a=+ADw-", f"{FORM}; charset={charset}") == 303
        assert site.done == [("ann", {"a": " ADw-"})]


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        (b"a&" * (requests.FIELDS + 1), 400),
        (b"a=\xff", 400),
        (b"a=" + b"x" * LARGEST, 413),
    ],
)
async def test_a_form_that_is_none_is_refused(body: bytes, expected: int) -> None:
    async with stage() as site:
        await logged_in(site)
        assert await status(site, body) == expected
        assert site.done == []


async def test_a_form_in_parts_is_not_read() -> None:
    """No form of the page has files, and aiohttp writes those of a request to the disk."""
    async with stage() as site:
        await logged_in(site)
        part = b'--x\r\nContent-Disposition: form-data; name="a"; filename="f"\r\n\r\nb\r\n--x--\r\n'
        assert await status(site, part, "multipart/form-data; boundary=x") == 400
        assert await status(site, b"a=b", "text/plain") == 400
        assert site.done == []


async def test_a_packed_form_is_not_unpacked() -> None:
    async with stage() as site:
        await logged_in(site)
        bomb = gzip.compress(b"a=" + b"x" * 2**26)
        found = await status(site, bomb, **{"Content-Encoding": "gzip"})
        assert found in (400, 403)
        assert site.done == []


async def raw(site: Stage, head: str, body: bytes = b"") -> bytes:
    """The first bytes of the answer to a request that is not finished."""
    reader, writer = await asyncio.open_connection("127.0.0.1", site.client.port)
    with closing(writer):
        given = f"Host: a\r\nSec-Fetch-Site: same-origin\r\nContent-Type: {FORM}\r\n"
        writer.write(f"{head}\r\n{given}".encode() + body)
        async with asyncio.timeout(120):
            return await reader.read(2**16)


async def test_a_form_that_does_not_arrive_ends(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(requests, "SLOW", 0.1)
    async with stage() as site:
        await logged_in(site)
        found = await raw(
            site, f"POST /act/x HTTP/1.1\r\n{HEADER_OF}: t-ann", b"Content-Length: 100\r\n\r\na="
        )
        assert found.startswith(b"HTTP/1.1 408 ")


async def test_a_broken_body_is_refused() -> None:
    async with stage() as site:
        await logged_in(site)
        found = await raw(
            site, f"POST /act/x HTTP/1.1\r\n{HEADER_OF}: t-ann", b"Transfer-Encoding: chunked\r\n\r\nzz\r\n"
        )
        assert found.startswith((b"HTTP/1.1 400 ", b"HTTP/1.0 400 "))


@pytest.mark.parametrize("path", ["/act/x", "/names"])
async def test_without_a_session_a_form_is_not_waited_for(path: str) -> None:
    """Else any client could keep requests in work."""
    async with stage() as site:
        found = await raw(site, f"POST {path} HTTP/1.1", b"Content-Length: 100\r\n\r\n")
        assert found.split()[1] in (b"303", b"401", b"405")


@pytest.mark.parametrize(
    "head",
    [
        "GET /" + "a" * (HEADER + 1) + " HTTP/1.1",
        "GET / HTTP/1.1\r\nCookie: " + "a" * (HEADER + 1),
        "GET / HTTP/1.1\r\n" + "\r\n".join(f"X-{number}: a" for number in range(200)),
        "GET / HTTP/1.1\r\nX-" + "a" * (HEADER + 1) + ": a",
    ],
)
async def test_the_head_of_a_request_is_bounded(head: str) -> None:
    async with stage() as site:
        found = await raw(site, head, b"\r\n")
        assert found.startswith(b"HTTP/1.0 400 ") and b"text/plain" in found
        assert len(found) < 2**10
        await until(lambda: not site.cluster.reviews)
