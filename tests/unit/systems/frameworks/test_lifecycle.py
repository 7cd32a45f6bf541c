"""Lives of queued objects in the in-memory world: each also runs through every crash, stale view, lost event
and failed write, and must end alike."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from fournos.engine.api.conditions import condition, is_true
from fournos.engine.kube.resource import PRIORITY_CLASS, Key
from fournos.engine.kube.store import Store
from fournos.engine.queueing.job import QueueInputs
from fournos.engine.queueing.kinds import WORKLOAD
from fournos.engine.runtime.controller import Caches
from fournos.engine.runtime.decision import (
    Absent,
    Answer,
    Decision,
    Delete,
    Facts,
    LiveGet,
    NeededFacts,
    Patch,
    Present,
    Step,
    Unknown,
    attempt,
)
from fournos.systems.frameworks.decide import left_behind
from fournos.systems.frameworks.kinds import PIPELINE_RUN, Framework
from fournos.systems.frameworks.observe import Observed, left_over
from fournos.systems.frameworks.part import framework_controller
from tests.unit.systems.frameworks.actors import (
    FOO,
    FOO_KIND,
    NS,
    RUN,
    SELECTOR,
    FooController,
    Tekton,
    ended,
    foo,
    get,
    pipeline_run,
    submitted,
    workload_of,
)
from tests.world.harness import DISTURBED, Scenario, run
from tests.world.kueue import Kueue, holding, one_workload_each
from tests.world.process import Process
from tests.world.server import Server


def quota_covers_what_runs(server: Server) -> None:
    """A queued run that Tekton may work on implies a Workload that holds quota."""
    for one in server.list(RUN):
        status = (condition(one, "Succeeded") or {}).get("status")
        ours = (one["metadata"].get("annotations") or {}).get("fournos.dev/held") == "queue"
        begun = (one.get("status") or {}).get("startTime") or one["spec"].get("status") is None
        if status in ("True", "False") or not begun or not ours:
            continue
        if one["metadata"].get("ownerReferences") or one["metadata"].get("deletionTimestamp"):
            continue
        assert holding(server, one["metadata"]["name"]), f"{one['metadata']['name']} runs without quota"
    for one in server.list(FOO):
        if (one.get("status") or {}).get("active"):
            assert holding(server, one["metadata"]["name"]), "a Foo runs without quota"


INVARIANTS = (quota_covers_what_runs, one_workload_each)


def scenario(
    setup: Callable[[Server], None],
    *,
    kind: Framework = PIPELINE_RUN,
    kueue: Callable[[], Any] = Kueue,
    world: Callable[[], Any] = Tekton,
    **kwargs: Any,
) -> Scenario:
    return Scenario(
        framework_controller(kind),
        setup,
        cast=(kueue, world),
        end_unseen=names if "script" in kwargs else None,
        **{"end": outcome, "invariants": INVARIANTS, **kwargs},
    )


def outcome(server: Server) -> Any:
    runs = [
        (
            one["metadata"]["name"],
            (condition(one, "Succeeded") or {}).get("reason"),
            one["spec"].get("status"),
            one["metadata"].get("annotations"),
        )
        for one in server.list(RUN)
    ]
    foos = [(one["metadata"]["name"], one["spec"], one.get("status")) for one in server.list(FOO)]
    workloads = sorted(
        (
            (one["metadata"].get("ownerReferences") or [{"name": ""}])[0]["name"],
            is_true(one, "QuotaReserved"),
            (condition(one, "Finished") or {}).get("message"),
            "finalizers" in one["metadata"],
        )
        for one in server.list(WORKLOAD)
    )
    return runs, foos, workloads


def names(server: Server) -> list[str]:
    """Users act on what is there, and that may be less where an event is lost."""
    return [one["metadata"]["name"] for one in server.list(RUN)]


def deleted(server: Server) -> None:
    server.delete(RUN, Key(NS, "run"))


def workload_deleted(server: Server) -> None:
    for workload in server.list(WORKLOAD):
        server.delete(WORKLOAD, Key(NS, workload["metadata"]["name"]))


def preempting(*names: str, reason: str = "Preempted") -> Callable[[], Kueue]:
    return lambda: Kueue(evict=dict.fromkeys(names, reason))


def endless(*names: str) -> Callable[[], Tekton]:
    return lambda: Tekton(endless=set(names))


PLACED = pipeline_run("run")
PLACED["spec"]["taskRunTemplate"] = {"podTemplate": {"nodeSelector": SELECTOR}}

STORIES: dict[str, Scenario] = {
    "queued, released, done": scenario(submitted(pipeline_run())),
    "three for one slot": scenario(
        submitted(*(pipeline_run(name) for name in "abc")), kueue=lambda: Kueue(slots=1)
    ),
    "fails": scenario(submitted(pipeline_run()), world=lambda: Tekton(fails={"run"})),
    "preempted for good": scenario(submitted(pipeline_run()), kueue=preempting("run"), world=endless("run")),
    "deleted while it runs": scenario(submitted(pipeline_run()), world=endless("run"), script=[deleted]),
    "workload is deleted": scenario(
        submitted(pipeline_run()), world=endless("run"), script=[workload_deleted]
    ),
    "held by its user": scenario(submitted(pipeline_run(held=False))),
    "never held": scenario(submitted(pipeline_run(held=False, pending=False)), world=endless("run")),
    "a flavor it cannot follow": scenario(submitted(pipeline_run(), selector=SELECTOR)),
    "a flavor it follows": scenario(submitted(PLACED, selector=SELECTOR)),
    "requests that are none": scenario(submitted(pipeline_run(requests="cpu"))),
    "an invented kind": scenario(
        submitted(foo(), resource=FOO, selector=SELECTOR), kind=FOO_KIND, world=FooController
    ),
    "an invented kind is preempted": scenario(
        submitted(foo(), resource=FOO, selector=SELECTOR),
        kind=FOO_KIND,
        world=lambda: FooController(endless={"foo"}),
        kueue=preempting("foo"),
    ),
    "an invented kind started by its user": scenario(
        submitted(foo(suspend=False), resource=FOO),
        kind=FOO_KIND,
        world=lambda: FooController(endless={"foo"}),
        invariants=(one_workload_each,),  # it did run, before it could be stopped
    ),
}


UNTOUCHED = ("held by its user", "never held", "requests that are none")
"""Stories in which the operator writes nothing but events."""


@pytest.mark.parametrize("disturbed", DISTURBED)
@pytest.mark.parametrize("story", sorted(STORIES.keys() - UNTOUCHED))
async def test_survives(story: str, disturbed: str) -> None:
    assert await DISTURBED[disturbed](STORIES[story]) > 0


async def test_the_straight_way() -> None:
    server = (await run(STORIES["queued, released, done"])).server
    assert ended(server) == ("True", "Done")
    workload = workload_of(server)
    assert workload["metadata"]["name"].startswith("pipelinerun-run-")
    container = workload["spec"]["podSets"][0]["template"]["spec"]["containers"][0]
    assert container["resources"]["requests"] == {"tekton.dev/pipelineruns": "1"}
    finished = condition(workload, "Finished")
    assert finished is not None and (finished["reason"], finished["message"]) == ("Succeeded", "over")
    assert "finalizers" not in workload["metadata"]


async def test_one_slot_is_one_run_at_a_time() -> None:
    at_once: list[int] = []

    def counting(server: Server) -> None:
        at_once.append(
            sum(
                bool((one.get("status") or {}).get("startTime"))
                and (condition(one, "Succeeded") or {}).get("status") == "Unknown"
                for one in server.list(RUN)
            )
        )

    story = STORIES["three for one slot"]
    server = (await run(replace(story, invariants=(*INVARIANTS, counting)))).server
    assert max(at_once) == 1
    assert [ended(server, name)[0] for name in "abc"] == ["True"] * 3


async def test_an_evicted_run_is_cancelled_with_a_reason() -> None:
    server = (await run(STORIES["preempted for good"])).server
    assert ended(server) == ("False", "Cancelled")
    assert get(server)["metadata"]["annotations"]["fournos.dev/stopped"] == "Preempted: to make room"
    finished = condition(workload_of(server), "Finished")
    assert finished is not None and finished["reason"] == "Failed"
    assert finished["message"] == "Stopped by the queue: Preempted: to make room"
    assert [one["metadata"]["name"] for one in server.list(RUN)] == ["run"]


async def said(story: Scenario) -> list[tuple[str, str]]:
    """The reasons and messages of the events of a last pass."""
    server = (await run(story)).server
    process = Process(server, framework_controller(PIPELINE_RUN))
    process.deliver(at_least=9)
    observed = process.controller.observe(process.caches, Key(NS, "run"))
    assert observed is not None
    decision = process.controller.decide(observed, Facts(), server.clock.now())
    return [(one.reason, one.message) for one in decision.events]


async def test_a_users_own_hold_is_never_taken_off() -> None:
    server = (await run(STORIES["held by its user"])).server
    assert get(server)["spec"]["status"] == "PipelineRunPending"
    assert server.list(WORKLOAD) == []
    ((reason, _),) = await said(STORIES["held by its user"])
    assert reason == "HeldByUser"


async def test_the_priority_of_a_held_lock_is_refused_with_the_reason() -> None:
    def critical(server: Server) -> None:
        name = "system-cluster-critical"
        server.create(PRIORITY_CLASS, {"metadata": {"name": name}, "value": 2_000_000_000})
        queued = pipeline_run()
        queued["spec"]["taskRunTemplate"] = {"podTemplate": {"priorityClassName": name}}
        submitted(queued)(server)

    server = (await run(scenario(critical))).server
    assert server.list(WORKLOAD) == []
    ((reason, message),) = await said(scenario(critical))
    assert reason == "PriorityReserved"
    assert message.startswith("PriorityClass 'system-cluster-critical' has the priority of a")


async def test_a_run_that_was_never_held_goes_on_with_a_warning() -> None:
    server = (await run(STORIES["never held"])).server
    assert ended(server) == ("Unknown", "Running") and server.list(WORKLOAD) == []
    ((reason, _),) = await said(STORIES["never held"])
    assert reason == "CannotBeHeld"


async def test_a_flavor_that_a_run_cannot_follow_is_refused() -> None:
    server = (await run(STORIES["a flavor it cannot follow"])).server
    assert ended(server) == ("False", "Cancelled")
    message = get(server)["metadata"]["annotations"]["fournos.dev/stopped"]
    assert message.startswith("FailedToStart: the assigned flavor needs nodeSelector pool=a")
    assert (await run(STORIES["a flavor it follows"])).server.get(RUN, Key(NS, "run"))["spec"].get(
        "status"
    ) is None


async def test_requests_that_cannot_be_read_are_reported() -> None:
    server = (await run(STORIES["requests that are none"])).server
    ((reason, message),) = await said(STORIES["requests that are none"])
    assert reason == "InvalidRequests"
    assert message.startswith("annotation fournos.dev/requests: 'cpu' is not a request")
    assert server.list(WORKLOAD) == []


def went_meanwhile(server: Server) -> None:
    """Its Workload is there still, on its way out."""
    owner = {"apiVersion": RUN.api_version, "kind": RUN.kind, "name": "gone", "uid": "u0", "controller": True}
    meta = {"name": "w", "namespace": NS, "ownerReferences": [owner]}
    meta["finalizers"] = ["kueue.x-k8s.io/resource-in-use"]
    server.create(WORKLOAD, {"metadata": meta, "spec": {"podSets": []}})
    server.delete(WORKLOAD, Key(NS, "w"))


async def test_nothing_is_left_of_a_run_that_was_deleted_during_an_outage() -> None:
    done = await run(scenario(went_meanwhile))
    assert done.server.list(WORKLOAD) == []
    server = Server()
    went_meanwhile(server)
    server.create(RUN, pipeline_run())
    process = Process(server, framework_controller(PIPELINE_RUN))
    process.deliver(at_least=9)
    assert process.controller.collect is not None  # at start events wake nobody
    assert list(process.controller.collect(process.caches)) == [Key(NS, "gone")]


def test_what_is_left_over_is_found_beside_a_workload_of_any_shape() -> None:
    owned = {"name": "w", "namespace": NS, "uid": "w", "ownerReferences": [OWNER]}
    strange = ({"ownerReferences": [{}]}, {"ownerReferences": None}, {"ownerReferences": [{"kind": 7}]})
    bad = ({**owned, "name": f"bad-{number}", **one} for number, one in enumerate(strange))
    stores = {RUN: Store(), WORKLOAD: Store()}
    stores[WORKLOAD].replace([{"metadata": meta} for meta in (*bad, owned)], "1")
    assert list(left_over(PIPELINE_RUN)(Caches(stores))) == [Key(NS, "gone")]


OWNER = {"apiVersion": RUN.api_version, "kind": RUN.kind, "name": "gone", "uid": "u", "controller": True}


async def test_nothing_is_left_of_a_deleted_run() -> None:
    server = (await run(STORIES["deleted while it runs"])).server
    assert server.list(RUN) == [] and server.list(WORKLOAD) == []


@pytest.mark.parametrize(
    ("there", "goes"),
    [
        (Present({"metadata": {"name": "run", "namespace": NS, "uid": "u1"}}), True),  # without a queue now
        (Present({"metadata": {"name": "run", "namespace": NS, "uid": "u2"}}), False),  # another of the name
        (Present(pipeline_run()), False),  # the cache has yet to see it
        (Absent(), False),  # the garbage collector's
        (Unknown("no answer"), False),
    ],
)
def test_workloads_without_their_object(there: Answer, goes: bool) -> None:
    owner = {"apiVersion": RUN.api_version, "kind": RUN.kind, "name": "run", "uid": "u1", "controller": True}
    meta = {"name": "w", "namespace": NS, "uid": "w1", "resourceVersion": "3", "ownerReferences": [owner]}
    meta["finalizers"] = ["kueue.x-k8s.io/resource-in-use"]
    question = LiveGet(RUN, Key(NS, "run"))

    def steps(**more: str) -> tuple[Step, ...]:
        observed = Observed(question.key, None, QueueInputs(workloads=({"metadata": {**meta, **more}},)))
        assert attempt(left_behind, observed, PIPELINE_RUN, Facts()) == NeededFacts((question,))
        found = left_behind(observed, PIPELINE_RUN, Facts({question: there}))
        assert isinstance(found, Decision)
        return found.steps

    assert [type(step) for step in steps()] == ([Delete] if goes else [])
    known = there == Absent() or (isinstance(there, Present) and "uid" in there.value["metadata"])
    going = steps(deletionTimestamp="2030-01-01T00:00:00Z")
    assert [type(step) for step in going] == ([Patch] if known else [])


async def test_an_invented_kind_is_placed_and_put_back() -> None:
    server = (await run(STORIES["an invented kind"])).server
    template = get(server, "foo", FOO)["spec"]["template"]
    assert template["spec"]["nodeSelector"] == SELECTOR
    assert template["metadata"]["labels"]["kueue.x-k8s.io/podset"] == "workers"
    assert get(server, "foo", FOO)["status"]["phase"] == "Done"
    held: list[Any] = []

    def seen(server: Server) -> None:
        one = get(server, "foo", FOO)
        if one["spec"]["suspend"]:
            held.append(one["spec"]["template"])

    story = STORIES["an invented kind is preempted"]
    await run(replace(story, invariants=(*INVARIANTS, seen)))
    assert held[-1] == foo()["spec"]["template"]  # as its user wrote it
