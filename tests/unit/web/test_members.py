"""Who a request comes from, and how people log in and out."""

from __future__ import annotations

import asyncio
import secrets

import pytest
from aiohttp import web
from cryptography.fernet import Fernet

from fournos.engine.kube.resource import SECRET, TOKEN_REVIEW
from fournos.web.identity.members import Ways
from fournos.web.identity.sessions import Cookies, Sealer, Session
from tests.unit.web.stage import ADMIN, HEADER, SECRET_KEY, stage
from tests.waiting import until


async def test_without_a_session_there_is_the_login_page() -> None:
    async with stage() as site:
        status, text = await site.get("/?queue=a")
        assert status == 401
        assert '<input type="hidden" name="next" value="/?queue=a">' in text
        assert "<nav" not in text
        assert await site.get("/login") == (200, (await site.get("/login"))[1])
        assert site.cluster.reviews == []


async def test_a_token_makes_a_session() -> None:
    async with stage() as site:
        site.may("ann", *ADMIN)
        answer = await site.login()
        assert (answer.status, answer.headers["Location"]) == (303, "/")
        cookie = answer.headers["Set-Cookie"]
        assert "HttpOnly" in cookie and "SameSite=Lax" in cookie and "Path=/" in cookie
        assert "t-ann" not in cookie
        status, text = await site.get("/")
        assert status == 200
        assert ">ann</span>" in text and "Log out" in text
        assert site.cluster.bearers == ["t-ann"]


async def test_cookies_of_a_cluster_are_for_https_and_this_host_alone() -> None:
    session = Session("t", "c", 100.0, "token")
    response = Cookies().write(web.Response(), Sealer([Fernet.generate_key()]), session, 0.0)
    cookie = response.cookies["__Host-fournos"]
    assert cookie["secure"] and cookie["httponly"] and cookie["samesite"] == "Lax"
    assert cookie["path"] == "/" and not cookie["domain"]


async def test_an_invalid_token_is_refused_with_that_reason() -> None:
    async with stage() as site:
        answer = await site.login("stranger")
        assert answer.status == 401
        assert "This token is not valid in this cluster." in await answer.text()
        assert "Set-Cookie" not in answer.headers
        again = await site.post("/login", {"token": "stranger", "next": "/jobs?owner=ann"})
        assert 'name="next" value="/jobs?owner=ann"' in await again.text()
        for odd in ("", "a b\nc", "é", "x" * 20_000):
            before = len(site.cluster.of(TOKEN_REVIEW))
            assert (await site.login(odd)).status == 401
            assert len(site.cluster.of(TOKEN_REVIEW)) == before + (odd == "")


async def test_logins_of_one_address_are_limited_before_they_are_reviewed() -> None:
    async with stage() as site:
        statuses = [(await site.login(f"guess-{number}")).status for number in range(30)]
        assert statuses == [401] * 20 + [429] * 10
        assert len(site.cluster.of(TOKEN_REVIEW)) == 20
        assert (await site.login("guess")).headers["Retry-After"] == "2"
        site.clock.at += 2
        assert (await site.login()).status == 303


async def test_a_client_behind_a_proxy_cannot_choose_its_address() -> None:
    """Each proxy adds the address that it sees to what the client wrote."""
    async with stage(Ways(proxies=1)) as site:
        statuses = []
        for number in range(30):
            headers = {"X-Forwarded-For": f"10.0.0.{number}, 192.0.2.7"}
            statuses.append((await site.login("guess", headers=headers)).status)
        assert statuses.count(429) == 10
        other = await site.login("guess", headers={"X-Forwarded-For": "192.0.2.7, 192.0.2.8"})
        assert other.status == 401
        neighbours = [f"2001:db8::{number:x}" for number in range(30)]
        statuses = [
            (await site.login("guess", headers={"X-Forwarded-For": one})).status for one in neighbours
        ]
        assert statuses.count(429) == 10, "one client has all addresses of such a network"
    async with stage() as site:
        statuses = [
            (await site.login("guess", headers={"X-Forwarded-For": f"10.0.0.{number}"})).status
            for number in range(30)
        ]
        assert statuses.count(429) == 10


async def test_a_flood_of_tokens_does_not_reach_the_api_server() -> None:
    async with stage(Ways(proxy_header=HEADER)) as site:
        site.cluster.hold = asyncio.Event()
        asked = [
            asyncio.create_task(site.get("/", headers={HEADER: f"guess-{number}"})) for number in range(40)
        ]
        await until(lambda: sum(task.done() for task in asked) == 32)
        site.cluster.hold.set()
        statuses = [status for status, _ in await asyncio.gather(*asked)]
        assert (statuses.count(429), statuses.count(401)) == (32, 8)
        assert len(site.cluster.of(TOKEN_REVIEW)) == 8


async def test_a_session_ends() -> None:
    async with stage() as site:
        site.may("ann", *ADMIN)
        await site.login()
        site.clock.at += 8 * 3600 - 1
        assert (await site.get("/"))[0] == 200
        site.clock.at += 2
        status, text = await site.get("/")
        assert status == 401 and "Your session has ended." in text


