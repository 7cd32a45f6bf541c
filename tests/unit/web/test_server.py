"""The server: the order of its checks, what it caches, and what hostile requests and objects get."""

from __future__ import annotations

import asyncio
import io
import re
from dataclasses import replace
from typing import Any

import pytest
from yarl import URL

from fournos.api.kinds import FOURNOS_JOB
from fournos.web import streams
from fournos.web.headers import SECURITY
from fournos.web.identity.members import Ways
from fournos.web.live import channels
from fournos.web.routes import Call
from fournos.web.server import _command
from tests.unit.web.stage import ADMIN, NAMES, NS, Stage, stage
from tests.waiting import until

HEADER = "X-Token"
NASTY = '"><script>alert(1)</script><img src=x onerror=alert(1)>{{ 7*7 }}{% raw %}\x00\x1b[2J\u202e'


async def logged_in(site: Stage, *, user: str = "ann") -> str:
    site.may(user, *ADMIN)
    await site.login(f"t-{user}")
    return await site.csrf()


# --- headers and caching -------------------------------------------------------------------------------


async def test_every_answer_has_the_headers_of_the_policy() -> None:
    async with stage() as site:
        await logged_in(site)
        asset = re.search(r'href="(/static/[^"]+\.css)"', (await site.get("/"))[1])
        assert asset
        for method, path in (
            ("GET", "/"),
            ("GET", "/none"),
            ("GET", asset[1]),
            ("GET", "/login"),
            ("PUT", "/"),
            ("POST", "/act/x"),
            ("GET", "/static/0000/app.js"),
        ):
            async with site.client.request(method, path, allow_redirects=False) as answer:
                assert {name: answer.headers.get(name) for name in SECURITY} == dict(SECURITY), path


async def test_a_page_is_sent_again_only_if_it_changed() -> None:
    async with stage() as site:
        await logged_in(site)
        async with site.client.get("/names") as first:
            tag = first.headers["ETag"]
            assert first.headers["Cache-Control"] == "private, no-cache"
            assert first.headers["Vary"] == "Cookie"
        again = {"If-None-Match": tag}
        async with site.client.get("/names", headers=again) as second:
            assert (second.status, await second.text()) == (304, "")
            assert second.headers["ETag"] == tag
        site.job("new")
        await until(lambda: site.caches.revision([FOURNOS_JOB]) == (1,))
        assert (await site.get("/names", headers=again))[0] == 200


async def test_another_session_has_another_tag() -> None:
    """A browser must not show a kept page whose forms are of an ended session."""
    async with stage() as site:
        await logged_in(site)
        async with site.client.get("/names") as first:
            tag = first.headers["ETag"]
        await site.login()
        assert (await site.get("/names", headers={"If-None-Match": tag}))[0] == 200


async def test_a_notice_is_shown_once() -> None:
    async with stage() as site:
        csrf = await logged_in(site)
        await site.post("/act/x", {"csrf": csrf})
        assert "It is done." in (await site.get("/names"))[1]
        assert "It is done." not in (await site.get("/names"))[1]


# --- whose request it is -------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("headers", "status"),
    [
        ({}, 303),
        ({"Sec-Fetch-Site": "same-origin"}, 303),
        ({"Sec-Fetch-Site": "cross-site"}, 403),
        ({"Sec-Fetch-Site": "same-site"}, 403),
        ({"Origin": "https://evil.example.com"}, 403),
        ({"Origin": "null"}, 403),
        ({"Origin": "http://[evil"}, 403),
        ({"Origin": "OWN"}, 303),
        ({"Origin": "OWN", "Sec-Fetch-Site": "cross-site"}, 403),
    ],
)
async def test_a_write_of_another_site_is_refused(headers: dict[str, str], status: int) -> None:
    async with stage() as site:
        csrf = await logged_in(site)
        own = str(site.client.make_url("")).rstrip("/")
        given = {name: own if value == "OWN" else value for name, value in headers.items()}
        assert (await site.post("/act/x", {"csrf": csrf}, headers=given)).status == status
        assert (await site.login(headers=given)).status == status
        assert (await site.post("/logout", {"csrf": csrf}, headers=given)).status in (status, 403)
        assert len(site.done) == (status == 303)


