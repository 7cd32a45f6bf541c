"""One pass: questions, failures, the status write."""

from __future__ import annotations

from typing import Any

import pytest

from fournos.engine.kube.errors import ConflictError, InvalidError, KubeError, NotLeaderError, ServerError
from fournos.engine.kube.resource import Key, Obj
from fournos.engine.runtime.decision import (
    Absent,
    Create,
    Decision,
    Delete,
    EventRecord,
    Facts,
    LiveGet,
    Patch,
    Step,
)
from fournos.engine.runtime.reconcile import Result
from tests.unit.engine.runtime.passes import NOTE, Bench, always, with_failure
from tests.unit.engine.runtime.toy import THING, TOY, TOY_KEY, thing_of
from tests.world.connection import Connection


@pytest.fixture
def bench() -> Bench:
    return Bench()


# --- status --------------------------------------------------------------------------------------------


async def test_a_status_is_written_once_and_seen_at_once(bench: Bench) -> None:
    note = EventRecord("Normal", "Started", "it runs")
    decide = always(Decision(status={"phase": "Running", "nothing": None}, events=(note,)))
    outcome = await bench.run(decide)
    assert (outcome.result, outcome.wrote_status, outcome.again) == (Result.DONE, True, True)
    assert outcome.events == (note,)
    assert bench.toy["status"] == {"phase": "Running"}
    second = await bench.run(decide)
    assert (second.wrote_status, second.again) == (False, False)
    assert bench.api.writes == ["patch toys.test.dev/status ns/toy"]


async def test_only_what_differs_is_written(bench: Bench) -> None:
    bench.server.patch(TOY, TOY_KEY, {"status": {"a": 1, "b": {"x": 1, "y": 2}}}, subresource="status")
    bench.see()
    bench.server.patch(TOY, TOY_KEY, {"spec": {"more": True}})
    conflict = await bench.run(always(Decision(status={"b": {"x": 1, "z": 3}}, events=(NOTE,))))
    assert (conflict.result, conflict.retry, conflict.events) == (Result.CONFLICT, True, ())
    bench.see()
    bodies: list[Obj] = []
    bench.server.refusals.append(lambda verb, resource, body: bodies.append(body))  # type: ignore[func-returns-value]
    assert (await bench.run(always(Decision(status={"b": {"x": 1, "z": 3}})))).result is Result.DONE
    assert bodies[0]["status"] == {"a": None, "b": {"y": None, "z": 3}}
    assert bench.toy["status"] == {"b": {"x": 1, "z": 3}}


async def test_a_status_that_the_api_server_changes_is_no_hot_loop(bench: Bench) -> None:
    class Pruning(Connection):
        async def patch(self, *args: Any, **options: Any) -> Obj:
            answer = dict(await super().patch(*args, **options))
            return answer | {"status": {}}

    bench.api = Pruning(bench.server)
    outcome = await bench.run(always(Decision(status={"unknown": "field"})))
    assert outcome.wrote_status
    assert not outcome.again


async def test_an_object_that_is_gone_needs_no_status(bench: Bench) -> None:
    assert (await bench.run(always(Decision()), key=Key("ns", "nobody"))).result is Result.GONE
    bench.server.delete(TOY, TOY_KEY)
    outcome = await bench.run(always(Decision(status={"phase": "Late"})))
    assert (outcome.result, outcome.retry) == (Result.GONE, False)


@pytest.mark.parametrize("error", [ServerError("down", status=503, retry_after=3), InvalidError("bad")])
async def test_a_status_that_cannot_be_written_is_tried_again_without_events(
    bench: Bench, error: KubeError
) -> None:
    bench.refuse("patch", error)
    outcome = await bench.run(always(Decision(status={"phase": "X"}, events=(NOTE,))))
    assert (outcome.result, outcome.retry, outcome.events) == (Result.FAILED, True, ())
    assert outcome.retry_after == (getattr(error, "retry_after", None) or 0)


# --- questions -----------------------------------------------------------------------------------------


async def test_answers_come_in_the_same_pass(bench: Bench) -> None:
    question = LiveGet(THING, Key("ns", "none"))

    def decide(toy: Obj, facts: Facts) -> Decision:
        return Decision(status={"answer": repr(facts.require(question))})

    await bench.run(decide)
    assert bench.toy["status"] == {"answer": repr(Absent())}


async def test_independent_questions_are_one_round(bench: Bench) -> None:
    questions = [LiveGet(THING, Key("ns", name)) for name in "abcdef"]

    def decide(toy: Obj, facts: Facts) -> Decision:
        first, second, *_ = facts.require_all(questions)
        assert facts.require(questions[0], questions[1]) == (first, second)
        return Decision(status={"n": len(facts.answers)})

    assert (await bench.run(decide)).result is Result.DONE
    assert bench.toy["status"] == {"n": 6}


async def test_no_handler_of_errors_swallows_a_question(bench: Bench) -> None:
    def decide(toy: Obj, facts: Facts) -> Decision:
        try:
            found = facts.require(LiveGet(THING, Key("ns", "none")))
        except Exception:
            return Decision(status={"answer": "swallowed"})
        return Decision(status={"answer": repr(found)})

    await bench.run(decide)
    assert bench.toy["status"] == {"answer": repr(Absent())}


async def test_an_exception_is_kept_to_its_key(bench: Bench, caplog: pytest.LogCaptureFixture) -> None:
    def decide(toy: Obj, facts: Facts) -> Decision:
        raise KeyError("spec")

    outcome = await bench.run(decide)
    assert outcome.result is Result.BUG
    assert isinstance(outcome.error, KeyError)
    assert "a pass raised KeyError" in caplog.text
    assert "Traceback" in caplog.text


