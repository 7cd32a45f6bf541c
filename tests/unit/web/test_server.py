"""The server: the order of its checks, what it caches, and what hostile requests and objects get."""

from __future__ import annotations

import io
import re
from dataclasses import replace
from typing import Any

import pytest
from yarl import URL

from fournos.api.kinds import FOURNOS_JOB
from fournos.web.pages.all_pages import PAGES
from fournos.web.pages.fleet import PAGE as FLEET
from fournos.web.requests import SECURITY
from fournos.web.server import _command, _fault
from fournos.web.site import Call
from tests.unit.web.stage import ADMIN, NAMES, NS, Stage, stage
from tests.waiting import until

OWN = {"Sec-Fetch-Site": "same-origin"}
FORM = "application/x-www-form-urlencoded"
NASTY = '"><script>alert(1)</script><img src=x onerror=alert(1)>{{ 7777*7777 }}{% raw %}\x00\x1b[2J\u202e'


async def logged_in(site: Stage, *, user: str = "ann") -> None:
    site.may(user, *ADMIN)
    await site.login(f"t-{user}")


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


async def test_a_page_is_sent_again_only_if_it_changed() -> None:
    async with stage() as site:
        await logged_in(site)
        async with site.client.get("/names") as first:
            tag = first.headers["ETag"]
            assert first.headers["Cache-Control"] == "private, no-cache"
        again = {"If-None-Match": tag}
        async with site.client.get("/names", headers=again) as second:
            assert (second.status, await second.text()) == (304, "")
            assert second.headers["ETag"] == tag
        site.job("new")
        await until(lambda: site.caches.revision([FOURNOS_JOB]) == (1,))
        assert (await site.get("/names", headers=again))[0] == 200


async def test_an_open_tab_has_the_tag_to_ask_with() -> None:
    async with stage() as site:
        await logged_in(site)
        async with site.client.get("/names") as first:
            tag, text = first.headers["ETag"], await first.text()
        assert f'id="live" hidden data-tag="{tag.replace(chr(34), "&#34;")}"' in text


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


async def test_an_open_tab_does_not_keep_what_its_person_may_no_longer_read() -> None:
    async with stage() as site:
        await logged_in(site)
        site.job("secret")
        await until(lambda: site.caches.revision([FOURNOS_JOB]) == (1,))
        assert "secret" in (await site.get("/names"))[1]
        site.cluster.rights.clear()
        site.clock.at += 31
        status, text = await site.get("/names")
        assert status == 403 and "secret" not in text


async def test_another_person_has_another_tag() -> None:
    """A browser must not show a kept page with another person's name."""
    async with stage() as site:
        await logged_in(site)
        async with site.client.get("/names") as first:
            tag = first.headers["ETag"]
        await logged_in(site, user="ben")
        assert (await site.get("/names", headers={"If-None-Match": tag}))[0] == 200


async def test_a_notice_is_shown_once() -> None:
    async with stage() as site:
        await logged_in(site)
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
async def test_a_write_of_another_site_is_refused(headers: dict[str, str], status: int) -> None:
    async with stage() as site:
        await logged_in(site)
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


async def test_a_write_is_a_post() -> None:
    async with stage() as site:
        await logged_in(site)
        for method in ("GET", "HEAD", "PUT", "DELETE", "PATCH", "OPTIONS"):
            async with site.client.request(method, "/act/x", headers=OWN) as answer:
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
            assert "<script>alert" not in text and "<img" not in text
            assert "60481729" not in text.split("<main")[1], "the template of a name was evaluated"
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


async def test_an_error_page_repeats_no_markup_of_the_address() -> None:
    async with stage() as site:
        await logged_in(site)
        status, text = await site.get("/%3Cscript%3Ealert(1)%3C/script%3E")
        assert status == 404 and "<script>alert" not in text


async def test_forms_of_any_size_and_kind_are_harmless() -> None:
    async with stage() as site:
        await logged_in(site)
        plain, form = {"Content-Type": "text/plain", **OWN}, {"Content-Type": FORM, **OWN}
        large = io.BytesIO(f"a={'x' * 2**21}".encode())
        async with site.client.post("/act/x", data=large, headers=form) as answer:
            assert answer.status == 413
        async with site.client.post("/act/x", data=b"\xff\xfe", headers=plain, allow_redirects=False) as odd:
            assert odd.status == 400
        broken = {"Content-Type": "multipart/form-data; boundary=x", **OWN}
        async with site.client.post("/act/x", data=b"--x\r\n", headers=broken, allow_redirects=False) as odd:
            assert odd.status == 400
        assert site.done == []


async def test_a_notice_of_another_s_making_is_text() -> None:
    async with stage() as site:
        await logged_in(site)
        kept = site.client.session.cookie_jar.filter_cookies(site.client.make_url("/"))
        cookie = "; ".join(f"{one.key}={one.value}" for one in kept.values())
        forged = f"{cookie}; fournos-notice=%3Cscript%3Ealert(1)%3C/script%3E" + "x" * 3000
        _, text = await site.get("/names", headers={"Cookie": forged})
        assert "<script>alert" not in text and "&lt;script&gt;" in text and "x" * 400 not in text


def test_a_command_to_copy_quotes_what_an_address_holds() -> None:
    page = replace(NAMES, command="fournos get {name} -n {namespace}")
    path = {"name": "a; rm -rf /", "namespace": "perf"}
    assert _command(page, path, "") == "fournos get 'a; rm -rf /' -n perf"


@pytest.mark.parametrize(
    ("command", "namespace", "found"),
    [
        ("fournos queue{jobs}", "perf", "fournos queue -n perf"),
        ("fournos queue{jobs}", "", "fournos queue"),
        ("fournos list{all_jobs}", "perf", "fournos list -n perf"),
        ("fournos list{all_jobs}", "", "fournos list -A"),
    ],
)
def test_a_command_to_copy_names_the_namespace_of_the_page(command: str, namespace: str, found: str) -> None:
    """Whatever namespace the kubeconfig of the terminal has."""
    assert _command(replace(NAMES, command=command), {}, namespace) == found


def test_every_command_of_a_page_begins_with_the_program() -> None:
    path = {"namespace": "perf", "name": "a"}
    found = [_command(page, path, "perf") for page in PAGES if page.command]
    assert len(found) >= 8
    for command in found:
        assert command.startswith("fournos ") and "{" not in command and "  " not in command