async def test_behind_a_proxy_that_replaces_the_host_the_public_address_counts() -> None:
    async with stage(hosts=frozenset({"fournos.example.com"})) as site:
        headers = {"Host": "fournos.example.com", "Origin": "https://fournos.example.com"}
        assert (await site.login(headers=headers)).status == 303
        assert (await site.login(headers={**headers, "Origin": "https://evil.example.com"})).status == 403


async def test_the_host_is_checked_before_everything_else() -> None:
    async with stage(hosts=frozenset({"fournos.example.com"})) as site:
        for path in ("/", "/login", "/live?to=/", "/static/x/app.js", "/none"):
            assert (await site.get(path))[0] == 421, path
        assert (await site.login()).status == 421
        assert site.cluster.reviews == []


async def test_a_write_is_a_post() -> None:
    async with stage() as site:
        csrf = await logged_in(site)
        for method in ("GET", "HEAD", "PUT", "DELETE", "PATCH", "OPTIONS"):
            async with site.client.request(method, "/act/x", params={"csrf": csrf}) as answer:
                assert answer.status == 405, method
        assert site.done == []


# --- hostile content -----------------------------------------------------------------------------------


async def test_markup_and_control_characters_in_objects_are_text() -> None:
    async with stage() as site:
        await logged_in(site)
        site.job("a", owner=NASTY, displayName=NASTY)
        await until(lambda: site.caches.revision([FOURNOS_JOB]) == (1,))
        for path in ("/", "/names"):
            status, text = await site.get(path)
            assert status == 200
            assert "<script>alert" not in text and "<img" not in text and "49" not in text.split("<main")[1]
        assert "&lt;script&gt;" in (await site.get("/"))[1]


async def test_megabytes_in_an_object_are_no_fault() -> None:
    async with stage() as site:
        await logged_in(site)
        site.job("a", owner="x" * 2**20)
        await until(lambda: site.caches.revision([FOURNOS_JOB]) == (1,))
        assert (await site.get("/"))[0] == 200


@pytest.mark.parametrize(
    "path",
    [
        "/static/../server.py",
        "/static/%2e%2e/%2e%2e/etc/passwd",
        "/static/x/..%2f..%2fserver.py",
        "/static//etc/passwd",
        "/..",
        "//evil.example.com/",
        "/%00",
        "/names/",
        "/names%2f",
        "/NAMES",
        "/act/x",
    ],
)
async def test_tricks_with_paths_find_nothing(path: str) -> None:
    async with stage() as site:
        await logged_in(site)
        url = URL(f"http://127.0.0.1:{site.client.port}{path}", encoded=True)
        async with site.client.session.get(url, allow_redirects=False) as answer:
            assert answer.status in (404, 405), path
            assert "root:" not in await answer.text()


@pytest.mark.parametrize(
    "to",
    ["", "/none", "//evil.example.com/names", "https://evil.example.com/names", "names", "/names/../x",
     "http://[", "/names\r\nX: y", "/act/x", "/live?to=/names", "\x00"],
)  # fmt: skip
async def test_a_stream_is_of_a_live_page_of_ours(to: str) -> None:
    async with stage() as site:
        await logged_in(site)
        async with site.client.get("/live", params={"to": to}) as answer:
            assert answer.status == 404, to


async def test_an_error_page_repeats_no_markup_of_the_address() -> None:
    async with stage() as site:
        await logged_in(site)
        status, text = await site.get("/%3Cscript%3Ealert(1)%3C/script%3E")
        assert status == 404 and "<script>alert" not in text
        status, text = await site.get("/login?next=%22%3E%3Cscript%3Ealert(1)%3C/script%3E")
        assert status == 200 and "<script>alert" not in text


