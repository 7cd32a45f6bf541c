"""Random requests to all pages, actions and downloads: refused or answered, never a fault, never markup."""

from __future__ import annotations

import asyncio
import re
import socket
import threading
from collections.abc import Iterator
from contextlib import suppress
from urllib.parse import quote, urlencode

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from fournos.api.kinds import FOURNOS_JOB
from fournos.web.pages.all_pages import ACTIONS, DOWNLOADS, PAGES
from fournos.web.requests import SECURITY
from tests.unit.web.stage import ADMIN, HEADER, NS, stage
from tests.waiting import until

MARK = "\"'><fuzz onload=x>{{37*30027}}"
FORM = "application/x-www-form-urlencoded"
MOST = 2**18
"""Bytes of an answer that are read: a download may be long."""


class Site:
    """The server in a thread of its own: tests with Hypothesis have no event loop."""

    def __init__(self) -> None:
        self.loop = asyncio.new_event_loop()
        self.ready = threading.Event()
        self.done = asyncio.Event()
        self.thread = threading.Thread(
            target=self.loop.run_until_complete, args=(self._serve(),), daemon=True
        )
        self.port = 0

    def _run(self) -> None:
        self.loop.run_until_complete(self._serve())

    async def _serve(self) -> None:
        async with stage(whole=True) as self.stage:
            self.stage.may("ann", *ADMIN)
            self.stage.job("present", displayName=MARK, owner=MARK)
            await until(lambda: self.stage.caches.revision([FOURNOS_JOB]) == (1,))
            self.port = int(self.stage.client.port or 0)
            self.ready.set()
            await self.done.wait()

    def ask(self, sent: bytes) -> bytes:
        """The answer to raw bytes."""
        # No limit of requests and logins: each example is a minute later.
        self.stage.clock.at += 60
        with socket.create_connection(("127.0.0.1", self.port), timeout=60) as client:
            client.sendall(sent)
            found = b""
            while len(found) < MOST and not _whole(found):
                piece = client.recv(2**16)
                if not piece:
                    break
                found += piece
        return found


def _whole(found: bytes) -> bool:
    head, _, body = found.partition(b"\r\n\r\n")
    if re.search(rb"(?i)^content-type: (text/event-stream|text/plain)", head, re.M) and b"chunked" in head:
        return True
    length = re.search(rb"(?i)^content-length: (\d+)", head, re.M)
    return bool(length) and len(body) >= int(length[1])


@pytest.fixture(scope="module")
def site() -> Iterator[Site]:
    found = Site()
    found.thread.start()
    assert found.ready.wait(120)
    yield found
    found.loop.call_soon_threadsafe(found.done.set)
    found.thread.join(120)


# --- what is sent ---------------------------------------------------------------------------------------

WORDS = """
.. ../../etc/passwd %2e%2e%2f -1 0 1e999 nan 99999999999999999999 2026-99-99 9999999999d -1h
0001-01-01T00:00:00Z a=b,c!=d = ! * //evil.example \\evil javascript:alert(1) present
"""
ODD = [
    *("", MARK, "\x00", "\x1b[2J\r\nX: y", "\u202e\u2066", "\u0663"),
    *("\U0001f600", "9" * 5000, "x" * 3000),
    *("a in (", "{a: [", "a: &x [*x]", '{"a": 1e999}', NS),
    *WORDS.split(),
]
QUERY = """
across after at attempt before cluster code flavor follow from iss job kpi label line live name next owner
period phase preset q queue resolver since state task text to uid until
"""
FIELDS = """
action displayName env executionEngine exclusive hardware.gpuCount labels matrix name namespace next note
owner preview reason retry.limit secretRefs timeouts.finally token uid until yes
"""
OTHERS = """
/names /act/{name} /static/{digest}/{name} /{any} /open/{token}
"""
PATHS = [*(one.path for one in (*PAGES, *DOWNLOADS, *ACTIONS)), *OTHERS.split()]

text = st.one_of(st.sampled_from(ODD), st.text(max_size=20))
safe = text.map(lambda one: one.encode("utf-8", "replace").decode())
known = st.sampled_from([NS, "present", "default", "fournosjobs", "a"])
pairs = st.lists(st.tuples(st.sampled_from(QUERY.split()), safe), max_size=5)
form = st.lists(st.tuples(st.sampled_from(FIELDS.split()), safe), max_size=8)
TYPES = [
    *[FORM] * 5,
    *(f"{FORM}; charset={one}" for one in ("utf-7", "nonsense", '"')),
    *("multipart/form-data", "multipart/form-data; boundary=x", "text/plain", "application/json", "/", ""),
]
HEADERS = {
    "Origin": ["null", "https://evil.example", "http://[", "\xff", ""],
    "Sec-Fetch-Site": ["cross-site", "none", "x"],
    "Cookie": [
        "fournos=x",
        "fournos-notice=%3Cfuzz%3E%ff",
        "=;;=",
        'a="\\',
        "fournos=" + "A" * 8000,
        "\xff=\xfe",
    ],
    "If-None-Match": ['W/"x"', "*", "\xff"],
    "Accept-Encoding": ["gzip", "br;q=x", "\xff"],
    "HX-Request": ["true"],
    "X-Forwarded-For": ["<fuzz>", "1.2.3.4, x"],
    "X-Forwarded-Host": ["evil.example"],
    "Content-Encoding": ["gzip", "x"],
    "Range": ["bytes=0-1"],
    "Expect": ["100-continue", "x"],
    "Upgrade": ["websocket", "h2c"],
    HEADER: ["t-ann", "t-ann", "t-ann", "t-ben", "x", "\xff"],
    "Authorization": ["Bearer t-ben", "Basic eDp5", "Basic", "Bearer \xff", "x y z", ""],
    "X-Forwarded-User": ["system:admin", "\xff"],
}
header = st.sampled_from(sorted(HEADERS)).flatmap(
    lambda name: st.tuples(st.just(name), st.sampled_from(HEADERS[name]))
)


