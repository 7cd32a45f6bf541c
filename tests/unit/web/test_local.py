"""`fournos web` on the machine of one person: who else reaches it gets nothing."""

from __future__ import annotations

import asyncio
import os
import socket
import sys
from collections.abc import AsyncIterator
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any

import pytest
from aiohttp import ClientSession, CookieJar
from yarl import URL

from fournos.api.kinds import FOURNOS_CLUSTER, FOURNOS_JOB
from fournos.engine.kube.resource import SELF_SUBJECT_ACCESS_REVIEW, Obj, Resource
from fournos.web import local
from fournos.web.local import LocalOptions, OwnRights, serve
from tests.unit.client.world import NS, Api
from tests.unit.web.stage import Clock

JOB = {
    "apiVersion": "fournos.dev/v1",
    "kind": "FournosJob",
    "metadata": {"name": "secret-job", "namespace": NS},
    "spec": {"owner": "ann"},
    "status": {"phase": "Running"},
}


class Own(Api):
    """An API server that reviews the rights of our own connection."""

    def __init__(self) -> None:
        super().__init__()
        self.allowed = True
        self.asked: list[Obj] = []

    async def create(self, resource: Resource, obj: Obj, *, dry_run: bool = False) -> Obj:
        if resource != SELF_SUBJECT_ACCESS_REVIEW:
            return await super().create(resource, obj, dry_run=dry_run)
        self.asked.append(obj)
        return {"status": {"allowed": self.allowed}}


@dataclass
class Page:
    address: URL
    browser: ClientSession
    port: int = field(init=False)

    def __post_init__(self) -> None:
        assert self.address.port
        self.port = self.address.port

    async def get(self, path: str, **headers: str) -> tuple[int, str]:
        url = self.address.join(URL(path))
        async with self.browser.get(url, headers=headers, allow_redirects=False) as answer:
            return answer.status, await answer.text()


@pytest.fixture
async def page(monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Page]:
    # Of the process, which is that of all tests.
    monkeypatch.setattr(local, "collect_seldom", lambda: None)
    monkeypatch.setattr(local, "keep_objects", lambda: None)
    api: Any = Own()
    api.server.create(FOURNOS_JOB, JOB)
    printed: asyncio.Future[str] = asyncio.get_running_loop().create_future()
    serving = asyncio.create_task(serve(api, LocalOptions(NS, port=0), printed.set_result))
    async with asyncio.timeout(120):
        await asyncio.wait((serving, printed), return_when=asyncio.FIRST_COMPLETED)
    async with ClientSession(cookie_jar=CookieJar(unsafe=True)) as browser:
        yield Page(URL(await printed), browser)
    serving.cancel()
    with suppress(asyncio.CancelledError):
        await serving


async def test_the_printed_address_leads_to_the_page_and_nothing_else_does(page: Page) -> None:
    for path in ("/", "/jobs", f"/jobs/{NS}/secret-job"):
        status, text = await page.get(path)
        assert status == 401 and "secret-job" not in text.replace(path, ""), path
    for wrong in ("/open/x", "/open/%C3%A9", page.address.path[:-1]):
        assert (await page.get(wrong))[0] == 401 and not len(page.browser.cookie_jar), wrong
    async with page.browser.get(page.address, allow_redirects=False) as answer:
        assert (answer.status, answer.headers["Location"]) == (303, "/")
        cookie = answer.headers["Set-Cookie"]
        assert "HttpOnly" in cookie and "SameSite=Lax" in cookie and "Domain" not in cookie
    status, text = await page.get("/jobs")
    assert status == 200 and "secret-job" in text


@pytest.mark.skipif(os.geteuid() != 0, reason="only root starts a process of another user")
@pytest.mark.parametrize("host", ["127.0.0.1", "::ffff:127.0.0.1"])
async def test_a_process_of_another_user_is_refused_with_the_cookie(page: Page, host: str) -> None:
    """A browser sends the cookie to every port of this host, whoever listens there."""
    await page.get(page.address.path)
    (cookie,) = page.browser.cookie_jar
    for user, status in ((0, b"200"), (65534, b"403")):
        process = await asyncio.create_subprocess_exec(
            *(sys.executable, "-c", REQUEST, str(user), host, str(page.port), f"{cookie.key}={cookie.value}"),
            stdout=asyncio.subprocess.PIPE,
        )
        answer, _ = await process.communicate()
        assert answer.split()[1] == status
        assert (b"secret-job" in answer) is (user == 0)


REQUEST = """
import encodings.idna, os, socket, sys
_, user, host, port, cookie = sys.argv
os.setuid(int(user))  # no module is loaded after this: they may be in the home of another user
lines = ["GET /jobs HTTP/1.1", f"Host: 127.0.0.1:{port}", f"Cookie: {cookie}", "Connection: close", "", ""]
with socket.create_connection((host, int(port))) as connection:
    connection.sendall("\\r\\n".join(lines).encode())
    while piece := connection.recv(65536):
        sys.stdout.buffer.write(piece)
"""


async def test_a_name_that_leads_to_this_machine_is_not_answered(page: Page) -> None:
    """Another site's name that resolves to 127.0.0.1, also with the token of the address."""
    path = page.address.path
    for host in (
        "evil.example",
        f"evil.example:{page.port}",
        "127.0.0.1",
        "127.0.0.1:1",
        f"[::1]:{page.port}",
    ):
        assert (await page.get(path, Host=host))[0] == 421, host
        assert not len(page.browser.cookie_jar)
    assert (await page.get(path, Host=f"localhost:{page.port}"))[0] == 303


async def test_a_form_of_another_site_is_refused(page: Page) -> None:
    await page.get(page.address.path)
    url = page.address.join(URL(f"/jobs/{NS}/secret-job/delete"))
    for headers in ({"Origin": "https://evil.example"}, {"Origin": "http://127.0.0.1:1"}, {}):
        async with page.browser.post(url, data={}, headers=headers) as answer:
            assert answer.status == 403
    assert "secret-job" in (await page.get("/jobs"))[1]


async def test_only_this_machine_reaches_it(page: Page) -> None:
    with pytest.raises(OSError), socket.create_connection(("127.0.0.2", page.port), timeout=10):
        pass


async def test_the_caller_s_own_rights_are_asked_for_and_kept_for_half_a_minute() -> None:
    api, clock = Own(), Clock()
    rights = OwnRights(api, clock.monotonic)
    assert await rights.may("delete", FOURNOS_JOB, NS)
    api.allowed = False
    assert await rights.may("delete", FOURNOS_JOB, NS) and len(api.asked) == 1
    assert not await rights.may("delete", FOURNOS_JOB, "other")
    clock.at += local._KNOWN + 1
    assert not await rights.may("delete", FOURNOS_JOB, NS)
    asked = api.asked[0]["spec"]["resourceAttributes"]
    assert (asked["verb"], asked["resource"], asked["namespace"]) == ("delete", "fournosjobs", NS)


async def test_a_right_for_one_name_is_asked_for_with_it() -> None:
    """A role may give a right for objects of some names alone."""
    api = Own()
    rights = OwnRights(api, Clock().monotonic)
    assert await rights.may("patch", FOURNOS_CLUSTER, "hearth", name="mine")
    api.allowed = False
    assert not await rights.may("patch", FOURNOS_CLUSTER, "hearth", name="other")
    names = [review["spec"]["resourceAttributes"].get("name") for review in api.asked]
    assert names == ["mine", "other"]