async def test_forms_of_any_size_and_kind_are_harmless() -> None:
    async with stage() as site:
        csrf = await logged_in(site)
        plain, form = {"Content-Type": "text/plain"}, {"Content-Type": "application/x-www-form-urlencoded"}
        large = io.BytesIO(f"csrf={csrf}&a={'x' * 2**21}".encode())
        async with site.client.post("/act/x", data=large, headers=form) as answer:
            assert answer.status == 413
        async with site.client.post("/act/x", data=b"\xff\xfe", headers=plain) as odd:
            assert odd.status == 403
        broken = {"Content-Type": "multipart/form-data; boundary=x"}
        async with site.client.post("/act/x", data=b"--x\r\n", headers=broken) as odd:
            assert odd.status in (400, 403)
        assert site.done == []


async def test_a_notice_of_another_s_making_is_text() -> None:
    async with stage() as site:
        await logged_in(site)
        kept = site.client.session.cookie_jar.filter_cookies(site.client.make_url("/"))
        cookie = "; ".join(f"{one.key}={one.value}" for one in kept.values())
        forged = f"{cookie}; fournos-notice=%3Cscript%3Ealert(1)%3C/script%3E" + "x" * 3000
        _, text = await site.get("/names", headers={"Cookie": forged})
        assert "<script>alert" not in text and "&lt;script&gt;" in text and "x" * 400 not in text


async def test_a_command_to_copy_quotes_what_an_address_holds() -> None:
    page = replace(NAMES, command="fournos get {name} -n {namespace}")
    call: Any = Call(None, None, None, {"name": "a; rm -rf /", "namespace": "perf"})  # type: ignore[arg-type]
    assert _command(page, call) == "fournos get 'a; rm -rf /' -n perf"


# --- streams -------------------------------------------------------------------------------------------


class Reader:
    """The stream of a tab."""

    def __init__(self, site: Stage, token: str) -> None:
        self.text = ""
        self.task = asyncio.create_task(self._read(site, token))
        self.connected = asyncio.Event()

    async def _read(self, site: Stage, token: str) -> None:
        headers = {HEADER: token}
        async with site.client.get("/live?to=/names", headers=headers, timeout=None) as answer:
            assert answer.status == 200, await answer.text()
            assert answer.headers["X-Accel-Buffering"] == "no"
            self.connected.set()
            async for piece in answer.content.iter_any():
                self.text += piece.decode()


async def reader(site: Stage, token: str) -> Reader:
    await site.get("/names", headers={HEADER: token})
    found = Reader(site, token)
    await found.connected.wait()
    await until(lambda: "<main" in found.text)
    return found


async def test_a_change_reaches_those_who_may_see_it_each_with_their_own_token() -> None:
    async with stage(Ways(proxy_header=HEADER)) as site:
        site.may("ann", *ADMIN)
        site.may("ben", *ADMIN)
        site.cluster.users["t-cho"] = "cho"
        site.may("cho", ("list", "fournosjobs", NS))
        site.job("mine")
        await until(lambda: site.caches.revision([FOURNOS_JOB]) == (1,))
        ann, ben, cho = [await reader(site, f"t-{name}") for name in ("ann", "ben", "cho")]
        assert len(site.web.channels._open) == 2
        tokens = {re.findall('name="csrf" value="([^"]+)"', one.text)[0] for one in (ann, ben)}
        assert len(tokens) == 2
        site.job("theirs", "other")
        await until(lambda: "theirs" in ann.text and "theirs" in ben.text)
        await asyncio.sleep(2 * channels.REST)
        assert "theirs" not in cho.text
        for one in (ann, ben, cho):
            one.task.cancel()


