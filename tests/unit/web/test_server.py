"""The server: the order of its checks, what it keeps, and what hostile requests and objects get."""

from __future__ import annotations

import asyncio
import gzip
import io
import re
from collections.abc import AsyncIterator
from contextlib import ExitStack, closing
from dataclasses import replace
from typing import Any

import pytest
from aiohttp import web
from aiohttp.test_utils import TestClient, TestServer
from yarl import URL

from fournos.api.kinds import FOURNOS_CLUSTER, FOURNOS_JOB
from fournos.engine.kube.resource import Key
from fournos.engine.runtime.listening import HEADER
from fournos.insight.caches import ObjectCaches
from fournos.web import requests
from fournos.web.errors import PageError
from fournos.web.pages.all_pages import PAGES
from fournos.web.pages.fleet import PAGE as FLEET
from fournos.web.requests import EACH, SECURITY, Sending
from fournos.web.server import LARGEST, _command, _fault
from fournos.web.site import PATIENCE, Call, Content, Memo, Written, arrived
from tests.unit.client.world import NS as WORLD
from tests.unit.client.world import SPEC, Api
from tests.unit.web.stage import ADMIN, NAMES, NS, Stage, stage
from tests.unit.web.stage import HEADER as HEADER_OF
from tests.waiting import until

OWN = {"Sec-Fetch-Site": "same-origin"}
FORM = "application/x-www-form-urlencoded"
NASTY = '"><script>alert(1)</script><img src=x onerror=alert(1)>{{ 7777*7777 }}{% raw %}\x00\x1b[2J\u202e'


async def logged_in(site: Stage, *, user: str = "ann") -> None:
    site.may(user, *ADMIN)
    await site.login(f"t-{user}")


@pytest.fixture
async def site() -> AsyncIterator[Stage]:
    """The page, and a person who may do everything."""
    async with stage() as found:
        await logged_in(found)
        yield found


# --- headers and caching -------------------------------------------------------------------------------


async def test_every_answer_has_the_headers_of_the_policy(site: Stage) -> None:
    asset = re.search(r'href="(/static/[^"]+\.css)"', (await site.get("/"))[1])
    assert asset
    for method, path in (
        ("GET", "/"),
        ("GET", "/none"),
        ("GET", asset[1]),
        ("PUT", "/"),
        ("POST", "/act/x"),
        ("GET", "/static/0000/app.js"),
    ):
        async with site.client.request(method, path, allow_redirects=False) as answer:
            assert {name: answer.headers.get(name) for name in SECURITY} == dict(SECURITY), path


def test_the_policy_allows_nothing_but_files_of_the_page() -> None:
    policy = dict(one.split(" ", 1) for one in SECURITY["Content-Security-Policy"].split("; "))
    assert policy.pop("img-src") == "'self' data:"
    assert {name for name, value in policy.items() if value == "'none'"} == {
        "default-src",
        "base-uri",
        "frame-ancestors",
    }
    assert set(policy.values()) == {"'none'", "'self'"}
    assert SECURITY["X-Content-Type-Options"] == "nosniff"


async def test_what_exists_is_not_known_to_those_without_a_right() -> None:
    async with stage(whole=True) as site:
        site.job("there")
        await until(lambda: site.caches.revision([FOURNOS_JOB]) == (1,))
        await site.login("t-ben")
        for path in ("", "/logs", "/logs/file", "/resubmit", "/artifacts/a"):
            found = [await site.get(f"/jobs/{NS}/{name}{path}") for name in ("there", "gone!")]
            assert found[0][0] in (403, 404), path
            assert found[0][1].replace("there", "gone!") == found[1][1].replace("there", "gone!"), path


async def test_an_error_names_the_person() -> None:
    async with stage(whole=True) as site:
        await site.login("t-ben")
        for path, status in ((f"/jobs/{NS}/one", 403), ("/jobs?after=never", 422)):
            found, text = await site.get(path)
            assert found == status, path
            assert '<span class="user" title="The person whose rights count">ben</span>' in text


