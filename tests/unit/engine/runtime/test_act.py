"""Steps against the in-memory API server."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, replace
from typing import Any

import pytest

from fournos.engine.kube.api import Api
from fournos.engine.kube.errors import (
    ConflictError,
    ConnectionLostError,
    ForbiddenError,
    InvalidError,
    NotLeaderError,
    ServerError,
)
from fournos.engine.kube.resource import CONFIG_MAP, SECRET, Key, Obj, Resource, key_of, owner_uids, uid_of
from fournos.engine.kube.store import Store
from fournos.engine.runtime.act import Acted, CacheChange, NameWait, StepExecutor
from fournos.engine.runtime.controller import Caches
from fournos.engine.runtime.decision import (
    CopySecret,
    Create,
    Custom,
    Delete,
    NameTaken,
    Patch,
    Step,
    StepFailure,
)
from tests.unit.engine.runtime.toy import THING, TOY, TOY_KEY, make_toy, thing_of
from tests.world.connection import Connection
from tests.world.server import Server

THING_KEY = Key("ns", "toy")
STRANGE = Resource("other.dev", "v1", "Strange", "stranges")


class Bench:
    """A Toy on a server, and stores that see only what `act` puts into them."""

    def __init__(self) -> None:
        self.server = Server()
        make_toy(self.server)
        self.toy = self.server.get(TOY, TOY_KEY)
        self.executor = StepExecutor(Connection(self.server))
        self.caches = Caches({TOY: Store(), THING: Store(indexes={"owner": owner_uids})})

    async def act(self, *steps: Step, failures: int = 0) -> Acted:
        return await self.executor.act(steps, self.caches, failures=failures)

    def thing(self, **metadata: Any) -> dict[str, Any]:
        thing = thing_of(self.toy)
        thing["metadata"] |= metadata
        return thing


@pytest.fixture
def bench() -> Bench:
    return Bench()


def failure_of(acted: Acted) -> StepFailure:
    assert isinstance(acted.stopped, StepFailure)
    return acted.stopped


def waiting_of(acted: Acted) -> NameWait:
    assert isinstance(acted.stopped, NameWait)
    return acted.stopped


# --- create --------------------------------------------------------------------------------------------


async def test_what_is_created_is_seen_by_the_next_decision(bench: Bench) -> None:
    acted = await bench.act(Create(THING, bench.thing()))
    assert acted.stopped is None
    assert acted.cache_change is not CacheChange.NONE
    assert [uid_of(thing) for thing in bench.caches[THING].by("owner", uid_of(bench.toy))] == ["uid-2"]


async def test_one_of_ours_is_adopted(bench: Bench) -> None:
    first = bench.server.create(THING, bench.thing())
    acted = await bench.act(Create(THING, bench.thing()))
    assert acted.stopped is None
    assert acted.done[0][1] == first
    assert bench.caches[THING].get(THING_KEY) == first


async def test_an_answer_that_was_lost_is_found_again(bench: Bench) -> None:
    def lose(number: int) -> None:
        if number == 1:
            raise ConnectionLostError("reset")

    bench.executor = StepExecutor(Connection(bench.server, after=lose))
    failure = failure_of(await bench.act(Create(THING, bench.thing())))
    assert (failure.error, failure.transient) == ("ConnectionLostError", True)
    assert (await bench.act(Create(THING, bench.thing()))).stopped is None
    assert len(bench.server.list(THING)) == 1


async def test_one_of_a_predecessor_that_is_gone_is_waited_for(bench: Bench) -> None:
    bench.server.create(THING, bench.thing())
    bench.server.delete(TOY, TOY_KEY)
    make_toy(bench.server)
    bench.toy = bench.server.get(TOY, TOY_KEY)  # the same name, another UID
    step = Create(THING, bench.thing())
    assert "belongs to a Toy that is gone" in waiting_of(await bench.act(step)).reason
    bench.server.collect_garbage()
    assert (await bench.act(step)).stopped is None


@pytest.mark.parametrize("ours", [True, False])
async def test_one_that_is_being_deleted_is_waited_for(bench: Bench, ours: bool) -> None:
    metadata: dict[str, Any] = {"finalizers": ["test.dev/slow"]}
    if not ours:
        metadata["ownerReferences"] = []
    bench.server.create(THING, bench.thing(**metadata))
    bench.server.delete(THING, THING_KEY)
    assert "is being deleted" in waiting_of(await bench.act(Create(THING, bench.thing()))).reason
    assert len(bench.server.list(THING)) == 1


async def test_one_without_an_owner_is_foreign_and_stays_untouched(bench: Bench) -> None:
    foreign = bench.server.create(THING, bench.thing(ownerReferences=[]))
    failure = failure_of(await bench.act(Create(THING, bench.thing()), failures=2))
    assert (failure.error, failure.transient, failure.count) == ("ForeignObject", False, 3)
    assert failure.message == "Thing ns/toy exists already and belongs to no controller"
    assert bench.server.list(THING) == [foreign]
    assert bench.caches[THING].get(THING_KEY) is None


@pytest.mark.parametrize(("api_version", "kind"), [("test.dev/v1", "Toy"), ("other.dev/v1", "Strange")])
async def test_one_of_a_living_or_unknown_owner_is_foreign(bench: Bench, api_version: str, kind: str) -> None:
    metadata = {"namespace": "ns", "name": "neighbour"}
    resource = TOY if kind == "Toy" else STRANGE
    other = bench.server.create(
        resource, {"apiVersion": api_version, "kind": kind, "metadata": metadata, "spec": {}}
    )
    owner = {"apiVersion": api_version, "kind": kind, "name": "neighbour", "controller": True}
    bench.server.create(THING, bench.thing(ownerReferences=[owner | {"uid": uid_of(other)}]))
    failure = failure_of(await bench.act(Create(THING, bench.thing())))
    assert failure.message == f"Thing ns/toy exists already and belongs to {kind} neighbour"


# --- other steps ---------------------------------------------------------------------------------------


async def test_steps_after_a_failure_are_not_run(bench: Bench) -> None:
    bench.server.refusals.append(
        lambda verb, resource, obj: InvalidError("spec.x: no", status=422) if verb == "create" else None
    )
    acted = await bench.act(
        Patch(TOY, TOY_KEY, {"metadata": {"labels": {"a": "b"}}}),
        Create(THING, bench.thing()),
        Delete(TOY, TOY_KEY, uid_of(bench.toy)),
    )
    assert [type(step) for step, _ in acted.done] == [Patch]
    assert (failure_of(acted).error, failure_of(acted).message) == ("InvalidError", "spec.x: no")
    assert bench.server.find(TOY, TOY_KEY) is not None


async def test_a_server_that_asks_for_time_gets_it(bench: Bench) -> None:
    error = ServerError("slow down", status=429, retry_after=7)
    bench.server.refusals.append(lambda verb, resource, obj: error)
    acted = await bench.act(Create(THING, bench.thing()))
    assert acted.retry_after == 7
    assert failure_of(acted).transient


async def test_missing_rights_are_no_transient_failure(bench: Bench) -> None:
    bench.server.refusals.append(lambda verb, resource, obj: ForbiddenError("may not", status=403))
    failure = failure_of(await bench.act(Create(THING, bench.thing())))
    assert (failure.error, failure.transient) == ("ForbiddenError", False)


async def test_a_stale_patch_is_a_conflict_and_a_fenced_one_is_raised(bench: Bench) -> None:
    with pytest.raises(ConflictError):
        await bench.act(Patch(TOY, TOY_KEY, {"metadata": {"resourceVersion": "999"}}))
    bench.server.refusals.append(lambda verb, resource, obj: NotLeaderError("fenced"))
    with pytest.raises(NotLeaderError):
        await bench.act(Patch(TOY, TOY_KEY, {"metadata": {"labels": {"a": "b"}}}))


async def test_delete_takes_only_the_object_with_that_uid(bench: Bench) -> None:
    bench.server.create(THING, bench.thing())
    assert (await bench.act(Delete(THING, THING_KEY, "uid-of-another"))).stopped is None
    assert len(bench.server.list(THING)) == 1
    assert (await bench.act(Delete(THING, THING_KEY, "uid-2"))).stopped is None
    assert bench.server.list(THING) == []
    assert (await bench.act(Delete(THING, THING_KEY, "uid-2"))).stopped is None
    bench.server.unserved.add(THING)
    assert (await bench.act(Delete(THING, THING_KEY, "uid-2"))).stopped is None


async def test_the_last_finalizer_s_patch_leaves_no_ghost(bench: Bench) -> None:
    bench.server.patch(TOY, TOY_KEY, {"metadata": {"finalizers": ["test.dev/f"]}})
    bench.server.delete(TOY, TOY_KEY)
    assert (await bench.act(Patch(TOY, TOY_KEY, {"metadata": {"finalizers": None}}))).stopped is None
    assert bench.caches[TOY].get(TOY_KEY) is None


async def test_what_no_watch_delivers_is_not_assumed(bench: Bench) -> None:
    bench.caches = Caches({THING: Store()}, covers={THING: lambda obj: False})
    acted = await bench.act(Create(THING, bench.thing()))
    assert acted.stopped is None
    assert acted.cache_change is CacheChange.NONE
    assert len(bench.caches[THING]) == 0


# --- secrets -------------------------------------------------------------------------------------------

SOURCE = Key("vault", "source")


def make_secret(server: Server, **data: str) -> None:
    metadata = {"namespace": SOURCE.namespace, "name": SOURCE.name}
    server.create(
        SECRET,
        {"apiVersion": "v1", "kind": "Secret", "metadata": metadata, "type": "test.dev/kind", "data": data},
    )


def copy_of(bench: Bench) -> CopySecret:
    metadata = bench.thing()["metadata"] | {"name": "toy-source", "labels": {"copy": "yes"}}
    return CopySecret(SOURCE, metadata)


async def test_a_secret_is_copied_with_type_and_owner_and_its_bytes_reach_no_caller(bench: Bench) -> None:
    make_secret(bench.server, password="czNjcmV0")
    acted = await bench.act(copy_of(bench))
    copy = bench.server.get(SECRET, Key("ns", "toy-source"))
    assert (copy["type"], copy["data"]) == ("test.dev/kind", {"password": "czNjcmV0"})
    assert copy["metadata"]["labels"] == {"copy": "yes"}
    assert owner_uids(copy) == {uid_of(bench.toy)}
    assert "czNjcmV0" not in repr(acted)


async def test_a_copy_is_brought_up_to_date_and_left_alone_when_equal(bench: Bench) -> None:
    make_secret(bench.server, a="MQ==", b="Mg==")
    await bench.act(copy_of(bench))
    bench.server.patch(SECRET, SOURCE, {"data": {"a": None, "b": "Mw==", "c": "NA=="}})
    assert (await bench.act(copy_of(bench))).stopped is None
    assert bench.server.get(SECRET, Key("ns", "toy-source"))["data"] == {"b": "Mw==", "c": "NA=="}
    version = bench.server.version
    assert (await bench.act(copy_of(bench))).stopped is None
    assert bench.server.version == version


async def test_a_foreign_secret_of_that_name_is_not_touched(bench: Bench) -> None:
    make_secret(bench.server, a="MQ==")
    metadata = {"namespace": "ns", "name": "toy-source"}
    bench.server.create(SECRET, {"metadata": metadata, "data": {"theirs": "MQ=="}})
    assert failure_of(await bench.act(copy_of(bench))).error == "ForeignObject"
    assert bench.server.get(SECRET, key_of({"metadata": metadata}))["data"] == {"theirs": "MQ=="}


async def test_a_missing_source_is_named(bench: Bench) -> None:
    failure = failure_of(await bench.act(copy_of(bench)))
    assert (failure.error, failure.transient) == ("NotFoundError", False)
    assert '"source" not found' in failure.message


async def test_a_refused_copy_does_not_quote_the_secret(bench: Bench) -> None:
    make_secret(bench.server, password="czNjcmV0")
    refusal = InvalidError('data: Invalid value: "czNjcmV0"', status=422)
    bench.server.refusals.append(lambda verb, resource, obj: refusal)
    message = failure_of(await bench.act(copy_of(bench))).message
    assert message == "the API server refused the copy of Secret vault/source as ns/toy-source"


async def test_reads_of_one_secret_at_the_same_time_are_one_request(bench: Bench) -> None:
    make_secret(bench.server, a="MQ==")
    reads = 0

    class Slow(Connection):
        async def get(self, resource: Resource, key: Key) -> Obj:
            nonlocal reads
            reads += 1
            await asyncio.sleep(0)
            return await super().get(resource, key)

    bench.executor = StepExecutor(Slow(bench.server))
    steps = [
        CopySecret(SOURCE, bench.thing()["metadata"] | {"name": f"copy-{number}"}) for number in range(5)
    ]
    first, *others = [asyncio.create_task(bench.act(step)) for step in steps]
    await asyncio.sleep(0)
    first.cancel()  # the others' read goes on
    assert all(acted.stopped is None for acted in await asyncio.gather(*others))
    assert reads == 1
    assert CONFIG_MAP not in bench.caches
    await bench.act(steps[0])
    assert reads == 2


# --- a rule of the step's own for a name that is taken -------------------------------------------------


@pytest.mark.parametrize(
    ("rule", "stopped"),
    [
        (None, None),
        (NameTaken("of an earlier attempt", waits=True), NameWait),
        (NameTaken("of another"), StepFailure),
    ],
)
async def test_a_step_decides_itself_whose_a_taken_name_is(
    bench: Bench, rule: NameTaken | None, stopped: type | None
) -> None:
    """Here an object without a controller, which is foreign by the rule for all others."""
    bench.server.create(THING, bench.thing(ownerReferences=[]))
    requested: list[tuple[Step, str]] = []

    def name_taken(step: Create, live: Obj) -> NameTaken | None:
        requested.append((step, uid_of(live)))
        return rule

    step = Create(THING, bench.thing(), name_taken=name_taken)
    acted = await bench.act(step)
    live = bench.server.get(THING, THING_KEY)
    assert requested == [(step, uid_of(live))]
    if stopped is None:
        assert acted.stopped is None and uid_of(bench.caches[THING].get(THING_KEY) or {}) == uid_of(live)
    else:
        assert isinstance(acted.stopped, stopped) and rule is not None
        assert rule.reason in (getattr(acted.stopped, "reason", ""), getattr(acted.stopped, "message", ""))
        assert bench.caches[THING].get(THING_KEY) is None


async def test_an_accepted_deletion_is_known_for_a_minute(bench: Bench) -> None:
    bench.server.create(THING, bench.thing())
    uid = uid_of(bench.server.get(THING, THING_KEY))
    assert not bench.executor.deleted_recently(uid)
    await bench.act(Delete(THING, THING_KEY, uid))
    assert bench.executor.deleted_recently(uid) and not bench.executor.deleted_recently("another")


# --- steps of a system's own ------------------------------------------------------------------------
# Steps of one system only, and objects that are owned by a label.


@dataclass(frozen=True, slots=True)
class Ring(Custom):
    bell: str


async def carry_out(steps: Any, error: Exception | None = None) -> tuple[Acted, list[str], Connection]:
    rung: list[str] = []
    api = Connection(Server())

    async def ring(step: Ring, through: Api) -> None:
        assert through is api
        if error is not None:
            raise error
        rung.append(step.bell)

    acted = await StepExecutor(api).act(steps, Caches({CONFIG_MAP: Store()}), executors={Ring: ring})
    return acted, rung, api


async def test_a_step_of_ones_own_is_carried_out_in_order() -> None:
    acted, rung, _ = await carry_out([Ring("door"), Ring("church")])
    assert rung == ["door", "church"] and acted.stopped is None and len(acted.done) == 2


async def test_its_failure_is_a_fact_like_any_other() -> None:
    patch = Patch(CONFIG_MAP, Key("ns", "never"), {})
    for error, transient in ((InvalidError("cracked"), False), (ServerError("busy"), True)):
        acted, _, api = await carry_out([Ring("door"), patch], error)
        assert acted.stopped == StepFailure(Ring("door"), type(error).__name__, str(error), transient, 1)
        assert api.writes == []


async def test_a_label_makes_an_object_ours_that_can_have_no_controller() -> None:
    server = Server()
    body = {"metadata": {"namespace": "ns", "name": "lock", "labels": {"lock-of": "c1"}}}
    own = Create(CONFIG_MAP, body, own_label="lock-of")
    server.create(CONFIG_MAP, body)
    caches = Caches({CONFIG_MAP: Store()})
    executor = StepExecutor(Connection(server))
    acted = await executor.act([own], caches)
    assert acted.stopped is None and acted.cache_change is not CacheChange.NONE
    assert caches[CONFIG_MAP].get(Key("ns", "lock")) is not None
    other = {"metadata": {**body["metadata"], "labels": {"lock-of": "c2"}}}  # type: ignore[dict-item]
    for foreign in (replace(own, body=other), replace(own, own_label="")):
        acted = await executor.act([foreign], caches)
        assert isinstance(acted.stopped, StepFailure) and acted.stopped.error == "ForeignObject"
