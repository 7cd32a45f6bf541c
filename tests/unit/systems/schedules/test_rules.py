"""The rules of a FournosSchedule in Python; tests/integration/schedules feeds the same to an API server."""

from __future__ import annotations

from typing import Any

import pytest

from fournos.api.fournosschedule import FournosScheduleSpec
from fournos.systems.schedules.build import problem
from fournos.systems.schedules.rules import RULES, check_manifest
from tests.unit.systems.schedules.actors import schedule
from tests.unit.systems.schedules.cases import CREATIONS


def test_every_rule_has_a_case() -> None:
    assert {rule for rule, _, _ in CREATIONS} == {rule.id for rule in RULES}


@pytest.mark.parametrize(("rule", "bad", "good"), CREATIONS)
def test_creation(rule: str, bad: Any, good: Any) -> None:
    assert [violation.rule for violation in check_manifest(bad)] == [rule]
    assert check_manifest(good) == []


@pytest.mark.parametrize("field", ["schedules", "timeZone", "jobTemplate"])
def test_required(field: str) -> None:
    made = schedule()
    del made["spec"][field]
    assert check_manifest(made)


@pytest.mark.parametrize(
    ("spec", "text"),
    [
        ({"schedules": []}, "spec.schedules: write at least 1 item"),
        ({"matrix": {"params.a": []}}, "spec.matrix.params.a: write at least 1 item"),
        ({"schedules": ["@daily"] * 17}, "spec.schedules: write at most 16 items"),
    ],
)
def test_bounds_of_the_schema(spec: Any, text: str) -> None:
    assert [str(violation) for violation in check_manifest(schedule(**spec))] == [text]


@pytest.mark.parametrize(
    ("spec", "text"),
    [
        ({"schedules": ["0 0 31 2 *"]}, "Bad day-of-month"),
        ({"timeZone": "Europe/Bonn"}, "no time zone of the IANA database"),
        ({"matrix": {"params.a": [1] * 9, "params.b": [1] * 8}}, "72 combinations: write 1 to 64"),
        ({"matrix": {"params..a": [1]}}, "no path of a field"),
    ],
)
def test_what_only_the_operator_knows(spec: Any, text: str) -> None:
    made = schedule(**spec)
    assert check_manifest(made) == []
    assert text in problem(FournosScheduleSpec.model_validate(made["spec"]))


def test_a_schedule_that_can_work_has_no_problem() -> None:
    matrix = {"params.a": list(range(8)), "params.b": list(range(8))}
    made = schedule(matrix=matrix)
    assert check_manifest(made) == []
    assert problem(FournosScheduleSpec.model_validate(made["spec"])) == ""
