"""Results of a job that its Pipeline or its tasks return as the Tekton result `fournos-results`.  Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any, Final

from fournos.engine.kube.resource import Obj
from fournos.history.results.models import Test
from fournos.history.results.read import ResultFile, ResultProblem, read_file, read_value
from fournos.insight.children import task_of
from fournos.insight.values import status_of
from fournos.systems.jobs.names import RESULT_NAME

MAX_BYTES: Final = 256 * 1024
"""Bytes of all results of a run.  They are read in a decision, which holds up everything else."""
MAX_YAML_BYTES: Final = 64 * 1024
"""Beyond these only JSON is read."""
_TOO_MUCH: Final = (
    f"the results of the run have more than {MAX_BYTES} bytes; push them as a file: fournos results push"
)


def tekton_results(run: Obj | None, task_runs: Iterable[Obj] = ()) -> ResultFile:
    """Reads the results of a PipelineRun and of its TaskRuns.

    A Pipeline may return the result of one of its tasks as its own: a test that is there twice counts once.
    A result that cannot be read is a problem, and takes no other result with it.
    """
    values = [(where, value) for where, obj in _origins(run, task_runs) for value in _values(obj)]
    size = sum(_size(value) for _, value in values)
    if size > MAX_BYTES:
        return ResultFile(problems=(ResultProblem("", _TOO_MUCH),))
    name = "" if size <= MAX_YAML_BYTES else "results.json"
    return _joined([_prefixed(where, _read(value, name)) for where, value in values])


def _joined(parts: Sequence[ResultFile]) -> ResultFile:
    """Joins several results; of a test that is there twice the first counts."""
    tests: dict[str, Test] = {}
    for part in parts:
        for test in part.tests:
            tests.setdefault(test.slot, test)
    return ResultFile(
        tuple(tests.values()),
        tuple(problem for part in parts for problem in part.problems),
        tuple(warning for part in parts for warning in part.warnings),
    )


def _origins(run: Obj | None, task_runs: Iterable[Obj]) -> list[tuple[str, Obj]]:
    """The objects that may have results: those of tasks first, as the Pipeline's are copies of them."""
    found = [(f"task {task_of(task_run)}", task_run) for task_run in task_runs]
    return found + ([("pipeline", run)] if run else [])


def _values(obj: Obj) -> list[Any]:
    results = status_of(obj).get("results") or ()
    return [
        one.get("value") for one in results if isinstance(one, Mapping) and one.get("name") == RESULT_NAME
    ]


def _size(value: Any) -> int:
    """Characters of all texts of a result."""
    if isinstance(value, str):
        return len(value)
    if isinstance(value, Mapping):
        return sum(len(name) + _size(item) for name, item in value.items())
    return sum(map(_size, value)) if isinstance(value, list) else 0


def _read(value: Any, name: str) -> ResultFile:
    """A result is a text with JSON or YAML, a list of such texts, or an object of KPI names and numbers.

    `name` is that of a file with the same format.
    """
    if isinstance(value, str):
        return read_file(value.encode("utf-8", "replace"), name)
    if isinstance(value, list) and all(isinstance(item, str) for item in value):
        return _joined([read_file(item.encode("utf-8", "replace"), name) for item in value])
    if isinstance(value, Mapping):
        return read_value({"kpis": [_scalar(name, text) for name, text in value.items()]})
    text = "must be text, a list or an object, not a number or a truth value"
    return ResultFile(problems=(ResultProblem("", text),))


def _scalar(name: str, text: Any) -> dict[str, Any]:
    """Tekton's object results have texts only; one that is not a number stays and is reported."""
    try:
        return {"kpi_id": name, "value": float(text)}
    except (ValueError, TypeError, OverflowError):
        return {"kpi_id": name, "value": text}


def _prefixed(where: str, results: ResultFile) -> ResultFile:
    """Adds the origin to the paths of problems and warnings."""

    def named(problem: ResultProblem) -> ResultProblem:
        return replace(problem, path=f"{where} {problem.path}".strip())

    return ResultFile(results.tests, tuple(map(named, results.problems)), tuple(map(named, results.warnings)))