# --- failing steps -------------------------------------------------------------------------------------


async def test_a_transient_failure_is_reported_but_its_steps_wait(bench: Bench) -> None:
    seen: list[Facts] = []
    bench.refuse("create", ServerError("down", status=503, retry_after=2))
    thing = Create(THING, thing_of(bench.toy))
    then = Decision(steps=(thing,), status={"message": "trouble"}, events=(NOTE,))
    outcome = await bench.run(with_failure((thing,), then, seen), failures=4)
    assert (outcome.result, outcome.retry, outcome.again) == (Result.FAILED, True, False)
    assert outcome.retry_after == 2
    assert outcome.events == (NOTE,)
    assert bench.toy["status"] == {"message": "trouble"}
    assert bench.server.list(THING) == []
    failure = seen[-1].failure
    assert failure is not None
    assert (failure.step, failure.count, failure.transient) == (thing, 5, True)


async def test_a_lasting_failure_is_decided_upon_and_its_steps_are_run(bench: Bench) -> None:
    seen: list[Facts] = []
    bench.refuse("create", InvalidError("spec.x: no", status=422))
    toy = bench.toy
    mark = Patch(TOY, TOY_KEY, {"metadata": {"resourceVersion": toy["metadata"]["resourceVersion"]}})
    then = Decision(steps=(mark,), status={"phase": "Failed", "message": "spec.x: no"})
    outcome = await bench.run(with_failure((Create(THING, thing_of(toy)),), then, seen))
    assert (outcome.result, outcome.retry, outcome.again) == (Result.FAILED, False, True)
    assert [step for step, _ in outcome.done] == [mark]
    assert bench.toy["status"]["phase"] == "Failed"


async def test_a_conflict_does_not_ask_the_decision_again(bench: Bench) -> None:
    seen: list[Facts] = []
    bench.refuse("patch", ConflictError("stale", status=409))
    outcome = await bench.run(
        with_failure((Patch(TOY, TOY_KEY, {"metadata": {"labels": {}}}),), Decision(), seen)
    )
    assert (outcome.result, outcome.retry) == (Result.CONFLICT, True)
    assert [facts.failure for facts in seen] == [None]


async def test_lost_leadership_is_not_swallowed(bench: Bench) -> None:
    bench.refuse("delete", NotLeaderError("fenced"))
    with pytest.raises(NotLeaderError):
        await bench.run(always(Decision(steps=(Delete(TOY, TOY_KEY, "uid-1"),))))


async def test_a_decision_that_created_runs_once_more_since_its_event_is_an_echo(bench: Bench) -> None:
    outcome = await bench.run(always(Decision(steps=(Create(THING, thing_of(bench.toy)),))))
    assert outcome.again
    assert not (await bench.run(always(Decision(steps=(Create(THING, thing_of(bench.toy)),))))).again


def touched(**metadata: str) -> Patch:
    return Patch(TOY, TOY_KEY, {"metadata": {"labels": {"a": "b"}, **metadata}})


@pytest.mark.parametrize(
    ("step", "existed", "status", "again"),
    [
        ("create", False, None, False),
        ("create", True, None, True),  # adopted: it may have gone on since it was made
        ("create", False, {"phase": "Running"}, True),  # the next decision reads the status
        ("guarded patch", False, None, False),
        ("patch", False, None, True),  # the response may show another client's change
    ],
)
async def test_a_settled_decision_runs_again_for_what_it_has_not_foreseen_only(
    bench: Bench, step: str, existed: bool, status: Obj | None, again: bool
) -> None:
    if existed:
        bench.server.create(THING, thing_of(bench.toy))
    steps: dict[str, Step] = {
        "create": Create(THING, thing_of(bench.toy)),
        "patch": touched(),
        "guarded patch": touched(resourceVersion=bench.toy["metadata"]["resourceVersion"]),
    }
    outcome = await bench.run(always(Decision((steps[step],), status=status, settled=True)))
    assert (outcome.result, outcome.again) == (Result.DONE, again)


async def test_a_settled_decision_whose_step_failed_runs_again_for_the_steps_before(bench: Bench) -> None:
    bench.refuse("delete", InvalidError("no", status=422), times=2)
    steps = (Create(THING, thing_of(bench.toy)), Delete(TOY, TOY_KEY, "uid-1"))

    def decide(toy: Obj, facts: Facts) -> Decision:
        return Decision(settled=True) if facts.failure else Decision(steps, settled=True)

    assert (await bench.run(decide)).again


async def test_retry_comes_with_backoff_once_nothing_is_left_to_write(bench: Bench) -> None:
    decide = always(Decision(status={"phase": "Waits"}, retry=True))
    first = await bench.run(decide)
    assert (first.again, first.retry) == (True, False)
    second = await bench.run(decide)
    assert (second.again, second.retry) == (False, True)


async def test_a_failure_is_retried_with_backoff_although_a_step_before_it_was_news(bench: Bench) -> None:
    bench.refuse("patch", InvalidError("no", status=422))
    steps = (Create(THING, thing_of(bench.toy)), Patch(TOY, TOY_KEY, {"spec": {"x": 1}}))
    outcome = await bench.run(with_failure(steps, Decision(retry=True), []))
    assert len(outcome.done) == 1
    assert (outcome.again, outcome.retry) == (False, True)