async def test_every_error_has_a_fix() -> None:
    async with stage(whole=True) as site:
        await logged_in(site)
        for path, status, fix in (
            ("/nothing", 404, "Check the address."),
            ("/clusters/none", 404, "It may have been deleted, or its name is misspelled."),
        ):
            assert (await site.get(path))[0] == status
            assert fix in (await site.get(path))[1], path
    assert "report it" in _fault().fix


async def test_a_page_is_sent_again_only_if_it_changed(site: Stage) -> None:
    async with site.client.get("/names") as first:
        tag, text = first.headers["ETag"], await first.text()
        assert first.headers["Cache-Control"] == "private, no-cache"
    assert f'id="live" hidden data-tag="{tag.replace(chr(34), "&#34;")}"' in text, "an open tab asks with it"
    again = {"If-None-Match": tag}
    async with site.client.get("/names", headers=again) as second:
        assert (second.status, await second.text()) == (304, "")
        assert second.headers["ETag"] == tag
    site.job("new")
    await until(lambda: site.caches.revision([FOURNOS_JOB]) == (1,))
    assert (await site.get("/names", headers=again))[0] == 200


async def test_many_open_tabs_cost_one_rendering_until_something_changes() -> None:
    rendered = 0

    async def gather(call: Call) -> dict[str, Any]:
        nonlocal rendered
        rendered += 1
        return dict(await NAMES.gather(call))

    async with stage(pages=[FLEET, replace(NAMES, gather=gather)]) as site:
        await logged_in(site)
        site.may("ben", *ADMIN)
        await site.get("/names")  # from then on the rights that it asks for are known
        rendered, tags = 0, {}
        for user in ("ann", "ben"):
            await site.login(f"t-{user}")
            async with site.client.get("/names") as first:
                tags[user] = first.headers["ETag"]
            for _ in range(20):
                assert (await site.get("/names", headers={"If-None-Match": tags[user]}))[0] == 304
        assert rendered <= 1, "a page of persons with the same rights is rendered once"
        site.job("new")
        await until(lambda: site.caches.revision([FOURNOS_JOB]) == (1,))
        assert "new" in (await site.get("/names", headers={"If-None-Match": tags["ben"]}))[1]
        rendered = 0
        await site.post("/act/x", {})
        await site.get("/names")
        assert rendered == 1, "after a write"
        site.clock.at += 31
        await site.get("/names")
        assert rendered == 2, "what no watch reports"


async def test_an_open_tab_does_not_keep_what_its_person_may_no_longer_read(site: Stage) -> None:
    site.job("secret")
    await until(lambda: site.caches.revision([FOURNOS_JOB]) == (1,))
    assert "secret" in (await site.get("/names"))[1]
    site.cluster.rights.clear()
    site.clock.at += 31
    status, text = await site.get("/names")
    assert status == 403 and "secret" not in text


async def test_another_person_has_another_tag(site: Stage) -> None:
    """A browser must not show a kept page with another person's name."""
    async with site.client.get("/names") as first:
        tag = first.headers["ETag"]
    await logged_in(site, user="ben")
    assert (await site.get("/names", headers={"If-None-Match": tag}))[0] == 200


async def test_a_notice_is_shown_once(site: Stage) -> None:
    await site.post("/act/x", {})
    assert "It is done." in (await site.get("/names"))[1]
    assert "It is done." not in (await site.get("/names"))[1]