async def test_a_token_that_was_withdrawn_ends_the_session_within_a_minute() -> None:
    async with stage() as site:
        site.may("ann", *ADMIN)
        await site.login()
        del site.cluster.users["t-ann"]
        site.clock.at += 61
        status, text = await site.get("/")
        assert status == 401 and "Your token has ended." in text


async def test_log_out() -> None:
    async with stage() as site:
        site.may("ann", *ADMIN)
        await site.login()
        csrf = await site.csrf()
        assert (await site.post("/logout", {"csrf": "forged"})).status == 403
        assert (await site.get("/"))[0] == 200
        answer = await site.post("/logout", {"csrf": csrf})
        assert (answer.status, answer.headers["Location"]) == (303, "/login")
        assert (await site.get("/"))[0] == 401
        assert (await site.post("/logout", {})).status == 303  # twice is not an error


async def test_a_cookie_that_was_copied_is_no_session_after_the_log_out() -> None:
    async with stage() as site:
        site.may("ann", *ADMIN)
        cookie = {"Cookie": (await site.login()).headers["Set-Cookie"].split(";")[0]}
        csrf = await site.csrf()
        assert (await site.post("/logout", {"csrf": csrf})).status == 303
        assert (await site.get("/", headers=cookie))[0] == 401
        await site.login()
        assert (await site.get("/"))[0] == 200


@pytest.mark.parametrize(
    ("asked", "leads"),
    [
        ("/queue?queue=a", "/queue?queue=a"),
        ("//evil.example.com", "/"),
        ("https://evil.example.com/", "/"),
        ("/\\evil.example.com", "/"),
        ("javascript:alert(1)", "/"),
        ("/a\r\nSet-Cookie: x=y", "/"),
        ("/[", "/["),
        ("", "/"),
    ],
)
async def test_a_login_leads_to_a_page_of_ours_alone(asked: str, leads: str) -> None:
    async with stage() as site:
        answer = await site.post("/login", {"token": "t-ann", "next": asked})
        assert answer.headers["Location"] == leads


async def test_forged_cookies_are_no_session() -> None:
    async with stage() as site:
        for forged in ("x", "gAAAAA" + "A" * 200, "\udcff"[:0] + "é", "." * 3000):
            status, _ = await site.get("/", headers={"Cookie": f"fournos={forged}"})
            assert status == 401
        attempt = site.keys.sealer().seal("attempt", {"token": "t-ann"})
        assert (await site.get("/", headers={"Cookie": f"fournos={attempt}"}))[0] == 401


async def test_a_long_token_takes_several_cookies() -> None:
    async with stage() as site:
        long = secrets.token_urlsafe(6000)[:7000]
        site.cluster.users[long] = "ann"
        site.may("ann", *ADMIN)
        answer = await site.login(long)
        assert len(answer.headers.getall("Set-Cookie")) == 3
        assert (await site.get("/"))[0] == 200
        await site.login("t-ann")  # a short one replaces all of them
        _, text = await site.get("/")
        assert ">ann</span>" in text


async def test_one_key_for_all_replicas() -> None:
    async with stage() as one, stage() as other:
        secret = one.server.get(SECRET, SECRET_KEY)
        other.server.delete(SECRET, SECRET_KEY)
        other.server.create(SECRET, secret)
        await other.keys.look()
        answer = await one.login()
        cookie = answer.headers["Set-Cookie"].split(";")[0]
        other.may("ann", *ADMIN)
        assert (await other.get("/", headers={"Cookie": cookie}))[0] == 200


# --- behind a proxy ----------------------------------------------------------------------------------


async def test_the_header_of_a_proxy_counts_only_where_it_is_configured() -> None:
    async with stage() as site:
        site.may("ann", *ADMIN)
        assert (await site.get("/", headers={HEADER: "t-ann"}))[0] == 401
    async with stage(Ways(proxy_header=HEADER, by_token=False)) as site:
        site.may("ann", *ADMIN)
        status, text = await site.get("/", headers={HEADER: "t-ann"})
        assert status == 200 and ">ann</span>" in text and "Log out" not in text
        status, text = await site.get("/")
        assert status == 401 and "A proxy in front of this page logs people in" in text
        assert (await site.login()).status == 405


async def test_a_form_behind_a_proxy_has_a_token_of_the_person() -> None:
    async with stage(Ways(proxy_header=HEADER)) as site:
        site.may("ann", *ADMIN)
        site.may("ben", *ADMIN)
        tokens = []
        for token in ("t-ann", "t-ann", "t-ben"):
            _, text = await site.get("/names", headers={HEADER: token})
            tokens.append(text.partition('name="csrf" value="')[2].partition('"')[0])
        assert tokens[0] == tokens[1] != tokens[2]
        answer = await site.post("/act/x", {"csrf": tokens[2]}, headers={HEADER: "t-ann"})
        assert answer.status == 403
        answer = await site.post("/act/x", {"csrf": tokens[0]}, headers={HEADER: "t-ann"})
        assert answer.status == 303 and site.done == [("ann", {})]
