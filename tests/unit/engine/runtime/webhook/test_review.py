"""AdmissionReview requests and responses: parsing, facts and verdicts."""

from __future__ import annotations

import asyncio
import base64
import json
from typing import Any

import pytest
from aiohttp.test_utils import TestClient, TestServer

from fournos.engine.api.rules import Violation
from fournos.engine.kube.resource import Key, Obj, Resource
from fournos.engine.runtime.decision import Answer, Facts, LiveGet, Present, Unknown, User, UserAccess
from fournos.engine.runtime.metrics import Metrics
from fournos.engine.runtime.webhook.review import GarbledError, Request, Review, decide, parse, respond
from fournos.engine.runtime.webhook.server import WebhookServer
from tests.unit.engine.runtime.toy import TOY, make_toy
from tests.unit.engine.runtime.webhook.toy import webhook
from tests.world.connection import Connection
from tests.world.server import Server

NEW: dict[str, Any] = {"apiVersion": "x.dev/v1", "kind": "Toy", "metadata": {"name": "a"}, "spec": {"x": 1}}
ALICE = {"username": "alice", "uid": "u", "groups": ["dev"], "extra": {"scopes": ["a", "b"]}}


def review_body(**changes: Any) -> bytes:
    request = {
        "uid": "1",
        "operation": "CREATE",
        "namespace": "ns",
        "name": "a",
        "object": NEW,
        "oldObject": None,
        "userInfo": ALICE,
    }
    review = {"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "request": request | changes}
    return json.dumps(review).encode()


def request() -> Request:
    return parse(review_body())[1]


# --- reading --------------------------------------------------------------------------------------


def test_a_request_is_read() -> None:
    uid, found = parse(review_body(dryRun=True))
    assert (uid, found.key, found.operation, found.old, found.dry_run) == (
        "1", Key("ns", "a"), "CREATE", None, True
    )  # fmt: skip
    assert found.new["metadata"] == {"name": "a", "namespace": "ns"}
    assert found.user == User("alice", "u", ("dev",), (("scopes", ("a", "b")),))


@pytest.mark.parametrize(
    "body", [b"", b"[]", b"{}", b'{"apiVersion":"admission.k8s.io/v1beta1","kind":"AdmissionReview"}']
)
def test_anything_else_is_not(body: bytes) -> None:
    with pytest.raises(GarbledError):
        parse(body)


# --- answering ------------------------------------------------------------------------------------


def patch_of(review: Review) -> Any:
    response = respond("1", request(), review)["response"]
    assert response["allowed"] is True
    return json.loads(base64.b64decode(response["patch"])) if "patch" in response else None


def test_what_is_set_becomes_a_json_patch() -> None:
    assert patch_of(Review(patch={"metadata": {"labels": {"a/b~c": "d"}}})) == [
        {"op": "add", "path": "/metadata/labels", "value": {"a/b~c": "d"}}
    ]
    assert patch_of(Review(patch={"spec": {"x": None, "y/~": 2}})) == [
        {"op": "remove", "path": "/spec/x"},
        {"op": "add", "path": "/spec/y~1~0", "value": 2},
    ]
    assert patch_of(Review(patch={"spec": {"x": 1, "absent": None}})) is None


def test_a_refusal_names_the_fields() -> None:
    problems = (Violation("spec.x", "too small", "size"), Violation("spec.y", "missing", "y"))
    response = respond("1", request(), Review(problems, warnings=("mind x",)))["response"]
    assert response["allowed"] is False and response["warnings"] == ["mind x"]
    status = response["status"]
    assert (status["code"], status["reason"]) == (422, "Invalid")
    assert status["message"] == "spec.x: too small; spec.y: missing"
    assert {key: status["details"][key] for key in ("group", "kind", "name")} == {
        "group": "x.dev", "kind": "Toy", "name": "a"
    }  # fmt: skip
    assert [cause["field"] for cause in status["details"]["causes"]] == ["spec.x", "spec.y"]
    assert respond("1", request(), Review(problems, transient=True))["response"]["status"]["code"] == 503


# --- deciding -------------------------------------------------------------------------------------


async def test_questions_are_answered_and_the_review_asked_again() -> None:
    server = Server()
    found = await decide(webhook(), request(), Connection(server), seconds=1)
    assert [str(problem) for problem in found.problems] == ["spec: Absent"]
    make_toy(server)
    server.create(TOY, {"metadata": {"namespace": "ns", "name": "other"}})
    assert await decide(webhook(), request(), Connection(server), seconds=1) == Review()


@pytest.mark.looptime
async def test_what_is_not_answered_in_time_is_unknown() -> None:
    class Slow(Connection):
        async def get(self, resource: Resource, key: Key) -> Obj:
            await asyncio.sleep(60)
            return await super().get(resource, key)

    loop = asyncio.get_running_loop()
    started = loop.time()
    found = await decide(webhook(), request(), Slow(Server()), seconds=9.5)
    assert [problem.message for problem in found.problems] == ["Unknown"]
    assert loop.time() - started == 9.5


async def test_a_review_that_never_stops_asking_is_a_fault() -> None:
    def insatiable(request: Request, facts: Facts) -> Review:
        facts.require(LiveGet(TOY, Key("ns", f"n{len(facts.answers)}")))
        raise AssertionError("never answered")

    with pytest.raises(LookupError, match="still asks after 3 rounds"):
        await decide(webhook(insatiable), request(), Connection(Server()), seconds=1)


async def reviewed(access: UserAccess, status: dict[str, Any]) -> tuple[Answer, Obj]:
    """The answer to this question, and the spec of the one review that was sent for it."""
    sent: list[Obj] = []
    answers: list[Answer] = []

    class Reviewer(Connection):
        async def create(self, resource: Resource, obj: Obj, *, dry_run: bool = False) -> Obj:
            sent.append(obj["spec"])
            return {**obj, "status": status}

    def review(request: Request, facts: Facts) -> Review:
        answers.append(facts.require(access))
        return Review()

    await decide(webhook(review), request(), Reviewer(Server()), seconds=1)
    (spec,), (answer,) = sent, answers
    return answer, spec


@pytest.mark.parametrize(
    ("status", "expected"),
    [
        ({"allowed": True}, Present(True)),
        ({"allowed": False}, Present(False)),
        ({"allowed": False, "evaluationError": "webhook down"}, Unknown("webhook down")),
        ({"allowed": True, "evaluationError": "webhook down"}, Present(True)),
    ],
)
async def test_rights_are_asked_for_the_user_in_full(status: dict[str, Any], expected: Answer) -> None:
    answer, spec = await reviewed(UserAccess(request().user, "create", TOY, "ns"), status)
    assert answer == expected
    assert spec == {
        "user": "alice",
        "uid": "u",
        "groups": ["dev"],
        "extra": {"scopes": ["a", "b"]},
        "resourceAttributes": {
            "verb": "create",
            "group": TOY.group,
            "version": TOY.version,
            "resource": TOY.plural,
            "namespace": "ns",
        },
    }


async def test_a_right_to_one_name_is_asked_by_that_name() -> None:
    _, spec = await reviewed(UserAccess(request().user, "use", TOY, name="one"), {"allowed": True})
    attributes = spec["resourceAttributes"]
    assert (attributes["verb"], attributes["namespace"], attributes["name"]) == ("use", "", "one")


# --- the server -----------------------------------------------------------------------------------


async def test_each_webhook_has_a_path_and_every_outcome_is_counted() -> None:
    def faulty(request: Request, facts: Facts) -> Review:
        raise RuntimeError("bug")

    def setting(request: Request, facts: Facts) -> Review:
        return Review(patch={"spec": {"y": 1}})

    server, metrics = Server(), Metrics()
    hooks = [
        webhook(),
        webhook(faulty, name="faulty.fournos.dev", path="/faulty"),
        webhook(setting, name="setting.fournos.dev", path="/setting"),
    ]
    served = WebhookServer(Connection(server), hooks, metrics=metrics)
    async with TestClient(TestServer(served.app())) as client:
        for path, body, code in (
            ("/toys", review_body(), 200),
            ("/toys", b"?", 400),
            ("/faulty", review_body(), 500),
            ("/setting", review_body(), 200),
            ("/elsewhere", review_body(), 404),
        ):
            async with client.post(f"{path}?timeout=10s", data=body) as answer:
                assert answer.status == code, path
    counted = [
        ("toys.fournos.dev", "refused"),
        ("toys.fournos.dev", "garbled"),
        ("faulty.fournos.dev", "failed"),
        ("setting.fournos.dev", "changed"),
    ]
    for name, outcome in counted:
        assert metrics.value("fournos_webhook_reviews_total", name, outcome) == 1


def test_two_webhooks_on_one_path_are_refused() -> None:
    with pytest.raises(ValueError, match="same path"):
        WebhookServer(Connection(Server()), [webhook(), webhook(name="b.fournos.dev")], metrics=Metrics())


def test_a_mutating_configuration_comes_before_kueue() -> None:
    with pytest.raises(ValueError, match="must sort before kueue-"):
        webhook(kind="mutating", configuration="toys")
    assert webhook(configuration="toys")