# --- whose request it is -------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("headers", "status"),
    [
        ({}, 403),
        ({"Sec-Fetch-Site": "same-origin"}, 303),
        ({"Sec-Fetch-Site": "none"}, 303),
        ({"Sec-Fetch-Site": ""}, 403),
        ({"Sec-Fetch-Site": "cross-site"}, 403),
        ({"Sec-Fetch-Site": "same-site"}, 403),
        ({"Origin": "https://evil.example.com"}, 403),
        ({"Origin": "null"}, 403),
        ({"Origin": "http://[evil"}, 403),
        ({"Origin": ""}, 403),
        ({"Origin": "OWN"}, 303),
        ({"Origin": "OWN", "Sec-Fetch-Site": "cross-site"}, 403),
    ],
)
async def test_a_write_of_another_site_is_refused(site: Stage, headers: dict[str, str], status: int) -> None:
    own = str(site.client.make_url("")).rstrip("/")
    given = {name: own if value == "OWN" else value for name, value in headers.items()}
    assert (await site.post("/act/x", {}, headers=given)).status == status
    assert len(site.done) == (status == 303)


async def test_behind_a_proxy_that_replaces_the_host_the_public_address_counts() -> None:
    async with stage(hosts=frozenset({"fournos.example.com"})) as site:
        await logged_in(site)
        headers = {"Host": "fournos.example.com", "Origin": "https://fournos.example.com"}
        assert (await site.post("/act/x", {}, headers=headers)).status == 303
        headers["Origin"] = "https://evil.example.com"
        assert (await site.post("/act/x", {}, headers=headers)).status == 403


async def test_the_host_is_checked_before_everything_else() -> None:
    async with stage(hosts=frozenset({"fournos.example.com"})) as site:
        await logged_in(site)
        for path in ("/", "/static/x/app.js", "/none"):
            assert (await site.get(path))[0] == 421, path
        assert (await site.post("/act/x", {})).status == 421
        assert site.cluster.reviews == []


async def test_a_write_is_a_post(site: Stage) -> None:
    for method in ("GET", "HEAD", "PUT", "DELETE", "PATCH", "OPTIONS"):
        async with site.client.request(method, "/act/x", headers=OWN) as answer:
            assert answer.status == 405, method
    assert site.done == []


# --- hostile content -----------------------------------------------------------------------------------


async def test_markup_and_control_characters_in_objects_are_text(site: Stage) -> None:
    site.job("a", owner=NASTY, displayName=NASTY)
    await until(lambda: site.caches.revision([FOURNOS_JOB]) == (1,))
    for path in ("/", "/names"):
        status, text = await site.get(path)
        assert status == 200
        assert "<script>alert" not in text and "<img" not in text
        assert "60481729" not in text.split("<main")[1], "the template of a name was evaluated"
    assert "&lt;script&gt;" in (await site.get("/"))[1]


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
async def test_tricks_with_paths_find_nothing(site: Stage, path: str) -> None:
    url = URL(f"http://127.0.0.1:{site.client.port}{path}", encoded=True)
    async with site.client.session.get(url, allow_redirects=False) as answer:
        assert answer.status in (404, 405), path
        assert "root:" not in await answer.text()


async def test_an_error_page_repeats_no_markup_of_the_address(site: Stage) -> None:
    status, text = await site.get("/%3Cscript%3Ealert(1)%3C/script%3E")
    assert status == 404 and "<script>alert" not in text


async def test_a_notice_of_another_s_making_is_text(site: Stage) -> None:
    kept = site.client.session.cookie_jar.filter_cookies(site.client.make_url("/"))
    cookie = "; ".join(f"{one.key}={one.value}" for one in kept.values())
    forged = f"{cookie}; fournos-notice=%3Cscript%3Ealert(1)%3C/script%3E" + "x" * 3000
    _, text = await site.get("/names", headers={"Cookie": forged})
    assert "<script>alert" not in text and "&lt;script&gt;" in text and "x" * 400 not in text


