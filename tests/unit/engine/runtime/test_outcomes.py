"""All that a pass returns that did not reach its end, or whose status was written between other writes."""

from __future__ import annotations

import json
import logging
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

import pytest

from fournos.engine.api.conditions import condition
from fournos.engine.kube.api import Api
from fournos.engine.kube.errors import (
    ConnectionLostError,
    ForbiddenError,
    InvalidError,
    KubeError,
    ServerError,
)
from fournos.engine.kube.resource import Key, Obj, key_of
from fournos.engine.runtime.act import NameWait
from fournos.engine.runtime.decision import Create, Custom, Decision, Facts, LiveGet, Patch, Step, StepFailure
from fournos.engine.runtime.logs import JsonFormatter
from fournos.engine.runtime.reconcile import PassOutcome, Result
from tests.unit.engine.runtime.passes import NOTE, NOW, Bench, always, with_failure
from tests.unit.engine.runtime.toy import THING, TOY, TOY_KEY, thing_of


@pytest.fixture
def bench() -> Bench:
    return Bench()


def labelled(value: str, **metadata: Any) -> Patch:
    """A patch of the toy itself."""
    return Patch(TOY, TOY_KEY, {"metadata": {"labels": {"l": value}, **metadata}})


def done(outcome: PassOutcome) -> list[Step]:
    return [step for step, _ in outcome.done]


async def test_a_name_that_is_still_taken(bench: Bench) -> None:
    thing = thing_of(bench.toy)
    thing["metadata"]["finalizers"] = ["test.dev/slow"]
    bench.server.create(THING, thing)
    bench.server.delete(THING, key_of(thing))
    first, taken = labelled("a"), Create(THING, thing_of(bench.toy))
    primary = bench.toy
    decision = Decision(steps=(first, taken), status={"phase": "Running"}, events=(NOTE,))
    outcome = await bench.run(always(decision))
    assert outcome.waiting is not None
    assert outcome == PassOutcome(
        Result.WAITING,
        object=primary,
        done=((first, bench.toy),),
        waiting=NameWait(taken, outcome.waiting.reason),
        retry=True,
    )
    assert "status" not in bench.toy


async def test_a_step_that_fails_in_the_second_decision(bench: Bench) -> None:
    """After a failure that lasts, the pass acts once more; a failure then ends it."""
    errors = [InvalidError("no", status=422), ServerError("down", status=503, retry_after=7)]
    bench.server.refusals.append(lambda verb, *_: errors.pop(0) if verb == "create" and errors else None)
    thing, first = Create(THING, thing_of(bench.toy)), labelled("a")
    primary = bench.toy
    then = Decision(steps=(first, thing), status={"phase": "Failed"}, events=(NOTE,))
    outcome = await bench.run(with_failure((thing,), then, []), failures=2)
    assert outcome == PassOutcome(
        Result.FAILED,
        object=primary,
        done=((first, bench.toy),),
        failure=StepFailure(thing, "ServerError", "down", transient=True, count=3),
        retry=True,
        retry_after=7.0,
    )


@pytest.mark.parametrize("failing", [False, True])
async def test_an_object_that_is_gone_when_its_status_is_written(bench: Bench, failing: bool) -> None:
    primary = bench.toy
    thing, other = (Create(THING, thing_of(primary, name=name)) for name in ("thing", "other"))

    def decide(toy: Obj, facts: Facts) -> Decision:
        if bench.server.find(TOY, TOY_KEY):
            bench.server.delete(TOY, TOY_KEY)
        return Decision(steps=(thing, other), status={"phase": "Late"}, events=(NOTE,))

    down = ServerError("down", status=503)
    bench.server.refusals.append(
        lambda _verb, _resource, body: down if failing and body == other.body else None
    )
    outcome = await bench.run(decide)
    assert (outcome.result, outcome.object, outcome.retry, outcome.events) == (
        Result.GONE,
        primary,
        False,
        (),
    )
    assert done(outcome) == ([thing] if failing else [thing, other])
    failure = StepFailure(other, "ServerError", "down", transient=True, count=1)
    assert outcome.failure == (failure if failing else None)


async def test_a_status_follows_the_conditional_patches_of_its_pass(bench: Bench) -> None:
    """Each has the version before it as its precondition, and so has the status."""
    bodies: list[Obj] = []
    bench.server.refusals.append(lambda verb, resource, body: bodies.append(body))  # type: ignore[func-returns-value]
    version = bench.toy["metadata"]["resourceVersion"]
    later = str(int(version) + 1)
    steps = (labelled("a", resourceVersion=version), labelled("b", resourceVersion=later))
    outcome = await bench.run(always(Decision(steps=steps, status={"phase": "Claimed"})))
    assert outcome.result is Result.DONE
    assert bodies[-1]["metadata"]["resourceVersion"] == str(int(version) + 2)


