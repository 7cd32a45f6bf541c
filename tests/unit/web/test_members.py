"""Who a request comes from, how people log in and out, and what they may see."""

from __future__ import annotations

import asyncio
import logging
import secrets

import pytest
from aiohttp import web
from cryptography.fernet import Fernet

from fournos.api.kinds import FOURNOS_JOB
from fournos.engine.kube.errors import ConnectionLostError
from fournos.engine.kube.kinds import SECRET, SELF_SUBJECT_RULES_REVIEW, SUBJECT_ACCESS_REVIEW, TOKEN_REVIEW
from fournos.engine.queueing.kinds import LOCAL_QUEUE
from fournos.web.identity.members import Ways
from fournos.web.identity.sessions import Cookies, Sealer, Session
from tests.unit.web.stage import ADMIN, NS, SECRET_KEY, stage
from tests.waiting import until

HEADER = "X-Forwarded-Access-Token"


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


# --- rights ------------------------------------------------------------------------------------------


async def test_a_person_sees_what_the_api_server_allows() -> None:
    async with stage() as site:
        site.job("mine", NS)
        site.job("foreign", "other")
        site.may("ann", ("list", "fournosjobs", NS))
        await site.login()
        await until(lambda: site.caches.revision([FOURNOS_JOB]) == (2,))
        status, text = await site.get("/names")
        assert status == 200
        assert "mine" in text and "foreign" not in text and "other" not in text


async def test_nothing_is_looked_up_without_a_right() -> None:
    async with stage() as site:
        site.job("foreign", "other")
        await site.login()
        status, text = await site.get("/names")
        assert status == 403
        assert "foreign" not in text and "other" not in text
        assert "you may not list fournosjobs in any namespace" in text


async def test_a_namespace_without_jobs_is_empty_and_no_denial() -> None:
    async with stage() as site:
        site.job("foreign", "other")
        site.server.create(LOCAL_QUEUE, {"metadata": {"name": "queue", "namespace": NS}})
        site.may("ann", ("list", "fournosjobs", NS))
        await site.login()
        await until(lambda: site.caches.revision([FOURNOS_JOB, LOCAL_QUEUE]) == (1, 1))
        status, text = await site.get("/names")
        assert status == 200 and "foreign" not in text


async def test_an_api_server_that_is_away_is_no_denial() -> None:
    async with stage() as site:
        site.may("ann", *ADMIN)
        await site.login()
        site.cluster.error = ConnectionLostError("connection refused")
        status, text = await site.get("/names")
        assert status == 503 and "The API server does not answer" in text


async def test_where_there_is_nothing_a_person_without_rights_sees_nothing() -> None:
    """A person who may read a namespace without jobs gets an empty page, too, and no denial."""
    async with stage() as site:
        await site.login()
        assert (await site.get("/names"))[0] == 200


async def test_rights_are_kept_for_half_a_minute_and_denials_for_five_seconds() -> None:
    async with stage() as site:
        site.job("one", "team")
        await site.login()
        assert (await site.get("/names"))[0] == 403
        site.may("ann", *ADMIN)
        assert (await site.get("/names"))[0] == 403
        site.clock.at += 6
        assert (await site.get("/names"))[0] == 200
        asked = len(site.cluster.of(SUBJECT_ACCESS_REVIEW))
        site.cluster.rights.clear()
        assert (await site.get("/names"))[0] == 200
        assert len(site.cluster.of(SUBJECT_ACCESS_REVIEW)) == asked
        site.clock.at += 31
        assert (await site.get("/names"))[0] == 403


async def test_a_person_of_many_namespaces_costs_one_request_for_each() -> None:
    """Not one for each kind, verb and namespace, and none again for half a minute."""
    async with stage() as site:
        for number in range(60):
            site.job("a", f"team-{number}")
        site.may("ann", ("list", "fournosjobs", "team-7"))
        await site.login()
        await until(lambda: site.caches.revision([FOURNOS_JOB]) == (60,))
        for path in ("/names", "/", "/names"):
            assert (await site.get(path))[0] == 200
        asked = [obj["spec"]["namespace"] for obj in site.cluster.of(SELF_SUBJECT_RULES_REVIEW)]
        assert len(asked) == len(set(asked)) and len({f"team-{n}" for n in range(60)} & set(asked)) == 60
        assert site.cluster.reviewed_namespaces() == []


