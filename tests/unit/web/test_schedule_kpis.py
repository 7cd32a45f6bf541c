"""What the jobs of a schedule measured, by fire."""

from __future__ import annotations

from typing import Any

from fournos.history.results.models import RunValues
from fournos.systems.schedules.names import CONFIRMS_LABEL, TIME_LABEL
from fournos.web.pages.schedules import MOST, schedule_kpis
from tests.history import a_run, ended, measured_value

AXES = ("params.model",)


def measured(
    number: int, day: int, *values: float, model: str | None = None, kpi: str = "tput", **more: Any
) -> RunValues:
    labels = {TIME_LABEL: f"202611{day:02}0200", **more.pop("run_labels", {})}
    run = ended(a_run(number, labels=labels))
    found = tuple(measured_value(kpi, value, "tok/s", True, **more) for value in values)
    return RunValues(run, found, {"params.model": model})


def test_each_fire_is_a_point_and_each_job_of_the_matrix_a_line() -> None:
    runs = [
        measured(4, 29, 40, model="b"),
        measured(3, 29, 30, model="a"),
        measured(2, 28, 20, model="b"),
        measured(1, 28, 10, 14, model="a"),
    ]
    (plot,) = schedule_kpis(runs, AXES).plots
    assert plot.labels == ["2026-11-28 02:00", "2026-11-29 02:00"]
    assert {line.name: list(line.points) for line in plot.lines} == {
        "model=a": [(0.0, 12.0), (1.0, 30.0)],
        "model=b": [(0.0, 20.0), (1.0, 40.0)],
    }
    assert (plot.y_title, plot.runs) == ("tok/s", ())


def test_a_single_job_a_fire_is_one_line_and_its_points_lead_to_the_runs() -> None:
    runs = [measured(2, 29, 20, labels={"version": "2"}), measured(1, 28, 10, labels={"version": "1"})]
    (plot,) = schedule_kpis(runs, ()).plots
    assert [line.name for line in plot.lines] == ["tput"]
    assert [run.name for run in plot.runs] == ["job-1", "job-2"]


def test_labels_of_tests_are_lines_of_their_own_and_only_some_are_drawn() -> None:
    runs = [measured(number, 28, 1.0, labels={"users": str(number)}) for number in range(10)]
    (plot,) = schedule_kpis(runs, ()).plots
    assert len(plot.lines) == 8 and "8 of 10 series" in plot.title
    assert plot.lines[1].name == "users=1"


def test_failed_tests_reruns_and_other_jobs_do_not_count() -> None:
    other = RunValues(ended(a_run(3)), (measured_value("tput", 1.0),))
    rerun = measured(2, 28, 20, run_labels={CONFIRMS_LABEL: "uid"})
    assert schedule_kpis([measured(1, 28, 10, success=False), rerun, other], ()).plots == ()


def test_further_kpis_are_counted() -> None:
    shown = schedule_kpis([measured(n, 28, 1.0, kpi=f"kpi-{n:02}") for n in range(MOST + 2)], ())
    assert (len(shown.plots), shown.more) == (MOST, 2)