# --- other ends ------------------------------------------------------------------------------------------


async def test_an_object_that_is_gone_when_it_is_patched(bench: Bench) -> None:
    """The decision is not asked about it; the cache still has the object."""
    primary, calls = bench.toy, []
    thing = Create(THING, thing_of(primary))

    def decide(toy: Obj, facts: Facts) -> Decision:
        calls.append(facts.failure)
        bench.server.delete(TOY, TOY_KEY)
        return Decision(steps=(thing, labelled("a")), status={"phase": "Late"})

    outcome = await bench.run(decide)
    (made,) = bench.server.list(THING)
    assert outcome == PassOutcome(Result.GONE, object=primary, done=((thing, made),))
    assert calls == [None]


async def test_another_object_that_is_gone_when_it_is_patched_is_a_failure(bench: Bench) -> None:
    seen: list[Facts] = []
    step = Patch(THING, TOY_KEY, {"metadata": {"labels": {"l": "a"}}})
    outcome = await bench.run(with_failure((step,), Decision(), seen))
    assert outcome.result is Result.FAILED
    assert [one.failure.error for one in seen if one.failure] == ["NotFoundError"]


async def test_a_status_of_an_object_that_has_changed(bench: Bench) -> None:
    """A patch without a precondition hides no write of another client from the status."""
    outcome = await bench.run(always(Decision(steps=(labelled("a"),), status={"phase": "Claimed"})))
    assert outcome == PassOutcome(Result.CONFLICT, done=((labelled("a"), bench.toy),), retry=True)


async def test_an_exception_after_steps_were_done(bench: Bench) -> None:
    def written(primary: Obj, now: Obj) -> None:
        raise KeyError("status")

    made = Create(THING, thing_of(bench.toy))
    decision = Decision(steps=(made,), status={"phase": "Done"})
    outcome = await bench.run(always(decision), written=written)
    assert (outcome.result, done(outcome), outcome.retry) == (Result.BUG, [made], True)
    assert isinstance(outcome.error, KeyError)