async def test_where_no_rules_are_listed_each_right_is_reviewed_and_denials_are_kept() -> None:
    async with stage() as site:
        site.cluster.incomplete = True
        for number in range(60):
            site.job("a", f"team-{number}")
        site.may("ann", ("list", "fournosjobs", "team-7"))
        await site.login()
        await until(lambda: site.caches.revision([FOURNOS_JOB]) == (60,))
        assert (await site.get("/names"))[0] == 200
        asked = site.cluster.reviewed_namespaces()
        assert len(set(asked)) == 61  # and that of the form's right
        site.clock.at += 29
        assert (await site.get("/names"))[0] == 200
        assert site.cluster.reviewed_namespaces() == asked


async def test_the_review_has_the_whole_user() -> None:
    async with stage() as site:
        site.cluster.groups["ann"] = ["team", "system:authenticated"]
        site.may("team", *ADMIN)
        await site.login()
        assert (await site.get("/names"))[0] == 200
        spec = site.cluster.of(SUBJECT_ACCESS_REVIEW)[0]["spec"]
        assert (spec["user"], spec["groups"]) == ("ann", ["team", "system:authenticated"])


async def test_what_a_person_may_do_is_not_shown_to_another() -> None:
    """Both see the same objects; only one has the button."""
    async with stage(Ways(proxy_header=HEADER)) as site:
        site.job("a")
        site.may("ann", *ADMIN)
        site.may("ben", ("list", "*", ""), ("get", "*", ""))
        _, first = await site.get("/names", headers={HEADER: "t-ann"})
        _, second = await site.get("/names", headers={HEADER: "t-ben"})
        assert '<form method="post">' in first
        assert '<form method="post">' not in second


# --- writes ------------------------------------------------------------------------------------------


async def test_a_write_needs_the_token_of_the_form_and_leaves_an_audit_line(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async with stage() as site:
        site.may("ann", *ADMIN)
        await site.login()
        csrf = await site.csrf()
        with caplog.at_level(logging.INFO, "fournos.web.server.audit"):
            assert (await site.post("/act/x", {"csrf": "wrong"})).status == 403
            assert (await site.post("/act/x", {})).status == 403
            assert site.done == [] and not caplog.messages
            answer = await site.post("/act/x%0Ay", {"csrf": csrf, "reason": "why"})
            assert (answer.status, answer.headers["Location"]) == (303, "/")
            assert site.done == [("ann", {"reason": "why"})]
            assert (await site.post("/act/x", {"csrf": csrf, "fail": "409"})).status == 502
        assert caplog.messages == [
            "act by 'ann': '/act/x\\ny': done",
            "act by 'ann': '/act/x': refused with 502",
        ]


async def test_writes_of_a_person_are_limited() -> None:
    async with stage() as site:
        site.may("ann", *ADMIN)
        await site.login()
        csrf = await site.csrf()
        statuses = [(await site.post("/act/x", {"csrf": csrf})).status for _ in range(35)]
        assert statuses == [303] * 30 + [429] * 5


async def test_reads_of_a_person_are_limited_whatever_the_number_of_sessions() -> None:
    async with stage(Ways(proxy_header=HEADER)) as site:
        site.may("ann", *ADMIN)
        site.may("ben", *ADMIN)
        site.cluster.users["t-ann-2"] = "ann"
        tokens = ["t-ann", "t-ann-2"] * 101
        statuses = [(await site.get("/names", headers={HEADER: token}))[0] for token in tokens]
        assert statuses.count(200) == 200
        assert (await site.get("/names", headers={HEADER: "t-ben"}))[0] == 200