@st.composite
def requests(draw: st.DrawFn) -> tuple[str, str, dict[str, str], bytes]:
    """Method, target, headers and body."""
    parts = re.split(r"\{[^}]*\}", draw(st.sampled_from(PATHS)))
    values = [quote(draw(known | safe), safe=draw(st.sampled_from(["", "/.%"]))) for _ in parts[1:]]
    target = "".join(a + b for a, b in zip(parts, [*values, ""], strict=True))
    if query := draw(pairs):
        target += "?" + urlencode(query)
    method = draw(st.sampled_from(["GET", "GET", "POST", "POST", "HEAD", "PUT", "OPTIONS"]))
    headers = {HEADER: "t-ann", "Sec-Fetch-Site": "same-origin", **dict(draw(st.lists(header, max_size=4)))}
    body = b""
    if method in ("POST", "PUT"):
        body = draw(st.sampled_from([urlencode(draw(form)).encode()] * 5 + [b"\xff\xfe&%=", b"--x\r\n"]))
        headers["Content-Type"] = draw(st.sampled_from(TYPES))
    return method, target, headers, body


def message(method: str, target: str, headers: dict[str, str], body: bytes) -> bytes:
    first = {"Host": "127.0.0.1", "Connection": "close", "Content-Length": str(len(body))}
    lines = "".join(f"{name}: {value}\r\n" for name, value in {**first, **headers}.items())
    return f"{method} {target} HTTP/1.1\r\n{lines}\r\n".encode("latin-1") + body


def harmless(answer: bytes, sent: bytes) -> None:
    head, _, body = answer.partition(b"\r\n\r\n")
    status = int(head.split()[1]) if head else 0
    about = f"{sent[:2000]!r}\n{answer[:3000]!r}"
    assert status and status != 500, about
    fields = {
        name.strip().lower(): value.strip()
        for name, _, value in (line.partition(":") for line in head.decode("latin-1").split("\r\n")[1:])
    }
    if head.startswith(b"HTTP/1.0 400"):  # what is not HTTP never comes to the page
        assert fields["content-type"].startswith("text/plain"), about
        return
    if status == 100:
        return
    secure = {name.lower(): value for name, value in SECURITY.items()}
    if fields.get("content-type") == "application/octet-stream":  # what is saved has a policy of its own
        secure["content-security-policy"] = "default-src 'none'; sandbox"
    assert fields.items() >= secure.items(), about
    assert b"<fuzz" not in body.lower() or not fields["content-type"].startswith("text/html"), about
    assert "\n" not in fields.get("location", "") and not fields.get("location", "").startswith("//"), about
    assert b"1110999" not in body, about


@settings(max_examples=200, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(asked=requests())
def test_no_request_is_a_fault_or_comes_back_as_markup(
    site: Site, asked: tuple[str, str, dict[str, str], bytes]
) -> None:
    method, target, headers, body = asked
    sent = message(method, target, headers, body)
    harmless(site.ask(sent), sent)


PIECES = [
    *(b"GET / HTTP/1.1\r\n", b"POST /act/x HTTP/1.1\r\n", b"Host: a\r\n", b"Host: b\r\n", b"\r\n\r\n"),
    *(b"Content-Length: 5\r\n", b"Content-Length: -1\r\n", b"Transfer-Encoding: chunked\r\n", b"\r\n"),
    *(f"Content-Type: {FORM}\r\n".encode(), b"5\r\na=<fu\r\n", b"zz\r\n", b"0\r\n\r\n"),
    *(b"<fuzz>: \x00\r\n", b" folded\r\n"),
]


@settings(max_examples=60, deadline=None)
@given(sent=st.binary(max_size=300) | st.lists(st.sampled_from(PIECES), max_size=12).map(b"".join))
@example(f"POST /act/x HTTP/1.1\r\nTransfer-Encoding: chunked\r\nContent-Type: {FORM}\r\n\r\nzz\r\n".encode())
def test_what_is_no_request_is_no_fault(site: Site, sent: bytes) -> None:
    site.stage.clock.at += 60
    with socket.create_connection(("127.0.0.1", site.port), timeout=60) as client:
        client.sendall(sent)
        client.shutdown(socket.SHUT_WR)
        answer = b""
        with suppress(ConnectionError):
            while piece := client.recv(2**16):
                answer += piece
    if answer:
        harmless(answer, sent)
