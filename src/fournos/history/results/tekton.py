"""Results of a job that its Pipeline or its tasks return as the Tekton result `fournos-results`.  Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Any

from fournos.history.results.check import Checked, check, check_value
from fournos.history.results.models import ResultRecord
from fournos.history.results.problems import Problem, shown
from fournos.insight.children import TASK_LABEL
from fournos.insight.values import name_of, status_of
from fournos.jobs.names import RESULT_NAME
from fournos.kube.resource import Obj


def tekton_results(run: Obj | None, task_runs: Iterable[Obj] = ()) -> Checked:
    """Checks the results of a PipelineRun and of its TaskRuns.

    A Pipeline may return the result of one of its tasks as its own: a record that is there twice counts once.
    A result that cannot be read is a problem, and takes no other result with it.
    """
    parts = [
        _prefixed(where, _checked(value)) for where, obj in _origins(run, task_runs) for value in _values(obj)
    ]
    records: dict[str, ResultRecord] = {}
    for part in parts:
        for record in part.records:
            records.setdefault(record.slot, record)
    return Checked(
        tuple(records.values()),
        tuple(problem for part in parts for problem in part.problems),
        tuple(warning for part in parts for warning in part.warnings),
    )


def _origins(run: Obj | None, task_runs: Iterable[Obj]) -> list[tuple[str, Obj]]:
    """The objects that may have results: those of tasks first, as the Pipeline's are copies of them."""
    found = [(f"task {_task(task_run)}", task_run) for task_run in task_runs]
    return found + ([("pipeline", run)] if run else [])


def _task(task_run: Obj) -> str:
    return str((task_run["metadata"].get("labels") or {}).get(TASK_LABEL) or name_of(task_run))


def _values(obj: Obj) -> list[Any]:
    results = status_of(obj).get("results") or ()
    return [
        one.get("value") for one in results if isinstance(one, Mapping) and one.get("name") == RESULT_NAME
    ]


def _checked(value: Any) -> Checked:
    """A result is a text with JSON or YAML, a list of such texts, or an object of KPI names and numbers."""
    if isinstance(value, str):
        return check(value.encode("utf-8", "replace"))
    if isinstance(value, list) and all(isinstance(item, str) for item in value):
        parts = [check(item.encode("utf-8", "replace")) for item in value]
        return Checked(
            tuple(record for part in parts for record in part.records),
            tuple(problem for part in parts for problem in part.problems),
            tuple(warning for part in parts for warning in part.warnings),
        )
    if isinstance(value, Mapping):
        return check_value({"kpis": [_scalar(name, text) for name, text in value.items()]})
    return Checked(problems=(Problem("", "", f"must be text, a list or an object, not {shown(value)}"),))


def _scalar(name: str, text: Any) -> dict[str, Any]:
    """Tekton's object results have texts only; one that is no number stays and is reported."""
    try:
        return {"kpi_id": name, "value": float(text)}
    except (ValueError, TypeError):
        return {"kpi_id": name, "value": text}


def _prefixed(where: str, found: Checked) -> Checked:
    """Adds the origin to the places of problems and warnings."""

    def named(problem: Problem) -> Problem:
        place = f"{where} {problem.record}".strip()
        return replace(problem, record=place)

    return Checked(found.records, tuple(map(named, found.problems)), tuple(map(named, found.warnings)))
