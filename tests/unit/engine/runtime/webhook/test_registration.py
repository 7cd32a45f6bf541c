"""Replicas and their Secret and configurations, on the in-memory API server in virtual time."""

from __future__ import annotations

import asyncio
import base64
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import timedelta
from typing import Any

import pytest

from fournos.engine.kube.errors import ConnectionLostError, ForbiddenError
from fournos.engine.kube.resource import MUTATING_WEBHOOKS, SECRET, VALIDATING_WEBHOOKS, Key
from fournos.engine.runtime.certificates import TERMS, Pair, Terms, read, trusts
from fournos.engine.runtime.metrics import Metrics
from fournos.engine.runtime.webhook.registration import LABEL, Registrar, configurations, trusting
from tests.unit.engine.runtime.loop import LoopClock
from tests.unit.engine.runtime.webhook.toy import SERVICE, webhook
from tests.world.connection import Connection
from tests.world.server import Server

pytestmark = pytest.mark.looptime

SECRET_KEY = Key("ns", "cert")
NAME = Key("", "fournos-toys")
HOUR = 3600.0
SHORT = Terms(
    authority=timedelta(hours=12),
    authority_renewal=timedelta(hours=6),
    certificate=timedelta(hours=1.5),
    certificate_renewal=timedelta(hours=0.5),
)
HOOKS = (
    webhook(),
    webhook(name="again.fournos.dev", path="/again", failure_policy="Ignore"),
    webhook(kind="mutating", name="set.fournos.dev", path="/set"),
)


class Replica:
    def __init__(
        self, server: Server, *, hooks: Any = HOOKS, api: Connection | None = None, terms: Terms = TERMS
    ) -> None:
        self.server = server
        self.api = api or Connection(server)
        self.metrics = Metrics()
        self.shown: list[Pair] = []
        self.leads = asyncio.Event()
        self.registrar = Registrar(
            self.api,
            hooks,
            SERVICE,
            secret=SECRET_KEY,
            clock=LoopClock(),
            metrics=self.metrics,
            leading=self.leads.wait,
            show=self._show,
            terms=terms,
        )

    def _show(self, pair: Pair) -> None:
        self.shown.append(pair)

    @property
    def ready(self) -> bool:
        return not list(self.registrar.problems())

    @asynccontextmanager
    async def running(self, *, leads: bool = False) -> AsyncIterator[Replica]:
        if leads:
            self.leads.set()
        task = asyncio.create_task(self.registrar.run())
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
        wanted = configurations(HOOKS, SERVICE, owner="ns", bundle=bundle(server))
        assert trusts(bundle(server), shown)
        for (resource, name), body in wanted.items():
            found = server.get(resource, Key("", name))
            assert found["webhooks"] == body["webhooks"]
            assert found["metadata"]["labels"] == {LABEL: "ns"}
        assert [entry["failurePolicy"] for entry in stored(server)["webhooks"]] == ["Fail", "Ignore"]
        writes = list(replica.api.writes)
        await asyncio.sleep(HOUR)
        assert replica.api.writes == writes
        assert replica.metrics.value("fournos_webhook_certificate_end_seconds") > 0


async def test_without_a_leader_the_configuration_is_waited_for() -> None:
    server = Server()
    async with Replica(server).running() as replica:
        (problem,) = replica.registrar.problems()
        assert "is not there yet; the leader makes it" in problem
        async with Replica(server).running(leads=True):
            assert replica.ready


async def test_configurations_from_a_manifest_are_filled_in_by_any_replica() -> None:
    server = Server()
    for (resource, _), body in configurations(HOOKS, SERVICE, owner="ns").items():
        server.create(resource, body)
    async with Replica(server).running() as replica:
        assert replica.ready
        assert trusting(stored(server), replica.shown[0])


async def test_a_renewed_authority_is_trusted_beside_the_earlier_one() -> None:
    server = Server()
    one, two = Replica(server, terms=SHORT), Replica(server, terms=SHORT)
    async with one.running(leads=True), two.running():
        first = bundle(server)
        await asyncio.sleep(5.9 * HOUR)
        assert bundle(server) == first
        assert len(one.shown) > 3 and one.shown == two.shown
        await asyncio.sleep(0.2 * HOUR)
        both = bundle(server)
        assert both != first and both.endswith(first)
        assert trusts(first, one.shown[-1]) and one.shown == two.shown
        for _ in range(16):
            await asyncio.sleep(0.25 * HOUR)
            assert bundle(server) == both
            assert one.ready and two.ready
        assert not trusts(first, one.shown[-1]) and one.shown == two.shown


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
        (problem,) = replica.registrar.problems()
        assert words in problem
        server.delete(VALIDATING_WEBHOOKS, NAME)
        await asyncio.sleep(60)
        assert replica.ready


async def test_one_that_is_refused_keeps_us_from_no_other() -> None:
    server = Server()
    taken = {"metadata": {"name": NAME.name}, "webhooks": []}
    server.create(VALIDATING_WEBHOOKS, taken)
    replica = Replica(server)
    async with replica.running(leads=True):
        await asyncio.sleep(60)
        others = [one for one in server.list(MUTATING_WEBHOOKS) if one["webhooks"]]
        assert [entry["clientConfig"]["caBundle"] for one in others for entry in one["webhooks"]]
        assert "is not ours" in "".join(replica.registrar.problems())


async def test_a_missing_right_is_named() -> None:
    class Forbidden(Connection):
        async def get(self, *arguments: Any) -> Any:
            raise ForbiddenError("may not get secrets", status=403)

    server = Server()
    async with Replica(server, api=Forbidden(server)).running(leads=True) as replica:
        assert list(replica.registrar.problems()) == [
            "webhooks: no certificate yet: ForbiddenError: may not get secrets"
        ]


async def test_a_certificate_that_cannot_be_replaced_ends_in_time() -> None:
    server = Server()
    async with Replica(server, terms=SHORT).running(leads=True) as replica:
        server.refusals.append(lambda *_: ForbiddenError("no more", status=403))
        await asyncio.sleep(1.4 * HOUR)
        assert replica.ready
        await asyncio.sleep(0.2 * HOUR)
        (problem,) = replica.registrar.problems()
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
        assert read(server.get(SECRET, SECRET_KEY)["data"]).serving == replica.shown[-1]
