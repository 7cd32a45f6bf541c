"""Replicas and their Secret and configurations, on the in-memory API server in virtual time."""

from __future__ import annotations

import asyncio
import base64
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from datetime import timedelta
from typing import Any

import pytest

from fournos.engine.kube.errors import ConnectionLostError, ForbiddenError
from fournos.engine.kube.kinds import MUTATING_WEBHOOKS, SECRET, VALIDATING_WEBHOOKS
from fournos.engine.kube.resource import Key
from fournos.engine.runtime.metrics import Metrics
from fournos.engine.runtime.webhook import certificates
from fournos.engine.runtime.webhook.accepted_paths import segment_of, segments_in
from fournos.engine.runtime.webhook.cert_rotator import WebhookCertRotator
from fournos.engine.runtime.webhook.certificates import Pair, Terms
from fournos.engine.runtime.webhook.registration import LABEL, carries, configurations
from tests.unit.engine.runtime.loop import LoopClock
from tests.unit.engine.runtime.webhook.toy import SERVICE, webhook
from tests.world.connection import Connection
from tests.world.server import Server

pytestmark = pytest.mark.looptime

SECRET_KEY = Key("ns", "cert")
NAME = Key("", "fournos-toys")
HOUR = 3600.0
SHORT = Terms(timedelta(hours=1.5), timedelta(hours=0.5), timedelta(minutes=1))
HOOKS = (
    webhook(),
    webhook(name="again.fournos.dev", path="/again", failure_policy="Ignore"),
    webhook(kind="mutating", name="set.fournos.dev", path="/set"),
)


class Replica:
    def __init__(
        self, server: Server, *, hooks: Any = HOOKS, api: Connection | None = None, terms: Terms | None = None
    ) -> None:
        self.server = server
        self.api = api or Connection(server)
        self.metrics = Metrics()
        self.shown: list[Pair] = []
        self.expected: list[frozenset[str]] = []
        self.leads = asyncio.Event()
        self.rotator = WebhookCertRotator(
            self.api,
            hooks,
            SERVICE,
            secret=SECRET_KEY,
            clock=LoopClock(),
            metrics=self.metrics,
            leading=self.leads.wait,
            show=self._show,
            expect=self.expected.append,
            terms=terms,
        )

    def _show(self, pair: Pair) -> None:
        self.shown.append(pair)

    @property
    def ready(self) -> bool:
        return not list(self.rotator.problems())

    @asynccontextmanager
    async def running(self, *, leads: bool = False) -> AsyncIterator[Replica]:
        if leads:
            self.leads.set()
        task = asyncio.create_task(self.rotator.run())
        await asyncio.sleep(5)
        try:
            yield self
        finally:
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)


def stored(server: Server) -> dict[str, Any]:
    return server.get(VALIDATING_WEBHOOKS, NAME)


def bundle(server: Server) -> bytes:
    bundles = {
        entry["clientConfig"]["caBundle"]
        for resource in (VALIDATING_WEBHOOKS, MUTATING_WEBHOOKS)
        for entry in server.get(resource, NAME)["webhooks"]
    }
    (found,) = bundles
    return base64.b64decode(found)


async def test_the_leader_makes_everything_and_then_nothing_is_asked() -> None:
    server = Server()
    async with Replica(server).running(leads=True) as replica:
        assert replica.ready and len(replica.shown) == 1
        shown = replica.shown[0]
        wanted = configurations(HOOKS, SERVICE, owner="ns", bundle=shown.authority, segment=segment_of(shown))
        for (resource, name), body in wanted.items():
            found = server.get(resource, Key("", name))
            assert found["webhooks"] == body["webhooks"]
            assert found["metadata"]["labels"] == {LABEL: "ns"}
        assert [entry["failurePolicy"] for entry in stored(server)["webhooks"]] == ["Fail", "Ignore"]
        writes = list(replica.api.writes)
        await asyncio.sleep(HOUR)
        assert replica.api.writes == writes
        assert replica.metrics.value("fournos_webhook_certificate_end_seconds") > 0


async def test_one_of_two_makes_the_certificate_the_other_reads_it() -> None:
    server = Server()
    one, two = Replica(server), Replica(server)
    async with one.running(leads=True), two.running():
        assert one.ready and two.ready
        assert one.shown == two.shown and len(one.shown) == 1


async def test_a_race_for_the_secret_ends_with_one_certificate() -> None:
    server = Server()
    async with AsyncExitStack() as stack:
        replicas = [Replica(server) for _ in range(5)]
        tasks = [
            asyncio.create_task(stack.enter_async_context(one.running(leads=one is replicas[0])))
            for one in replicas
        ]
        await asyncio.gather(*tasks)
        await asyncio.sleep(60)
        assert all(one.ready for one in replicas)
        assert len({one.shown[-1].certificate for one in replicas}) == 1


async def test_without_a_leader_the_configuration_is_waited_for() -> None:
    server = Server()
    async with Replica(server).running() as replica:
        (problem,) = replica.rotator.problems()
        assert "is not there yet; the leader makes it" in problem
        async with Replica(server).running(leads=True):
            assert replica.ready


async def test_configurations_from_a_manifest_are_filled_in_by_any_replica() -> None:
    server = Server()
    for (resource, _), body in configurations(HOOKS, SERVICE, owner="ns").items():
        server.create(resource, body)
    async with Replica(server).running() as replica:
        assert replica.ready
        assert carries(stored(server), replica.shown[0].authority)


