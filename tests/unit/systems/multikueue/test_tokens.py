"""Tokens of workers' kubeconfigs are replaced before they end, and by no worker's fault too often."""

from __future__ import annotations

import base64
import json
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from typing import Any, cast

import pytest
import yaml

from fournos.engine.kube.credentials import Credentials
from fournos.engine.kube.errors import ConnectionLostError, ForbiddenError, KubeError
from fournos.engine.kube.probe import ClusterApi
from fournos.engine.kube.resource import SECRET, Key, Obj, Resource
from fournos.engine.runtime.decision import Decision, Facts
from fournos.systems.multikueue import names
from fournos.systems.multikueue.controller import multikueue_controllers
from fournos.systems.multikueue.kubeconfig import token_in, token_of, with_token
from fournos.systems.multikueue.settings import MultiKueueSettings
from fournos.systems.multikueue.tokens import project, tokens_controller
from tests.fakes.clusters import kubeconfig
from tests.world.harness import DISTURBED, Scenario, run, run_to_quiescence
from tests.world.process import Process
from tests.world.server import Server, VirtualClock

SETTINGS = MultiKueueSettings(external_frameworks="Foo.v1.example.com")
SERVER, KUEUE = "https://w1.example.com", "kueue-system"
ACCOUNT, LOGS = "multikueue", "multikueue-logs"
LIFE = 1200


def jwt(account: str, issued: datetime, life: float = LIFE, **more: Any) -> str:
    reported = {"sub": f"system:serviceaccount:{KUEUE}:{account}", "iat": issued.timestamp()}
    reported["exp"] = (issued + timedelta(seconds=life)).timestamp()
    return encoded_jwt({**reported, **more})


def encoded_jwt(claims: Any) -> str:
    return f"h.{base64.urlsafe_b64encode(json.dumps(claims).encode()).decode().rstrip('=')}.s"


@dataclass
class Worker:
    """Issues tokens for requests with a valid token, and records the requests."""

    clock: VirtualClock = field(default_factory=VirtualClock)
    requests: list[tuple[str, Obj]] = field(default_factory=list)
    identities: list[str] = field(default_factory=list)
    failures: list[KubeError] = field(default_factory=list)
    answer: Any = None
    """Instead of a token."""
    closed: int = 0
    warned: list[str] = field(default_factory=list)
    """The manager's events."""
    credentials: Credentials | None = None

    def dial(self, credentials: Credentials) -> ClusterApi:
        assert credentials.server == SERVER
        self.credentials = credentials
        return cast(ClusterApi, self)

    async def create(self, resource: Resource, obj: Obj, *, dry_run: bool = False) -> Obj:
        assert self.credentials is not None
        headers, _ = await self.credentials.proof()
        token = token_of(headers["Authorization"].removeprefix("Bearer "))
        assert token.ends > self.clock.now(), "asked with a token that has ended"
        self.identities.append(token.account.name)
        self.requests.append((resource.path(namespace=obj["metadata"]["namespace"]), obj["spec"]))
        if self.failures:
            raise self.failures.pop(0)
        if self.answer is not None:
            return self.answer(self.clock.now())  # type: ignore[no-any-return]
        account = resource.plural.split("/")[1]
        life = obj["spec"]["expirationSeconds"]
        return {"status": {"token": jwt(account, self.clock.now(), life)}}

    async def close(self) -> None:
        self.closed += 1


def secret(server: Server, name: str, content: bytes, **labels: str) -> None:
    meta = {"name": name, "namespace": KUEUE, "labels": labels}
    data = {names.KUBECONFIG: base64.b64encode(content).decode()}
    server.create(SECRET, {"metadata": meta, "data": data})


def held(server: Server, name: str) -> bytes:
    return base64.b64decode(server.get(SECRET, Key(KUEUE, name))["data"][names.KUBECONFIG])


def add_secret(server: Server, name: str = "w1", token: str = "", **labels: str) -> None:
    """Creates a Secret with the label for renewal."""
    content = kubeconfig(SERVER, token=token or jwt(ACCOUNT, server.clock.now()))
    secret(server, name, content, **{names.RENEW: "true"}, **labels)


