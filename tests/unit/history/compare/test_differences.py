"""What differs between the tasks of runs."""

from __future__ import annotations

from typing import Any

from fournos.history.compare.differences import (
    ComparedRun,
    causes,
    differences,
    differing_lines,
    not_recorded,
    without_own_name,
)
from fournos.history.fingerprint import Fingerprint
from fournos.history.recorder.documents import MAX_TEXT, MAX_VALUE, tasks_of
from fournos.insight.children import TASK_LABEL

SCRIPT = "#!/bin/sh\necho {}\nbench --batch={}\nexit 0"


def task_run(job: str, batch: str = "8", *, task: str = "run", script: str = SCRIPT, **spec: Any) -> Any:
    """A TaskRun of which Tekton has put the job's name into the script."""
    resolved = {"steps": [{"name": "main", "image": "bench", "script": script.format(job, batch)}], **spec}
    results = [{"name": "commit", "value": f"sha-{batch}"}, {"name": "fournos-results", "value": "big"}]
    return {
        "metadata": {"name": f"{job}-{task}", "labels": {TASK_LABEL: task}},
        "spec": {"params": [{"name": "fjob-name", "value": job}, {"name": "sizes", "value": ["1", "2"]}]},
        "status": {"taskSpec": resolved, "results": results},
    }


def run(name: str, *task_runs: Any) -> ComparedRun:
    return ComparedRun(name, Fingerprint(), provenance={"tasks": tasks_of(name, task_runs)})


def test_what_is_recorded_of_a_task() -> None:
    task = tasks_of("a-1", [task_run("a-1"), {"metadata": {"name": "waits"}, "spec": {}}])["run"]
    assert task["taskSpec"]["steps"][0]["script"].splitlines()[1] == "echo a-1"
    assert task["params"] == {"fjob-name": "a-1", "sizes": '["1", "2"]'}
    assert task["results"] == {"commit": "sha-8"}, "those of the benchmark are stored apart"
    assert task["digest"] == tasks_of("b-2", [task_run("b-2")])["run"]["digest"]
    assert task["digest"] != tasks_of("a-1", [task_run("a-1", "9")])["run"]["digest"]


def test_of_steps_that_are_too_long_the_digest_stays() -> None:
    tasks = [task_run("a-1", task=name, script="x" * (MAX_TEXT // 2)) for name in ("one", "two")]
    tasks[0]["status"]["results"] = [{"name": "long", "value": "y" * (MAX_VALUE + 1)}]
    recorded = tasks_of("a-1", tasks)
    assert "taskSpec" in recorded["one"] and "taskSpec" not in recorded["two"]
    assert recorded["two"]["digest"].startswith("sha256:")
    assert len(recorded["one"]["results"]["long"]) == MAX_VALUE


def test_an_edited_task_is_a_difference_and_a_cause() -> None:
    runs = [run("a-1", task_run("a-1")), run("b-2", task_run("b-2", "16"))]
    shown = {one.path: one.values for one in differences(runs)}
    assert shown == {
        "tasks.run.taskSpec.steps[0].script": ("bench --batch=8", "bench --batch=16"),
        "tasks.run.results.commit": ("sha-8", "sha-16"),
    }
    assert causes(runs[0].provenance, runs[1].provenance, ("a-1", "b-2")) == (
        "tasks.run.taskSpec.steps[0].script bench --batch=8 -> bench --batch=16",
    )


def test_the_same_task_is_none() -> None:
    runs = [run("a-1", task_run("a-1")), run("b-2", task_run("b-2"))]
    assert differences(runs) == ()
    assert causes(runs[0].provenance, runs[1].provenance, ("a-1", "b-2")) == ()


def test_a_changed_default_is_a_difference() -> None:
    params = [[{"name": "batch", "default": value}] for value in ("8", "16")]
    runs = [run(f"a-{n}", task_run(f"a-{n}", params=one)) for n, one in enumerate(params)]
    assert [one.path for one in differences(runs)] == ["tasks.run.taskSpec.params[0].default"]


def test_a_long_task_differs_by_its_digest() -> None:
    runs = [run(name, task_run(name, script="x" * MAX_TEXT + end)) for name, end in (("a", "1"), ("b", "2"))]
    assert [one.path for one in differences(runs)] == ["tasks.run.digest"]


def test_a_run_of_which_no_tasks_are_recorded_is_named_and_differs_in_none() -> None:
    older = ComparedRun("old", Fingerprint())
    newer = run("new", task_run("new"))
    assert differences([older, newer]) == ()
    assert causes(older.provenance, newer.provenance) == ()
    assert "the Tasks that it names (steps, scripts, defaults) of old" in not_recorded([older, newer])


def test_names_are_replaced_only_where_they_are_the_run_s() -> None:
    assert without_own_name("job-1-kubeconfig", "job-1") == "<job>-kubeconfig"
    assert without_own_name("registry/x:job-1", "job-1") == "registry/x:job-1"
    assert without_own_name("run job-1\nand job-12 my-job-1", "job-1") == "run <job>\nand job-12 my-job-1"


def test_of_texts_of_several_lines_the_lines_that_differ_are_shown() -> None:
    assert differing_lines(("a\nb\nc", "a\nx\ny\nc")) == ("b", "x\ny")
    assert differing_lines(("a\nb", "a\nb\nc", "a\nb")) == ("", "c", "")
    assert differing_lines(("one", "two")) == ("one", "two")
    assert differing_lines(("", "a\nb")) == ("", "a\nb")