async def test_the_path_is_unguessable_and_turns_with_the_certificate() -> None:
    server = Server()
    one, two = Replica(server, terms=SHORT), Replica(server, terms=SHORT)
    async with one.running(leads=True), two.running():
        (first,) = segments_in(stored(server), HOOKS)
        assert first == segment_of(one.shown[0]) and len(first) == 64
        assert one.expected[-1] == two.expected[-1] == {first}
        await asyncio.sleep(HOUR + 30)  # renewal: the next one is let in before anybody is told of it
        assert segments_in(stored(server), HOOKS) == {first}
        (following,) = one.expected[-1] - {first}
        assert two.expected[-1] == {first, following}
        await asyncio.sleep(HOUR / 2)
        assert segments_in(stored(server), HOOKS) == {following} == {segment_of(two.shown[-1])}


async def test_a_manifest_that_is_applied_anew_is_answered_until_the_leader_has_put_it_right() -> None:
    server = Server()
    for (resource, _), body in configurations(HOOKS, SERVICE, owner="ns").items():
        server.create(resource, body)
    async with Replica(server).running() as follower:
        assert "" in follower.expected[-1]
        async with Replica(server).running(leads=True):
            await asyncio.sleep(5)
            assert "" not in segments_in(stored(server), HOOKS)
            assert "" not in follower.expected[-1]


async def test_a_turn_shows_nothing_that_is_not_trusted() -> None:
    server = Server()
    one, two = Replica(server, terms=SHORT), Replica(server, terms=SHORT)
    async with one.running(leads=True), two.running():
        first = one.shown[0]
        await asyncio.sleep(HOUR - 120)
        assert one.shown == two.shown == [first]
        await asyncio.sleep(150)  # renewal: in the bundle, not shown yet
        both = bundle(server)
        assert first.authority in both and both != first.authority
        assert one.shown == two.shown == [first]
        await asyncio.sleep(120)
        assert one.shown == two.shown and len(one.shown) == 2
        second = one.shown[1]
        assert bundle(server) == both and second.authority in both
        assert one.ready and two.ready
        await asyncio.sleep(HOUR / 2)
        assert bundle(server) == second.authority
        assert one.ready and two.ready


async def test_a_lost_secret_is_made_anew_and_all_follow() -> None:
    server = Server()
    async with Replica(server).running(leads=True) as old:
        server.delete(SECRET, SECRET_KEY)
        async with Replica(server).running() as new:
            assert old.ready and new.ready
            assert old.shown[-1] == new.shown[-1] and len(old.shown) == 2


async def test_the_leader_repairs_and_brings_back_what_was_changed_or_deleted() -> None:
    server = Server()
    async with Replica(server).running(leads=True) as replica:
        whole = stored(server)["webhooks"]
        server.patch(VALIDATING_WEBHOOKS, NAME, {"webhooks": whole[:1]})
        await asyncio.sleep(5)
        assert stored(server)["webhooks"] == whole
        server.delete(VALIDATING_WEBHOOKS, NAME)
        await asyncio.sleep(5)
        assert stored(server)["webhooks"] == whole and replica.ready


async def test_another_version_s_table_is_left_to_the_leader() -> None:
    server = Server()
    newer = (*HOOKS, webhook(name="new.fournos.dev", path="/new"))
    async with Replica(server).running() as old, Replica(server, hooks=newer).running(leads=True) as new:
        await asyncio.sleep(60)
        assert len(stored(server)["webhooks"]) == 3
        assert old.ready and new.ready
        assert not any("webhookconfigurations" in write for write in old.api.writes)


@pytest.mark.parametrize(("labels", "words"), [({}, "is not ours"), ({LABEL: "x"}, "of the operator in x")])
async def test_a_foreign_configuration_is_left_alone(labels: dict[str, str], words: str) -> None:
    server = Server()
    foreign = server.create(VALIDATING_WEBHOOKS, {"metadata": {"name": NAME.name, "labels": labels}})
    async with Replica(server).running(leads=True) as replica:
        await asyncio.sleep(300)
        assert stored(server) == foreign
        (problem,) = replica.rotator.problems()
        assert words in problem
        server.delete(VALIDATING_WEBHOOKS, NAME)
        await asyncio.sleep(60)
        assert replica.ready


async def test_a_missing_right_is_named() -> None:
    class Forbidden(Connection):
        async def get(self, *arguments: Any) -> Any:
            raise ForbiddenError("may not get secrets", status=403)

    server = Server()
    async with Replica(server, api=Forbidden(server)).running(leads=True) as replica:
        assert list(replica.rotator.problems()) == [
            "webhooks: no certificate yet: ForbiddenError: may not get secrets"
        ]


async def test_a_certificate_that_cannot_be_replaced_ends_in_time() -> None:
    server = Server()
    async with Replica(server, terms=SHORT).running(leads=True) as replica:
        server.refusals.append(lambda *_: ForbiddenError("no more", status=403))
        await asyncio.sleep(1.4 * HOUR)
        assert replica.ready
        await asyncio.sleep(0.2 * HOUR)
        (problem,) = replica.rotator.problems()
        assert problem.startswith("webhooks: the certificate has expired: ForbiddenError")


@pytest.mark.parametrize("moment", ["before", "after"])
@pytest.mark.parametrize("number", [1, 2, 3])
async def test_a_write_that_is_lost_is_made_up_for(moment: str, number: int) -> None:
    def lose(write: int) -> None:
        if write == number:
            raise ConnectionLostError("cut")

    server = Server()
    api = Connection(server, **{moment: lose})
    async with Replica(server, api=api).running(leads=True) as replica:
        await asyncio.sleep(60)
        assert replica.ready
        assert certificates.read(server.get(SECRET, SECRET_KEY)["data"]).current == replica.shown[-1]