def scenario(worker: Worker, setup: Any, *, hours: float) -> Scenario:
    """The worker's clock is the manager's."""

    def begun(server: Server) -> None:
        worker.clock = server.clock
        setup(server)

    controller = tokens_controller(SETTINGS, Now(worker), dial=worker.dial)  # type: ignore[arg-type]

    def decide(seen: Any, facts: Facts, now: datetime) -> Decision:
        decision = controller.decide(seen, facts, now)
        if isinstance(decision, Decision):
            worker.warned += [one.message for one in decision.events if one.reason == "TokenNotRenewed"]
        return decision

    return Scenario(replace(controller, decide=decide), begun, horizon=hours * 3600, end=good)


def good(server: Server) -> bool:
    return token_in(held(server, "w1")).ends > server.clock.now()


async def lived(worker: Worker, setup: Any, *, hours: float = 1.0) -> Server:
    """The manager after so long."""
    case = scenario(worker, setup, hours=hours)
    server = Server(VirtualClock())
    case.setup(server)
    await run_to_quiescence(Process(server, case.controller), horizon=case.horizon)
    return server


@dataclass
class Now:
    """The clock of the run that is under way."""

    worker: Worker

    def now(self) -> datetime:
        return self.worker.clock.now()


async def test_a_token_is_replaced_at_half_of_its_life_again_and_again() -> None:
    worker = Worker()
    server = await lived(worker, add_secret)
    path = f"/api/v1/namespaces/{KUEUE}/serviceaccounts/{ACCOUNT}/token"
    # An hour, half a life of 600 s: the sixth falls on its end.
    assert len(worker.requests) in (5, 6) and worker.closed == len(worker.requests)
    assert worker.requests[0] == (path, {"expirationSeconds": LIFE})
    assert token_in(held(server, "w1")).ends > server.clock.now() + timedelta(seconds=LIFE / 2 - 1)
    assert worker.warned == []


async def test_no_crash_lost_event_or_failed_write_lets_it_end() -> None:
    def due(server: Server) -> None:
        """And the next one is due long after the run."""
        add_secret(server, token=jwt(ACCOUNT, server.clock.now() - timedelta(days=6), 7 * 86400))

    case = scenario(Worker(), due, hours=1)
    for disturbed in DISTURBED.values():
        assert await disturbed(case) > 0
    assert good((await run(case)).server)


async def test_only_the_token_changes() -> None:
    before: dict[str, Any] = yaml.safe_load(kubeconfig(SERVER, token="t"))
    before["users"].append({"name": "other", "user": {"token": "another"}})
    after = yaml.safe_load(with_token(yaml.safe_dump(before).encode(), "new"))
    before["users"][0]["user"]["token"] = "new"
    assert after == before


async def test_what_does_not_ask_for_it_is_left_alone() -> None:
    worker = Worker()
    content = kubeconfig(SERVER, token=jwt(ACCOUNT, datetime(2020, 1, 1, tzinfo=UTC)))
    server = await lived(worker, lambda server: secret(server, "w1", content))
    assert worker.requests == [] and held(server, "w1") == content and worker.warned == []


async def test_the_token_for_logs_is_asked_for_with_the_worker_s_own_identity() -> None:
    worker = Worker()

    def setup(server: Server) -> None:
        # Older than half of its life, and it has ended: the other identity is what counts.
        add_secret(server, "w1-logs", jwt(LOGS, datetime(2020, 1, 1, tzinfo=UTC)), **{names.LOGS_OF: "w1"})
        add_secret(server)

    server = await lived(worker, setup, hours=0.1)
    assert worker.identities == [ACCOUNT]
    assert worker.requests[0][0].endswith(f"/serviceaccounts/{LOGS}/token")
    assert token_in(held(server, "w1-logs")).account == Key(KUEUE, LOGS)


async def test_a_token_is_shown_to_no_other_server() -> None:
    worker = Worker()

    def setup(server: Server) -> None:
        add_secret(server, "w1-logs", jwt(LOGS, datetime(2020, 1, 1, tzinfo=UTC)), **{names.LOGS_OF: "w1"})
        secret(server, "w1", kubeconfig("https://w2.example.com", token=jwt(ACCOUNT, server.clock.now())))

    await lived(worker, setup, hours=0.1)
    assert worker.requests == []
    assert set(worker.warned) == {"its server is not that of Secret kueue-system/w1"}


