"""All that a pass returns that did not reach its end, or whose status was written between other writes."""

from __future__ import annotations

from typing import Any

import pytest

from fournos.kube.errors import InvalidError, ServerError
from fournos.kube.resource import Obj, key_of
from fournos.runtime.act import Waiting
from fournos.runtime.decision import Decision, Facts, StepFailure
from fournos.runtime.reconcile import Outcome, Result
from fournos.runtime.steps import Create, Patch, Step
from tests.unit.runtime.passes import NOTE, Bench, always, with_failure
from tests.unit.runtime.toy import THING, TOY, TOY_KEY, thing_of


@pytest.fixture
def bench() -> Bench:
    return Bench()


def labelled(value: str, **metadata: Any) -> Patch:
    """A patch of the toy itself."""
    return Patch(TOY, TOY_KEY, {"metadata": {"labels": {"l": value}, **metadata}})


def done(outcome: Outcome) -> list[Step]:
    return [step for step, _ in outcome.done]


async def test_a_name_that_is_still_taken(bench: Bench) -> None:
    thing = thing_of(bench.toy)
    thing["metadata"]["finalizers"] = ["test.dev/slow"]
    bench.server.create(THING, thing)
    bench.server.delete(THING, key_of(thing))
    first, taken = labelled("a"), Create(THING, thing_of(bench.toy))
    primary = bench.toy
    outcome = await bench.run(always(Decision(steps=(first, taken), events=(NOTE,))))
    assert outcome.waiting is not None
    assert outcome == Outcome(
        Result.WAITING,
        object=primary,
        done=((first, bench.toy),),
        waiting=Waiting(taken, outcome.waiting.reason),
        retry=True,
    )


async def test_a_step_that_fails_in_the_second_decision(bench: Bench) -> None:
    """After a failure that lasts, the pass acts once more; a failure then ends it."""
    errors = [InvalidError("no", status=422), ServerError("down", status=503, retry_after=7)]
    bench.server.refusals.append(lambda verb, *_: errors.pop(0) if verb == "create" and errors else None)
    thing, first = Create(THING, thing_of(bench.toy)), labelled("a")
    primary = bench.toy
    then = Decision(steps=(first, thing), status={"phase": "Failed"}, events=(NOTE,))
    outcome = await bench.run(with_failure((thing,), then, []), failures=2)
    assert outcome == Outcome(
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


async def test_a_patch_without_a_precondition_does_not_count_as_seen(bench: Bench) -> None:
    """What another client wrote before that patch has not been decided upon."""
    outcome = await bench.run(always(Decision(steps=(labelled("a"),), status={"phase": "Claimed"})))
    assert (outcome.result, done(outcome)) == (Result.CONFLICT, [labelled("a")])