@pytest.mark.parametrize(
    ("error", "after", "level"),
    [
        (ServerError("down", status=503, retry_after=3), 3, "DEBUG"),
        (InvalidError("bad", status=422), 0, "WARNING"),
    ],
)
async def test_a_status_that_cannot_be_written(
    bench: Bench, error: KubeError, after: float, level: str, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("DEBUG")
    bench.refuse("create", InvalidError("no", status=422))
    bench.refuse("patch", error)
    primary, refused = bench.toy, Create(THING, thing_of(bench.toy))
    made = Create(THING, thing_of(bench.toy, name="made"))
    then = Decision(steps=(made,), status={"phase": "Failed"}, events=(NOTE,))
    outcome = await bench.run(with_failure((refused,), then, []))
    (thing,) = bench.server.list(THING)
    assert outcome == PassOutcome(
        Result.FAILED,
        object=primary,
        done=((made, thing),),
        failure=StepFailure(refused, "InvalidError", "no", transient=False, count=1),
        retry=True,
        retry_after=after,
        error=error,
    )
    levels = {record.getMessage(): record.levelname for record in caplog.records}
    assert levels[f"status not written: {error.message}"] == level


async def test_the_longer_of_two_waits_counts(bench: Bench) -> None:
    bench.refuse("create", ServerError("down", status=503, retry_after=9))
    bench.refuse("patch", ServerError("down", status=503, retry_after=3))
    thing = Create(THING, thing_of(bench.toy))
    outcome = await bench.run(with_failure((thing,), Decision(status={"phase": "X"}), []))
    assert outcome.retry_after == 9


# --- what a whole pass returns and logs ------------------------------------------------------------------


async def test_a_pass_returns_the_object_as_it_is_now(bench: Bench) -> None:
    seen: list[tuple[Obj, Obj]] = []
    before = bench.toy
    decide = always(Decision(status={"phase": "Running"}))
    first = await bench.run(decide, written=lambda primary, now: seen.append((primary, now)))
    assert first.object == bench.toy
    assert seen == [(before, bench.toy)]
    second = await bench.run(decide)
    assert (second.object, second.wrote_status) == (bench.toy, False)


@dataclass(frozen=True, slots=True)
class Ring(Custom):
    """A step of this controller alone."""

    tone: str


async def test_a_custom_step_is_executed_by_its_controller(bench: Bench) -> None:
    rung: list[str] = []

    async def ring(step: Ring, api: Api) -> None:
        assert api is bench.api
        rung.append(step.tone)

    outcome = await bench.run(always(Decision(steps=(Ring("a"),))), executors={Ring: ring})
    assert (outcome.result, rung) == (Result.DONE, ["a"])


class Foreseen(Ring):
    """Its decision knows what it changes."""

    foreseen = True


@pytest.mark.parametrize("settled", [False, True])
@pytest.mark.parametrize("step", [Ring("a"), Foreseen("a")])
async def test_a_custom_step_is_followed_by_another_pass_unless_its_decision_is_settled_and_foresees_it(
    bench: Bench, step: Ring, settled: bool
) -> None:
    async def ring(step: Ring, api: Api) -> None: ...

    outcome = await bench.run(
        always(Decision(steps=(step,), settled=settled)), executors={Ring: ring, Foreseen: ring}
    )
    assert outcome.again == (not settled or not step.foreseen)


@pytest.mark.parametrize(
    ("error", "level"),
    [(ServerError("down", status=503), "DEBUG"), (InvalidError("no", status=422), "WARNING")],
)
async def test_a_failed_step_is_logged(
    bench: Bench, error: KubeError, level: str, caplog: pytest.LogCaptureFixture
) -> None:
    """One that ends by itself only for those who look for it: an outage makes thousands."""
    caplog.set_level("DEBUG")
    bench.refuse("create", error)
    await bench.run(with_failure((Create(THING, thing_of(bench.toy)),), Decision(), []))
    levels = {record.getMessage(): record.levelname for record in caplog.records}
    assert levels[f"Create failed: {type(error).__name__}: {error.message}"] == level


async def test_a_patch_of_an_object_that_is_gone_is_no_warning(
    bench: Bench, caplog: pytest.LogCaptureFixture
) -> None:
    bench.server.delete(TOY, TOY_KEY)
    await bench.run(always(Decision(steps=(labelled("a"),))))
    assert [record for record in caplog.records if record.levelname == "WARNING"] == []


async def test_lines_of_a_pass_name_its_object(bench: Bench) -> None:
    lines: list[dict[str, Any]] = []

    def decide(toy: Obj, facts: Facts) -> Decision:
        record = logging.makeLogRecord({"name": "x", "msg": "decided"})
        lines.append(json.loads(JsonFormatter().format(record)))
        return Decision()

    await bench.run(decide)
    named = {name: lines[0].get(name) for name in ("system", "kind", "namespace", "name", "uid")}
    assert named == {"system": "toys", "kind": "Toy", "namespace": "ns", "name": "toy", "uid": "uid-1"}


async def test_all_decisions_of_a_pass_have_one_object_and_one_time(bench: Bench) -> None:
    bench.refuse("create", InvalidError("no", status=422))
    primary, thing = bench.toy, Create(THING, thing_of(bench.toy))
    await bench.run(with_failure((thing,), Decision(), []))
    assert bench.decided == [(primary, NOW)] * 2


@pytest.mark.parametrize("status", [None, {"phase": "Running"}])
async def test_a_pass_returns_the_deadline_of_its_decision(bench: Bench, status: Any) -> None:
    at = NOW + timedelta(seconds=7)
    outcome = await bench.run(always(Decision(status=status, wake_at=at)))
    assert outcome.wake_at == at


async def test_a_decision_has_three_rounds_of_answers(bench: Bench) -> None:
    rounds: list[int] = []

    def decide(toy: Obj, facts: Facts) -> Decision:
        rounds.append(len(facts.answers))
        facts.require(LiveGet(THING, Key("ns", str(len(facts.answers)))))
        raise AssertionError("never answered")

    outcome = await bench.run(decide)
    assert rounds == [0, 1, 2, 3]
    assert (outcome.result, outcome.retry) == (Result.BUG, True)
    assert str(outcome.error) == "toys does not decide after 3 rounds of answers"


async def test_a_question_that_was_answered_is_not_asked_again(bench: Bench) -> None:
    def decide(toy: Obj, facts: Facts) -> Decision:
        Facts({}).require(LiveGet(THING, TOY_KEY))  # past the answers
        raise AssertionError("never answered")

    outcome = await bench.run(decide)
    assert str(outcome.error) == "toys requires again facts that it already has"


# --- refused ----------------------------------------------------------------------------------------
# A write that is refused again and again: a condition in the one status write of a pass, and one Event.


OURS: dict[str, Any] = {"owns_status": lambda toy: True}
NO = InvalidError("spec.x: no", status=422)
TEXT = "Create failed 3 times in a row, retrying: spec.x: no"


def retrying(bench: Bench) -> tuple[str, str, str] | None:
    found = condition(bench.toy, "Retrying")
    return None if found is None else (found["status"], found["reason"], found["message"])


def insisting(bench: Bench, **status: Any) -> Any:
    """Decides the same whether the creation failed or not, as most policies do."""
    return always(Decision(steps=(Create(THING, thing_of(bench.toy)),), status=status or None, retry=True))


def writes(bench: Bench) -> int:
    return bench.server.version


async def test_the_third_refusal_is_reported_the_next_writes_nothing_and_a_success_ends_it(
    bench: Bench,
) -> None:
    bench.refuse("create", NO, times=100)
    decide = insisting(bench)
    for failures in (0, 1):
        quiet = await bench.run(decide, failures=failures, **OURS)
        assert (quiet.events, quiet.wrote_status, quiet.retry) == ((), False, True)
    reported = await bench.run(decide, failures=2, **OURS)
    assert [(event.type, event.reason, event.message) for event in reported.events] == [
        ("Warning", "InvalidError", TEXT)
    ]
    assert retrying(bench) == ("True", "InvalidError", TEXT) and reported.retry and not reported.again
    before = writes(bench)
    again = await bench.run(decide, failures=3, **OURS)
    assert (again.events, again.wrote_status, writes(bench)) == ((), False, before)
    bench.server.refusals.clear()
    over = await bench.run(decide, failures=4, **OURS)
    assert over.events == () and retrying(bench) == ("False", "Recovered", "")


async def test_another_refusal_is_reported_anew(bench: Bench) -> None:
    bench.refuse("create", NO, times=2)
    await bench.run(insisting(bench), failures=5, **OURS)
    bench.refuse("create", ForbiddenError("a policy forbids it", status=403), times=2)
    outcome = await bench.run(insisting(bench), failures=6, **OURS)
    assert [event.reason for event in outcome.events] == ["ForbiddenError"]
    found = retrying(bench)
    assert found is not None and found[:2] == ("True", "ForbiddenError")


async def test_what_the_decision_says_of_the_failure_stays_and_one_write_has_both(bench: Bench) -> None:
    bench.refuse("create", NO)
    first = Create(THING, thing_of(bench.toy))

    def decide(toy: Any, facts: Any) -> Decision:
        if facts.failure is None:
            return Decision(steps=(first,))
        return Decision(status={"message": "waits"}, retry=True)

    before = writes(bench)
    await bench.run(decide, failures=7, **OURS)
    assert writes(bench) == before + 1
    assert bench.toy["status"]["message"] == "waits" and retrying(bench) is not None


async def test_conditions_keep_their_places(bench: Bench) -> None:
    ready = {"type": "Ready", "status": "False", "reason": "No", "message": "", "lastTransitionTime": "x"}
    bench.refuse("create", NO, times=2)
    await bench.run(insisting(bench), failures=3, **OURS)
    await bench.run(always(Decision(status={"conditions": [ready]}, retry=True)), failures=4, **OURS)
    assert [one["type"] for one in bench.toy["status"]["conditions"]] == ["Retrying", "Ready"]


@pytest.mark.parametrize("error", [ConnectionLostError("gone"), NO])
async def test_what_is_transient_or_not_ours_gets_no_condition(bench: Bench, error: KubeError) -> None:
    bench.refuse("create", error, times=100)
    owned = OURS if isinstance(error, ConnectionLostError) else {}
    events = [(await bench.run(insisting(bench), failures=failures, **owned)).events for failures in range(5)]
    assert retrying(bench) is None
    refused = [len(one) for one in events]
    assert refused == ([0, 0, 0, 0, 0] if owned else [0, 0, 1, 0, 0])


async def test_a_refused_step_leaves_the_steps_before_it_done(bench: Bench) -> None:
    """The status follows the version that our own conditional patch made."""
    version = bench.toy["metadata"]["resourceVersion"]
    mark = Patch(TOY, TOY_KEY, {"metadata": {"resourceVersion": version, "labels": {"a": "b"}}})
    bench.refuse("create", NO, times=1)
    body = thing_of(bench.toy)
    first = always(Decision(steps=(mark, Create(THING, body)), retry=True))
    outcome = await bench.run(first, failures=3, **OURS)
    assert outcome.done and bench.toy["metadata"]["labels"] == {"a": "b"}