@pytest.mark.parametrize(
    ("command", "namespace", "found"),
    [
        ("fournos queue{jobs}", "perf", "fournos queue -n perf"),
        ("fournos queue{jobs}", "", "fournos queue"),
        ("fournos list{all_jobs}", "perf", "fournos list -n perf"),
        ("fournos list{all_jobs}", "", "fournos list -A"),
        ("fournos get {name} -n {namespace}", "", "fournos get 'a; rm -rf /' -n perf"),
    ],
)
def test_a_command_to_copy_names_the_namespace_of_the_page_and_quotes_what_an_address_holds(
    command: str, namespace: str, found: str
) -> None:
    """Whatever namespace the kubeconfig of the terminal has."""
    path = {"name": "a; rm -rf /", "namespace": "perf"}
    assert _command(replace(NAMES, command=command), path, namespace) == found


def test_every_command_of_a_page_begins_with_the_program() -> None:
    path = {"namespace": "perf", "name": "a"}
    found = [_command(page, path, "perf") for page in PAGES if page.command]
    assert len(found) >= 8
    for command in found:
        assert command.startswith("fournos ") and "{" not in command and "  " not in command


# --- Forms as bodies of requests: what is read, and that a hostile one costs little and is not ----


async def status(site: Stage, body: bytes, kind: str = FORM, **headers: str) -> int:
    given = {"Content-Type": kind, "Sec-Fetch-Site": "same-origin", **headers}
    async with site.client.post(
        "/act/x", data=io.BytesIO(body), headers=given, allow_redirects=False
    ) as answer:
        return answer.status


async def test_the_last_field_of_a_name_counts_and_what_is_no_utf_8_is_replaced(site: Stage) -> None:
    assert await status(site, b"a=1&a=2&b=&c=%C3%A9+%FF") == 303
    assert site.done == [("ann", {"a": "2", "b": "", "c": "é \ufffd"})]


@pytest.mark.parametrize("charset", ["nonsense", "utf-7", "base64", "utf-16", '"', "idna"])
async def test_a_charset_is_not_obeyed(site: Stage, charset: str) -> None:
    assert await status(site, b"a=+ADw-", f"{FORM}; charset={charset}") == 303
    assert site.done == [("ann", {"a": " ADw-"})]


PART = b'--x\r\nContent-Disposition: form-data; name="a"; filename="f"\r\n\r\nb\r\n--x--\r\n'


@pytest.mark.parametrize(
    ("body", "kind", "headers", "expected"),
    [
        (b"a&" * (requests.FIELDS + 1), FORM, {}, {400}),
        (b"a=\xff", FORM, {}, {400}),
        (b"a=" + b"x" * LARGEST, FORM, {}, {413}),
        # No form of the page has files, and aiohttp writes those of a request to the disk.
        (PART, "multipart/form-data; boundary=x", {}, {400}),
        (b"a=b", "text/plain", {}, {400}),
        (gzip.compress(b"a=" + b"x" * 2**26), FORM, {"Content-Encoding": "gzip"}, {400, 403}),
    ],
    ids=["many fields", "no UTF-8", "large", "in parts", "of another kind", "packed"],
)
async def test_a_form_that_is_none_is_refused(
    site: Stage, body: bytes, kind: str, headers: dict[str, str], expected: set[int]
) -> None:
    assert await status(site, body, kind, **headers) in expected
    assert site.done == []


async def raw(site: Stage, head: str, body: bytes = b"") -> bytes:
    """The first bytes of the answer to a request that is not finished."""
    reader, writer = await asyncio.open_connection("127.0.0.1", site.client.port)
    with closing(writer):
        given = f"Host: a\r\nSec-Fetch-Site: same-origin\r\nContent-Type: {FORM}\r\n"
        writer.write(f"{head}\r\n{given}".encode() + body)
        async with asyncio.timeout(120):
            return await reader.read(2**16)


