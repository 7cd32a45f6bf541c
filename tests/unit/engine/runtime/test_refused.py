"""A write that is refused again and again: a condition in the one status write of a pass, and one Event."""

from __future__ import annotations

from typing import Any

import pytest

from fournos.engine.api.conditions import condition
from fournos.engine.kube.errors import ConnectionLostError, ForbiddenError, InvalidError, KubeError
from fournos.engine.runtime.decision import Create, Decision, Patch
from tests.unit.engine.runtime.passes import Bench, always
from tests.unit.engine.runtime.toy import THING, TOY, TOY_KEY, thing_of


@pytest.fixture
def bench() -> Bench:
    return Bench()


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
