"""Values of many runs, grouped by fields of theirs."""

from __future__ import annotations

from typing import Any

import pytest

from fournos.history.results.models import RunValues
from fournos.web.pages.kpis import MOST, Sample, groupings, samples, table
from tests.history import a_run, ended, measured_value


def measured(number: int, value: float, *, gpus: int = 1, model: str = "a", **more: Any) -> RunValues:
    """A run; `more` are further fields of it, or labels of its test."""
    labels = {"version": f"v1.{number // 4}", **more.pop("labels", {})}
    run = ended(a_run(number, owner="ann", target="c1"), **more)
    fields = {"params": {"model": model, "users": [1, 2]}, "env": None, "hardware": {"gpuCount": gpus}}
    return RunValues(run, (measured_value("tput", value, "tok/s", True, labels),), fields)


MATRIX = [
    measured(number, 100.0 * gpus + number, gpus=gpus, model=model)
    for number, (gpus, model) in enumerate((gpus, model) for gpus in (8, 16, 2) for model in ("b", "a"))
][::-1]


def test_the_fields_in_which_runs_differ_are_offered_the_axes_of_a_matrix_first() -> None:
    assert groupings(samples(MATRIX)) == ["hardware.gpuCount", "params.model", "test.version"]
    many = [measured(number, 1.0, model=f"m{number}") for number in range(MOST + 1)]
    assert groupings(samples(many)) == ["test.version"], (
        "a field with a value of its own for each run is none"
    )
    assert groupings([]) == []


def test_two_fields_are_a_heat_map_with_numbers_by_size() -> None:
    heat = table(samples(MATRIX), "hardware.gpuCount", "params.model")
    assert [row for row, _ in heat.rows] == ["2", "8", "16"], "numbers by size"
    assert heat.columns == ["b", "a"], "texts as the oldest runs have them"
    assert [[group.middle if group else "" for group in groups] for _, groups in heat.rows] == [
        ["204", "205"],
        ["800", "801"],
        ["1602", "1603"],
    ]
    assert [[group.shade if group else 0 for group in groups] for _, groups in heat.rows] == [
        [1, 1],
        [3, 3],
        [5, 5],
    ]
    assert (heat.unit, heat.better, heat.plot) == ("tok/s", "higher is better", None)
    holes = table(samples(MATRIX[:3]), "hardware.gpuCount", "params.model")
    assert [[group is not None for group in groups] for _, groups in holes.rows] == [
        [True, True],
        [True, False],
    ]


def test_one_field_has_median_lowest_and_highest() -> None:
    by_version = table(samples(MATRIX), "test.version")
    assert [row for row, _ in by_version.rows] == ["v1.0", "v1.1"], (
        "versions in the order of their first runs"
    )
    ((first,), (second,)) = (groups for _, groups in by_version.rows)
    assert first is not None and second is not None
    assert (first.lowest, first.middle, first.highest, first.number) == ("800", "1201.5", "1603", 4)
    assert second.text == "median of 2 values from 204 to 205"
    assert second.link == "/compare?job=bench/uid-4&job=bench/uid-5"
    assert by_version.plot is not None and by_version.plot.labels == ["v1.0", "v1.1"]
    assert [line.points for line in by_version.plot.lines] == [
        [(0.0, 1201.5), (1.0, 204.5)],
        [(0.0, 800.0), (1.0, 204.0)],
        [(0.0, 1603.0), (1.0, 205.0)],
    ]


def test_a_group_of_one_run_leads_to_it() -> None:
    ((_, (group,)), _) = table(samples(MATRIX[:2]), "params.model").rows
    assert group is not None and group.text == "1 value"
    assert group.link == "/jobs/bench/job-4?uid=uid-4"


def test_values_of_tests_that_failed_are_left_out() -> None:
    failed = RunValues(a_run(1), (measured_value("tput", 1.0, success=False),), {})
    assert samples([failed]) == []


@pytest.mark.parametrize(("value", "text"), [(True, "true"), (1.5, "1.5"), ("x", "x"), ({"a": 1}, None)])
def test_scalars_are_fields(value: object, text: str | None) -> None:
    (sample,) = samples([RunValues(a_run(1), (measured_value("tput", 1.0),), {"env": {"A": value}})])
    assert sample.fields.get("env.A") == text


def test_the_same_values_have_a_shade_in_the_middle() -> None:
    same = [Sample("k", 1.0, "", None, {"owner": owner}, "bench", owner, owner) for owner in ("ann", "ben")]
    grouped = table(same, "owner")
    assert [groups[0] and groups[0].shade for _, groups in grouped.rows] == [3, 3] and grouped.better == ""