@pytest.mark.parametrize(
    ("rest", "answers"),
    [
        (b"Content-Length: 100\r\n\r\na=", (b"HTTP/1.1 408 ",)),
        (b"Transfer-Encoding: chunked\r\n\r\nzz\r\n", (b"HTTP/1.1 400 ", b"HTTP/1.0 400 ")),
    ],
    ids=["it does not arrive", "broken"],
)
async def test_a_body_that_does_not_end_is_refused(
    site: Stage, rest: bytes, answers: tuple[bytes, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(requests, "SLOW", 0.1)
    found = await raw(site, f"POST /act/x HTTP/1.1\r\n{HEADER_OF}: t-ann", rest)
    assert found.startswith(answers)


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


# --- Files that are sent: how many at once, and to readers that take nothing ----------------------


def test_downloads_are_limited_for_each_person_and_in_all() -> None:
    found = Sending(most=EACH + 1)
    with ExitStack() as open_:
        for _ in range(EACH):
            open_.enter_context(found.counted("ann"))
        with pytest.raises(PageError) as caught, found.counted("ann"):
            pass
        assert caught.value.status == 503 and int(caught.value.headers["Retry-After"]) > 0
        with found.counted("ben"), pytest.raises(PageError), found.counted("cho"):
            pass
        with found.counted("cho"):  # ben's has ended
            pass


async def test_a_reader_that_takes_nothing_is_cut_off_and_holds_little(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(requests, "_SLOW", 0.2)
    sent, ended = 0, asyncio.Event()

    async def pieces() -> AsyncIterator[bytes]:
        nonlocal sent
        try:
            while True:
                sent += 1
                yield b"x" * 2**16
        finally:
            ended.set()

    async def serve(request: web.Request) -> web.StreamResponse:
        return await Sending(most=1).send(request, Content(pieces(), "log.txt"))

    app = web.Application()
    app.router.add_get("/", serve)
    async with TestClient(TestServer(app)) as client:
        _, writer = await asyncio.open_connection("127.0.0.1", client.port)
        writer.write(b"GET / HTTP/1.1\r\nHost: a\r\n\r\n")

        async def cut() -> bool:
            return ended.is_set()

        await until(cut, "the reader is still served")
        writer.close()
    assert sent < 2**10, "more than the buffers of a connection was read ahead"


# --- After a write: the next page waits for the watched objects, and not for ever -----------------


pytestmark = pytest.mark.looptime
SOON = PATIENCE / 4


async def seconds(caches: ObjectCaches, written: Written) -> float:
    """How long it waits."""
    began = asyncio.get_running_loop().time()
    await arrived(caches, written)
    return asyncio.get_running_loop().time() - began


async def test_a_page_follows_its_write() -> None:
    api = Api()
    async with ObjectCaches(api, {FOURNOS_JOB: ""}) as caches:
        made = await api.create(FOURNOS_JOB, {"metadata": {"name": "one", "namespace": WORLD}, "spec": SPEC})
        assert await seconds(caches, Written(FOURNOS_JOB, made)) < SOON
        assert (await caches.get(FOURNOS_JOB, Key(WORLD, "one")))["spec"] == SPEC
        changed = await api.patch(FOURNOS_JOB, Key(WORLD, "one"), {"spec": {"owner": "ben"}})
        assert await seconds(caches, Written(FOURNOS_JOB, changed)) < SOON
        assert (await caches.get(FOURNOS_JOB, Key(WORLD, "one")))["spec"]["owner"] == "ben"
        await api.delete(FOURNOS_JOB, Key(WORLD, "one"))
        assert await seconds(caches, Written(FOURNOS_JOB, made, deleted=True)) < SOON
        assert not (await caches.list(FOURNOS_JOB)).items


async def test_a_job_that_is_being_deleted_counts_as_deleted() -> None:
    api = Api()
    meta = {"name": "one", "namespace": WORLD, "finalizers": ["fournos.dev/cleanup"]}
    async with ObjectCaches(api, {FOURNOS_JOB: ""}) as caches:
        made = await api.create(FOURNOS_JOB, {"metadata": meta, "spec": SPEC})
        await api.delete(FOURNOS_JOB, Key(WORLD, "one"))
        assert await seconds(caches, Written(FOURNOS_JOB, made, deleted=True)) < SOON


async def test_what_is_not_watched_is_not_waited_for() -> None:
    api = Api()
    async with ObjectCaches(api, {FOURNOS_JOB: ""}) as caches:
        body = {"metadata": {"name": "c", "namespace": "hearth", "resourceVersion": "9"}}
        assert await seconds(caches, Written(FOURNOS_CLUSTER, body)) == 0


async def test_a_broken_watch_does_not_hold_up_the_page() -> None:
    api = Api()
    async with ObjectCaches(api, {FOURNOS_JOB: ""}) as caches:
        body = {"metadata": {"name": "one", "namespace": WORLD, "resourceVersion": "99999"}}
        assert await seconds(caches, Written(FOURNOS_JOB, body)) == pytest.approx(PATIENCE, abs=0.1)


# --- Answers that cost requests are asked for once, and again when they are old -------------------


class Asked:
    def __init__(self) -> None:
        self.times = 0
        self.error: Exception | None = None

    async def __call__(self) -> int:
        self.times += 1
        await asyncio.sleep(0)
        if self.error:
            raise self.error
        return self.times


async def test_an_answer_is_kept_and_asked_for_once() -> None:
    memo, ask = Memo(), Asked()
    assert await asyncio.gather(*(memo.get("a", 60, ask) for _ in range(3))) == [1, 1, 1]
    assert await memo.get("b", 60, ask) == 2


async def test_an_old_answer_is_asked_for_again() -> None:
    memo, ask = Memo(), Asked()
    assert [await memo.get("a", -1, ask) for _ in range(2)] == [1, 2]


async def test_an_error_is_not_kept_and_no_caller_stops_the_others() -> None:
    memo, ask = Memo(), Asked()
    ask.error = ValueError("away")
    with pytest.raises(ValueError, match="away"):
        await memo.get("a", 60, ask)
    ask.error = None
    first = asyncio.create_task(memo.get("a", 60, ask))
    await asyncio.sleep(0)
    first.cancel()
    assert await memo.get("a", 60, ask) == 2


async def test_the_least_recently_used_answer_goes_first() -> None:
    memo, ask = Memo(most=2), Asked()
    for key in ("a", "b", "a", "c"):
        await memo.get(key, 60, ask)
    assert await memo.get("a", 60, ask) == 1
    assert await memo.get("b", 60, ask) == 4


# --- A page is rendered once for all who have the same rights, until an object changes ------------


async def test_persons_with_other_rights_are_shown_other_pages() -> None:
    async with stage() as site:
        site.may("ann", *ADMIN)
        site.may("ben", ("list", "fournosjobs", NS), ("get", "fournosjobs", NS))
        site.job("shared")
        site.job("secret", "other")
        await until(lambda: site.caches.revision([FOURNOS_JOB]) == (2,))
        for user, shown in (("ann", True), ("ben", False), ("ann", True)):
            await site.login(f"t-{user}")
            _, text = await site.get("/names")
            assert "shared" in text and ("secret" in text) == shown, user


async def test_a_right_that_changes_while_a_page_is_rendered_is_not_shown_to_others() -> None:
    async def gather(call: Call) -> dict[str, Any]:
        data = dict(await NAMES.gather(call))
        if call.viewer.name == "ann":  # of less rights when the page is ready
            site.cluster.rights = {("ann", "list", "fournosjobs", NS)} | rights
            site.clock.at += 61
        return data

    async with stage(pages=[FLEET, replace(NAMES, gather=gather)]) as site:
        rights = {("ben", "*", "*", "")}
        site.cluster.rights = rights | {("ann", "*", "*", "")}
        site.job("shared")
        site.job("secret", "other")
        await until(lambda: site.caches.revision([FOURNOS_JOB]) == (2,))
        await site.login("t-ann")
        _, text = await site.get("/names")
        assert "shared" in text and "secret" not in text
