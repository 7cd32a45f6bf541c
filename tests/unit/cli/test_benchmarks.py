"""fournos benchmarks, on answers of the history."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest

from fournos.history.records import body
from fournos.history.regressions.benchmark import Benchmark
from fournos.history.regressions.series import Series
from tests.unit.cli.api import Api, Program
from tests.unit.cli.test_stored import NS, run
from tests.unit.history.regressions.made import noisy, series
from tests.unit.history.regressions.test_benchmark import GOOD, WORSE, of

WHERE = f"/apis/history.fournos.dev/v1/namespaces/{NS}/benchmarks"


def row(name: str, *measured: Series, owner: str = "ann", day: int = 40) -> Benchmark:
    return replace(of(*measured, day=day), run=replace(run(name), owner=owner))


WORST = row("tuesday", series(WORSE, unit="tok/s"), *(series(GOOD, f"kpi-{n}") for n in range(4)))
SILENT = row("monday", series(GOOD), day=90)
YOUNG = row("new", series(noisy((3, 5.0)), labels={"model": "llama"}))


def program(*rows: Benchmark, query: str = "days=84") -> Program:
    api = Api()
    api.stored = {f"{WHERE}?{query}": body(list(rows), list[Benchmark])}
    return Program(api)


def test_one_row_for_each_kpi_and_the_rest_is_counted() -> None:
    lines = program(WORST, YOUNG)("benchmarks").stdout.splitlines()
    assert lines[0].split("  ")[0] == "NEWEST RUN"
    worst, *_, more, young = lines[1:]
    assert worst.startswith("tuesday") and "Regressio" in worst and "nightly-30" in worst
    assert "tok/s" in worst and "█" in worst
    assert "2 more" in more and "ann" not in more
    assert "ann" in program(WORST)("benchmarks", "-o", "wide").stdout
    assert "throughput (model=llama)" in young and "not judged yet" in young


@pytest.mark.parametrize(
    ("arguments", "names"),
    [((), ["tuesday", "monday", "new"]), (("failing",), ["tuesday"]), (("silent",), ["monday"])],
)
def test_what_is_shown(arguments: tuple[str, ...], names: list[str]) -> None:
    shown = [f"--show={one}" for one in arguments]
    answer = json.loads(program(WORST, SILENT, YOUNG)("benchmarks", *shown, "-o", "json").stdout)
    assert [benchmark["run"]["name"] for benchmark in answer] == names


def test_a_silent_one_says_since_when() -> None:
    assert "no run for 61d" in program(SILENT)("benchmarks").stdout


def test_nothing_to_show() -> None:
    assert "There are no benchmarks with results in the last 84 days." in program()("benchmarks").stderr
    assert "1 benchmark, none of them failing" in program(YOUNG)("benchmarks", "--show", "failing").stderr


def test_owners_are_those_of_the_newest_runs() -> None:
    assert "new" in program(YOUNG, query="days=7&owner=ben")("benchmarks", "--owner=ben", "--days=7").stdout


def test_a_gate_is_not_green_without_a_benchmark() -> None:
    nobody = program(query="days=84&owner=nosuch")("benchmarks", "--owner=nosuch", "--fail-on=regression")
    assert nobody.exit_code == 2 and "not judged: there are no benchmarks of nosuch" in nobody.stderr
    for gate in ((), ("--fail-on=regression",)):
        mine = program(YOUNG)("benchmarks", "--mine", *gate)
        assert mine.exit_code == 2 and "FOURNOS_OWNER" in mine.stderr


def test_a_gate_is_red_while_any_regression_is_open() -> None:
    assert program(YOUNG, SILENT)("benchmarks", "--fail-on", "regression").exit_code == 0
    assert program(YOUNG, WORST)("benchmarks", "--fail-on", "regression").exit_code == 1
    assert program(YOUNG, WORST)("benchmarks", "--show=silent", "--fail-on=regression").exit_code == 1