async def test_the_stream_of_a_person_whose_right_was_withdrawn_ends(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(channels, "HEARTBEAT", 0.05)
    monkeypatch.setattr(streams, "RECHECK", 0.1)
    async with stage(Ways(proxy_header=HEADER)) as site:
        site.may("ann", *ADMIN)
        site.may("ben", *ADMIN)
        ann, ben = [await reader(site, f"t-{name}") for name in ("ann", "ben")]
        site.cluster.rights -= {("ann", *right) for right in ADMIN}
        site.clock.at += 31
        await asyncio.wait_for(ann.task, 60)
        assert not ben.task.done()
        # Without the token, too.
        del site.cluster.users["t-ben"]
        site.clock.at += 61
        await asyncio.wait_for(ben.task, 60)
        assert site.web.channels.streams == 0


async def test_what_a_tab_may_show_no_longer_is_replaced_by_the_reason() -> None:
    async with stage(Ways(proxy_header=HEADER)) as site:
        site.may("ann", *ADMIN)
        site.may("ben", *ADMIN)
        site.job("secret")
        await until(lambda: site.caches.revision([FOURNOS_JOB]) == (1,))
        ann, ben = [await reader(site, f"t-{name}") for name in ("ann", "ben")]
        site.cluster.rights -= {("ann", *right) for right in ADMIN}
        site.clock.at += 31
        site.job("another")
        await asyncio.wait_for(ann.task, 60)
        await until(lambda: "another" in ben.text)
        # The tab connects again: nobody else gets its error.
        again = await reader(site, "t-ann")
        await until(lambda: "You may not see this" in again.text)
        assert "secret" not in again.text and "You may not see this" not in ben.text
        for one in (again, ben):
            one.task.cancel()


async def test_more_rights_of_one_person_are_not_shown_to_the_others() -> None:
    """Whoever renders: at the time of the change the first one sees more than the class of the page."""
    async with stage(Ways(proxy_header=HEADER)) as site:
        for name in ("ann", "ben"):
            site.may(name, ("list", "fournosjobs", NS))
        site.job("mine")
        await until(lambda: site.caches.revision([FOURNOS_JOB]) == (1,))
        ann, ben = await reader(site, "t-ann"), await reader(site, "t-ben")
        assert len(site.web.channels._open) == 1
        site.may("ann", *ADMIN)
        site.clock.at += 31
        site.job("theirs", "other")
        site.job("mine-too")
        await asyncio.wait_for(ann.task, 60)
        await until(lambda: "mine-too" in ben.text)
        assert "theirs" not in ben.text
        ben.task.cancel()


async def test_ten_thousand_streams_of_one_person_are_twenty() -> None:
    async with stage(Ways(proxy_header=HEADER), streams=30) as site:
        site.cluster.users |= {f"t-{number}": f"user-{number}" for number in range(20)}
        for user in site.cluster.users.values():
            site.may(user, *ADMIN)
        open_ = [await reader(site, "t-ann") for _ in range(20)]
        statuses = []
        for _ in range(20):
            site.clock.at += 1
            status, _ = await site.get("/live?to=/names", headers={HEADER: "t-ann"})
            statuses.append(status)
        assert statuses == [503] * 20
        async with site.client.get("/live?to=/names", headers={HEADER: "t-ann"}) as answer:
            assert answer.headers["Retry-After"] == "5"
        open_ += [await reader(site, f"t-{number}") for number in range(10)]
        assert (await site.get("/live?to=/names", headers={HEADER: "t-15"}))[0] == 503
        assert (await site.get("/names", headers={HEADER: "t-15"}))[0] == 200
        assert site.web.channels.streams == 30
        for one in open_:
            one.task.cancel()
        await until(lambda: site.web.channels.streams < 30, limit=60)


async def test_a_reader_that_takes_nothing_is_cut_off(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(streams, "SLOW", 0.5)
    async with stage(Ways(proxy_header=HEADER)) as site:
        site.may("ann", *ADMIN)
        await site.get("/names", headers={HEADER: "t-ann"})
        _, writer = await asyncio.open_connection("127.0.0.1", site.client.port)
        writer.write(b"GET /live?to=/names HTTP/1.1\r\nHost: a\r\nX-Token: t-ann\r\n\r\n")
        await until(lambda: site.web.channels.streams == 1)
        for number in range(60):
            site.job(f"job-{number}-" + "x" * 200_000)
            if not site.web.channels.streams:
                break
            await asyncio.sleep(0.25)
        await until(lambda: site.web.channels.streams == 0, limit=60)
        writer.close()
