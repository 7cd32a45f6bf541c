"""Runs of one schedule that was changed between them: the change stands first in a comparison."""

from __future__ import annotations

from typing import Any

import pytest

from fournos.history.compare.comparison import compare
from fournos.history.compare.differences import ComparedRun, Section, differences
from fournos.history.compare.formats import FORMATS
from fournos.history.compare.origins import ScheduleOrigin, origin_of
from fournos.history.fingerprint import Fingerprint
from tests.unit.systems.schedules.test_children import made

NIGHTLY = "uid-nightly"


def run(name: str, generation: str, uid: str = NIGHTLY, **more: Any) -> ComparedRun:
    origin = ScheduleOrigin(uid.removeprefix("uid-"), uid, generation) if generation else None
    return ComparedRun(name, Fingerprint(pipeline=name), schedule=origin, **more)


def first(*runs: ComparedRun) -> str:
    return str(differences(runs)[0])


def test_a_changed_schedule_is_the_first_difference_in_every_format() -> None:
    runs = [run("a", "3", spec={"env": {"A": "1"}}), run("b", "4", spec={"env": {"A": "2"}})]
    found = differences(runs)
    assert (found[0].section, found[0].values) == (Section.PROVENANCE, ("3", "4"))
    assert found[1].section is Section.FINGERPRINT
    for name in ("text", "json"):
        text = FORMATS[name](compare(runs, {}))
        assert text.index("schedule nightly was changed (generation 3 → 4)") < text.index("env.A"), name


def test_of_several_runs_each_generation_is_named_once() -> None:
    runs = [run("a", "3"), run("b", "3"), run("c", ""), run("d", "5"), run("e", "7", "uid-weekly")]
    assert first(*runs) == "schedule nightly was changed (generation 3 → 5): 3 | 3 | - | 5 | -"


@pytest.mark.parametrize(
    "others",
    [[run("b", "3")], [run("b", "")], [run("b", "4", "uid-again")]],
    ids=["same generation", "submitted by somebody", "another schedule of that name"],
)
def test_nothing_is_said_of_a_schedule_that_was_not_changed(others: list[ComparedRun]) -> None:
    assert first(run("a", "3"), *others).startswith("pipeline: ")


def test_the_origin_is_read_from_what_the_operator_writes() -> None:
    (job,) = made()
    assert origin_of(job) == ScheduleOrigin("nightly", "uid-1", "7")
    del job["metadata"]["annotations"]
    assert origin_of(job) is origin_of({"spec": {}}) is None
