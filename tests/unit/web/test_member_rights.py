"""What people who have logged in may see and do, and how much of it."""

from __future__ import annotations

import logging

import pytest

from fournos.api.kinds import FOURNOS_JOB
from fournos.engine.kube.errors import ConnectionLostError
from fournos.engine.kube.resource import SELF_SUBJECT_RULES_REVIEW, SUBJECT_ACCESS_REVIEW
from fournos.engine.queueing.workload import LOCAL_QUEUE
from tests.unit.web.stage import ADMIN, HEADER, NS, stage
from tests.waiting import until


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
    async with stage() as site:
        site.job("a")
        site.may("ann", *ADMIN)
        site.may("ben", ("list", "*", ""), ("get", "*", ""))
        _, first = await site.get("/names", headers={HEADER: "t-ann"})
        _, second = await site.get("/names", headers={HEADER: "t-ben"})
        assert '<form method="post">' in first
        assert '<form method="post">' not in second


# --- writes ------------------------------------------------------------------------------------------


async def test_a_write_leaves_an_audit_line(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async with stage() as site:
        site.may("ann", *ADMIN)
        await site.login()
        with caplog.at_level(logging.INFO, "fournos.web.server.audit"):
            assert (await site.post("/act/x", {}, headers={"Sec-Fetch-Site": "cross-site"})).status == 403
            assert site.done == [] and not caplog.messages
            answer = await site.post("/act/x%0Ay", {"reason": "why"})
            assert (answer.status, answer.headers["Location"]) == (303, "/")
            assert site.done == [("ann", {"reason": "why"})]
            assert (await site.post("/act/x", {"fail": "409"})).status == 502
        assert caplog.messages == [
            "act by 'ann': '/act/x\\ny': done",
            "act by 'ann': '/act/x': refused with 502",
        ]


async def test_writes_of_a_person_are_limited() -> None:
    async with stage() as site:
        site.may("ann", *ADMIN)
        await site.login()
        statuses = [(await site.post("/act/x", {})).status for _ in range(35)]
        assert statuses == [303] * 30 + [429] * 5


async def test_reads_of_a_person_are_limited_whatever_the_number_of_sessions() -> None:
    async with stage() as site:
        site.may("ann", *ADMIN)
        site.may("ben", *ADMIN)
        site.cluster.users["t-ann-2"] = "ann"
        tokens = ["t-ann", "t-ann-2"] * 101
        statuses = [(await site.get("/names", headers={HEADER: token}))[0] for token in tokens]
        assert statuses.count(200) == 200
        assert (await site.get("/names", headers={HEADER: "t-ben"}))[0] == 200
