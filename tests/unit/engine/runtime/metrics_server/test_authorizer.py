"""Access to /metrics, the number of reviews, and the effect of a flood of tokens."""

from __future__ import annotations

import asyncio
import logging
from typing import Any

import pytest

from fournos.engine.kube.errors import ForbiddenError, KubeError, ServerError
from fournos.engine.kube.kinds import SUBJECT_ACCESS_REVIEW, TOKEN_REVIEW
from fournos.engine.kube.resource import Obj, Resource
from fournos.engine.runtime.client_limits import REVIEWS
from fournos.engine.runtime.metrics_server.authorizer import (
    AT_ONCE,
    KEPT,
    REFUSAL,
    Authorizer,
    ScrapeVerdict,
)
from fournos.engine.runtime.reviews import access_review, allowed, bearer, user_of

PROMETHEUS = {"username": "system:serviceaccount:monitoring:prometheus", "groups": ["a", "b"], "uid": "1"}
LIFETIME = 60.0


class Reviewer:
    """An API server's reviews: users by token, and who may read."""

    def __init__(self) -> None:
        self.now = 0.0
        self.users: dict[str, dict[str, Any]] = {"good": PROMETHEUS, "poor": {"username": "nobody"}}
        self.may = {PROMETHEUS["username"]}
        self.requests: list[tuple[Resource, Obj]] = []
        self.error: KubeError | None = None
        self.open = asyncio.Event()
        self.open.set()

    async def create(self, resource: Resource, obj: Obj, *, dry_run: bool = False) -> Obj:
        assert obj["metadata"] == {}  # the client reads the namespace there
        self.requests.append((resource, obj))
        await self.open.wait()
        if self.error is not None:
            raise self.error
        spec = obj["spec"]
        if resource == TOKEN_REVIEW:
            user = self.users.get(spec["token"])
            return {"status": {"authenticated": True, "user": user} if user else {"error": "no"}}
        return {"status": {"allowed": spec["user"] in self.may}}

    def authorizer(self, lifetime: float = LIFETIME) -> Authorizer:
        return Authorizer(self, monotonic=lambda: self.now, lifetime=lifetime)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("header", "expected"),
    [
        ("", ScrapeVerdict.UNKNOWN),
        ("good", ScrapeVerdict.UNKNOWN),
        ("Basic good", ScrapeVerdict.UNKNOWN),
        ("Bearer", ScrapeVerdict.UNKNOWN),
        ("Bearer strange", ScrapeVerdict.UNKNOWN),
        ("Bearer poor", ScrapeVerdict.FORBIDDEN),
        ("Bearer good", ScrapeVerdict.ALLOWED),
        ("bearer  good ", ScrapeVerdict.ALLOWED),
    ],
)
async def test_only_a_token_with_the_right_gets_in(header: str, expected: ScrapeVerdict) -> None:
    assert await Reviewer().authorizer().authorize(header) is expected


def test_a_token_too_long_to_be_one_is_none() -> None:
    assert bearer("Bearer " + "x" * 20_000) == ""


@pytest.mark.parametrize(
    "status",
    [
        {},
        {"authenticated": False, "user": {"username": "x"}},
        {"authenticated": "yes", "user": {"username": "x"}},
        {"authenticated": True, "user": {}},
    ],
)
def test_only_an_authenticated_name_is_a_user(status: dict[str, Any]) -> None:
    assert user_of({"status": status}) is None


@pytest.mark.parametrize("status", [{}, {"allowed": False}, {"allowed": True, "denied": True}])
def test_what_is_no_clear_permission_is_none(status: dict[str, Any]) -> None:
    assert not allowed({"status": status})


def test_the_whole_user_is_asked_about_and_the_path_alone() -> None:
    user = user_of({"status": {"authenticated": True, "user": {**PROMETHEUS, "extra": {"k": ["v"]}}}})
    assert user is not None
    spec = access_review(user, nonResourceAttributes={"path": "/metrics", "verb": "get"})["spec"]
    assert spec == {
        "user": PROMETHEUS["username"],
        "uid": "1",
        "groups": ["a", "b"],
        "extra": {"k": ["v"]},
        "nonResourceAttributes": {"path": "/metrics", "verb": "get"},
    }


