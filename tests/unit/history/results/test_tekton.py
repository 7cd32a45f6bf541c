"""Results that come as a Tekton result."""

from __future__ import annotations

import json
from typing import Any

from fournos.history.results.tekton import tekton_results


def task_run(name: str, *values: Any, result: str = "fournos-results") -> dict[str, Any]:
    return {
        "metadata": {"name": f"run-{name}", "labels": {"tekton.dev/pipelineTask": name}},
        "status": {"results": [{"name": result, "value": value} for value in values]},
    }


def text(value: float = 1.0, **labels: str) -> str:
    return json.dumps({"tests": [{"labels": labels, "kpis": [{"kpi_id": "a", "value": value}]}]})


def test_results_of_tasks_and_of_the_pipeline_count_once() -> None:
    run = {
        "metadata": {"name": "run"},
        "status": {"results": [{"name": "fournos-results", "value": text(1)}]},
    }
    found = tekton_results(run, [task_run("a", text(1)), task_run("b", text(2, model="x"))])
    assert found.problems == ()
    assert [record.kpis[0].value for record in found.tests] == [1.0, 2.0]
    assert len(tekton_results(run).tests) == 1


def test_forms_of_a_result() -> None:
    found = tekton_results(None, [task_run("a", [text(1, n="1"), text(2, n="2")])])
    assert len(found.tests) == 2
    (record,) = tekton_results(None, [task_run("a", {"throughput": "12.5", "latency": "3"})]).tests
    assert [(kpi.kpi_id, kpi.value) for kpi in record.kpis] == [("throughput", 12.5), ("latency", 3.0)]


def test_one_that_is_wrong_takes_no_other_with_it() -> None:
    found = tekton_results(
        None,
        [
            task_run("cut", text()[:-4]),
            task_run("words", {"a": "fast", "b": "nan", "c": "1"}),
            task_run("number", 7),
            task_run("good", text()),
        ],
    )
    places = [problem.path for problem in found.problems]
    assert places == [
        "task cut",
        "task words kpis[0].value",
        "task words kpis[1].value",
        "task number",
    ]
    assert len(found.tests) == 1
    assert [kpi.kpi_id for kpi in found.tests[0].kpis] == ["c"]


def test_other_results_and_none() -> None:
    assert tekton_results(None, [task_run("a", "x", result="digest")]).tests == ()
    assert tekton_results(None, [{"metadata": {"name": "a"}}]).problems == ()
    assert tekton_results(None).problems == ()


def test_results_that_would_hold_up_the_recorder_are_not_checked() -> None:
    much = tekton_results(None, [task_run("a", [text() + " " * 2**17, text() + " " * 2**17])])
    assert [str(one) for one in much.problems] == [
        "the results of the run have more than 262144 bytes; push them as a file: fournos results push"
    ]
    yaml = "kpis: [{kpi_id: a, value: 1}]\n"
    assert tekton_results(None, [task_run("a", yaml)]).tests
    assert "is not JSON" in str(tekton_results(None, [task_run("a", yaml + " " * 2**16)]).problems[0])