@pytest.mark.parametrize(
    ("failure", "expected"),
    [
        (ForbiddenError("no", status=403), "does not allow create on serviceaccounts/token of kueue-system/"),
        (ForbiddenError("no", status=401), "refuses the credentials (401)"),
        (ConnectionLostError("gone"), "gives no answer to go by (no connection)"),
    ],
)
async def test_a_worker_without_a_token_is_requested_again_with_an_event(
    failure: KubeError, expected: str
) -> None:
    worker = Worker(failures=[failure] * 3)
    server = await lived(worker, add_secret, hours=0.25)
    (messages,) = set(worker.warned)
    assert expected in messages and messages.startswith(SERVER)
    assert token_in(held(server, "w1")).ends > server.clock.now(), "the fourth answer came in time"


@pytest.mark.parametrize(
    ("answer", "expected"),
    [
        (lambda now: {}, "answers without a token"),
        (lambda now: {"status": {"token": ["x"]}}, "answers without a token"),
        (lambda now: {"status": {"token": "no web token"}}, "its token is none of a ServiceAccount"),
        (lambda now: {"status": {"token": jwt("admin", now)}}, "a token of another ServiceAccount"),
        (lambda now: {"status": {"token": jwt(ACCOUNT, now, 20)}}, "would have to be replaced at once"),
        (
            lambda now: {"status": {"token": jwt(ACCOUNT, now - timedelta(days=9), 10 * 86400)}},
            "would have to be replaced at once",
        ),
        (lambda now: {"status": {"token": jwt(ACCOUNT, now, exp=None)}}, "its token has no end"),
    ],
)
async def test_a_hostile_answer_changes_nothing_and_costs_a_request_a_minute(
    answer: Any, expected: str
) -> None:
    before: list[bytes] = []

    def setup(server: Server) -> None:
        add_secret(server)
        before.append(held(server, "w1"))

    worker = Worker(answer=answer)
    server = await lived(worker, setup, hours=LIFE / 3600 - 0.01)
    assert held(server, "w1") == before[0]
    assert expected in worker.warned[0] and 0 < len(worker.requests) <= LIFE / 2 / 60 + 1


@pytest.mark.parametrize(
    ("content", "expected"),
    [
        (kubeconfig(SERVER, token="opaque"), "its token is none of a ServiceAccount"),
        (
            kubeconfig(SERVER, token=encoded_jwt({"sub": "system:serviceaccount:kueue-system:multikueue"})),
            "its token has no end; use one of: kubectl create token",
        ),
        (
            kubeconfig(SERVER, token=encoded_jwt({"sub": "system:serviceaccount:a:../", "iat": 1, "exp": 2})),
            "its token is none of a ServiceAccount",
        ),
        (b"[", "is not YAML"),
    ],
)
async def test_what_cannot_be_renewed_is_left_alone_with_a_reason(content: bytes, expected: str) -> None:
    worker = Worker()
    server = await lived(worker, lambda server: secret(server, "w1", content, **{names.RENEW: "true"}))
    assert worker.requests == [] and held(server, "w1") == content
    assert [expected in one for one in worker.warned] == [True]


async def test_nothing_of_the_content_is_kept() -> None:
    token = jwt(ACCOUNT, datetime(2026, 1, 1, tzinfo=UTC))
    data = {names.KUBECONFIG: base64.b64encode(kubeconfig(SERVER, token=token)).decode()}
    kept = project({"metadata": {"name": "w1", "namespace": KUEUE, "resourceVersion": "1"}, "data": data})
    assert kept["token"].account == Key(KUEUE, ACCOUNT)
    assert token not in repr(kept) and data[names.KUBECONFIG] not in repr(kept)


def test_the_operator_runs_it() -> None:
    controllers, _ = multikueue_controllers(SETTINGS, clock=VirtualClock(), wake=lambda name, key: None)
    assert "multikueue-tokens" in [one.name for one in controllers]