async def test_an_answer_is_kept_for_its_time_and_no_longer() -> None:
    reviewer = Reviewer()
    authorizer = reviewer.authorizer()
    for second in (0.0, 30.0, LIFETIME - 1):
        reviewer.now = second
        assert await authorizer.authorize("Bearer good") is ScrapeVerdict.ALLOWED
    assert [resource for resource, _ in reviewer.requests] == [TOKEN_REVIEW, SUBJECT_ACCESS_REVIEW]
    reviewer.may.clear()
    reviewer.now = LIFETIME
    assert await authorizer.authorize("Bearer good") is ScrapeVerdict.FORBIDDEN
    reviewer.may.add(PROMETHEUS["username"])
    reviewer.now += REFUSAL
    assert await authorizer.authorize("Bearer good") is ScrapeVerdict.ALLOWED


async def test_with_no_lifetime_every_request_is_reviewed() -> None:
    reviewer = Reviewer()
    authorizer = reviewer.authorizer(0.0)
    for _ in range(3):
        await authorizer.authorize("Bearer good")
    assert len(reviewer.requests) == 6


@pytest.mark.parametrize("error", [ForbiddenError("no right", status=403), ServerError("down", status=500)])
async def test_without_an_answer_the_metrics_are_closed_and_nothing_is_kept(
    error: KubeError, caplog: pytest.LogCaptureFixture
) -> None:
    reviewer = Reviewer()
    authorizer = reviewer.authorizer()
    reviewer.error = error
    with caplog.at_level(logging.WARNING):
        for _ in range(3):
            assert await authorizer.authorize("Bearer good") is ScrapeVerdict.UNSURE
    (record,) = caplog.records  # not one a scrape
    assert ("tokenreviews.authentication.k8s.io" in record.message) == isinstance(error, ForbiddenError)
    assert "good" not in caplog.text
    reviewer.error = None
    assert await authorizer.authorize("Bearer good") is ScrapeVerdict.ALLOWED


async def test_a_flood_of_tokens_is_turned_away_and_those_who_may_stay_in() -> None:
    reviewer = Reviewer()
    authorizer = reviewer.authorizer()
    assert await authorizer.authorize("Bearer good") is ScrapeVerdict.ALLOWED
    for number in range(KEPT + 10):
        assert await authorizer.authorize(f"Bearer {number}", address=str(number)) is ScrapeVerdict.UNKNOWN
    assert len(authorizer._kept) == KEPT
    before = len(reviewer.requests)
    reviewer.open.clear()
    flood = [asyncio.create_task(authorizer.authorize(f"Bearer new-{number}")) for number in range(50)]
    await asyncio.sleep(0)
    assert await authorizer.authorize("Bearer good") is ScrapeVerdict.ALLOWED
    reviewer.open.set()
    verdicts = await asyncio.gather(*flood)
    assert verdicts.count(ScrapeVerdict.TOO_MANY) == 50 - AT_ONCE
    assert len(reviewer.requests) == before + AT_ONCE


async def test_a_flood_of_tokens_of_one_address_does_not_shut_out_another() -> None:
    reviewer = Reviewer()
    authorizer = reviewer.authorizer()
    flood = [await authorizer.authorize(f"Bearer {number}", address="10.0.0.9") for number in range(200)]
    assert flood.count(ScrapeVerdict.UNKNOWN) == REVIEWS[1]
    assert await authorizer.authorize("Bearer good", address="10.0.0.7") is ScrapeVerdict.ALLOWED


async def test_a_known_token_is_reviewed_again_during_a_flood_and_an_evicted_one_is_not() -> None:
    reviewer = Reviewer()
    authorizer = reviewer.authorizer()
    assert await authorizer.authorize("Bearer good") is ScrapeVerdict.ALLOWED
    reviewer.now = LIFETIME  # its answer has expired
    await authorizer.authorize("Bearer strange")  # expired answers are looked through
    reviewer.open.clear()
    flood = [asyncio.create_task(authorizer.authorize(f"Bearer {number}")) for number in range(AT_ONCE)]
    await asyncio.sleep(0)
    again = asyncio.create_task(authorizer.authorize("Bearer good"))
    await asyncio.sleep(0)
    assert await authorizer.authorize("Bearer poor") is ScrapeVerdict.TOO_MANY
    reviewer.open.set()
    assert await again is ScrapeVerdict.ALLOWED
    await asyncio.gather(*flood)
    reviewer.now += 3600
    await authorizer.authorize("Bearer strange")
    assert len(authorizer._kept) == 1


def test_no_token_is_kept() -> None:
    reviewer = Reviewer()
    authorizer = reviewer.authorizer()
    asyncio.run(authorizer.authorize("Bearer good"))
    assert authorizer._kept and "good" not in repr(vars(authorizer)["_kept"])
