"""How a job failed: the category, and the first error instead of the last."""

from __future__ import annotations

from typing import Any

import pytest

from fournos.insight.children import sort
from fournos.insight.failure import Category, Failure, failure
from tests.unit.cli.objects import ago, job, pod, run, task_run


def failed(reason: str, message: str, *, after: int, **status: Any) -> dict[str, Any]:
    """Of a TaskRun that ended so many minutes ago."""
    verdict = {"type": "Succeeded", "status": "False", "reason": reason, "message": message}
    return {"conditions": [verdict], "completionTime": ago(minutes=after), **status}


def of(*task_runs: Any, pods: Any = (), run_reason: str = "Failed", **status: Any) -> Failure:
    ended = {"type": "Succeeded", "status": "False", "reason": run_reason, "message": "Tasks Completed: 2"}
    told = {"pipelineRun": "one", "message": "Tasks Completed: 2 (Failed: 1)", **status}
    found = job("one", "Failed", status=told)
    return failure(found, sort(found, [], [], [run(conditions=[ended])], task_runs, pods))


def test_the_first_task_that_failed_and_its_first_step() -> None:
    steps = [
        {"name": "load", "terminated": {"exitCode": 0, "reason": "Completed"}},
        {"name": "run", "terminated": {"exitCode": 3, "reason": "Error"}},
        {"name": "report", "terminated": {"exitCode": 1, "reason": "Skipped"}},
    ]
    found = of(
        task_run("report", **failed("Failed", "exit status 1", after=1)),
        task_run("benchmark", **failed("Failed", '"step-run" exited', after=3, steps=steps, podName="p")),
        task_run("prepare", conditions=[{"type": "Succeeded", "status": "True"}]),
    )
    assert found == Failure(Category.BENCHMARK, "step run ended with exit code 3", "benchmark", "p")
    assert not found.category.infrastructure


def test_a_step_that_was_killed_names_the_reason() -> None:
    steps = [{"name": "run", "terminated": {"exitCode": 137, "reason": "OOMKilled"}}]
    found = of(task_run("benchmark", **failed("Failed", "x", after=1, steps=steps)))
    assert (found.category, found.message) == (
        Category.BENCHMARK,
        "step run ended with exit code 137 (OOMKilled)",
    )


def test_the_words_of_the_program_come_before_its_exit_code() -> None:
    ended = {"exitCode": 1, "reason": "Error", "message": "RuntimeError: no GPU\nis free"}
    own = of(
        task_run("bench", **failed("Failed", "x", after=1, steps=[{"name": "run", "terminated": ended}]))
    )
    assert own.message == "RuntimeError: no GPU is free (step run ended with exit code 1)"
    # Tekton writes results of its own in the same place.
    result = {**ended, "message": '[{"key":"StartedAt","value":"2030-01-01T00:00:00Z","type":3}]'}
    code = of(
        task_run("bench", **failed("Failed", "x", after=1, steps=[{"name": "run", "terminated": result}]))
    )
    assert code.message == "step run ended with exit code 1"
    pods = [pod("bench", "step-run", state={"terminated": ended})]
    task = task_run(
        "bench", **failed("Failed", '"step-run" exited with code 1', after=1, podName="one-bench-pod")
    )
    assert of(task, pods=pods).message == 'RuntimeError: no GPU is free ("step-run" exited with code 1)'


@pytest.mark.parametrize(
    ("reason", "message", "category"),
    [
        ("TaskRunImagePullFailed", "the step run failed to pull image x", Category.IMAGE_PULL),
        ("TaskRunTimeout", "TaskRun one-benchmark failed to finish within 1h", Category.TIMEOUT),
        ("PodCreationFailed", "exceeded quota", Category.INFRASTRUCTURE),
        ("PodEvicted", "The node was low on resource: memory", Category.EVICTED),
    ],
)
def test_what_tekton_calls_it(reason: str, message: str, category: Category) -> None:
    found = of(task_run("benchmark", **failed(reason, message, after=1)))
    assert (found.category, found.message, found.task) == (category, message, "benchmark")
    assert category.infrastructure


@pytest.mark.parametrize(
    ("status", "category", "message"),
    [
        ({"reason": "Evicted", "message": "low on memory"}, Category.EVICTED, "low on memory"),
        ({"reason": "NodeLost"}, Category.NODE_LOST, "NodeLost"),
        (
            {
                "conditions": [
                    {
                        "type": "DisruptionTarget",
                        "status": "True",
                        "reason": "DeletionByTaintManager",
                        "message": "Taint manager: deleting due to NoExecute taint",
                    }
                ]
            },
            Category.EVICTED,
            "Taint manager: deleting due to NoExecute taint",
        ),
        (
            {
                "containerStatuses": [
                    {"name": "a", "state": {"waiting": {"reason": "ImagePullBackOff", "message": "no x:1"}}}
                ]
            },
            Category.IMAGE_PULL,
            "ImagePullBackOff: no x:1",
        ),
    ],
)
def test_what_ended_the_pod_from_outside(status: Any, category: Category, message: str) -> None:
    broken = pod("benchmark", "step-run")
    broken["status"] = {"phase": "Failed", **status}
    task = task_run("benchmark", **failed("Failed", "pod is gone", after=1, podName="one-benchmark-pod"))
    found = of(task, pods=[broken])
    assert (found.category, found.message, found.pod) == (category, message, "one-benchmark-pod")


def test_a_cancelled_task_is_no_cause() -> None:
    found = of(
        task_run("prepare", **failed("TaskRunCancelled", "cancelled", after=9)),
        task_run("benchmark", **failed("Failed", "exit 1", after=1)),
    )
    assert found.task == "benchmark"


def test_a_task_of_an_earlier_attempt_is_no_cause() -> None:
    earlier = task_run("benchmark", run_name="one-r2", **failed("Failed", "old", after=9))
    found = of(earlier, run_reason="PipelineRunTimeout")
    assert (found.category, found.message) == (Category.TIMEOUT, "Tasks Completed: 2")


def told(type_: str, reason: str, message: str) -> Failure:
    conditions = [{"type": type_, "status": "False", "reason": reason, "message": message}]
    if type_ != "Resolved":
        conditions.append({"type": "Resolved", "status": "True", "reason": "Resolved", "message": ""})
    found = job("one", "Failed", status={"message": "short", "conditions": conditions})
    return failure(found, sort(found, [], [], [], [], []))


@pytest.mark.parametrize(
    ("type_", "reason", "message", "category"),
    [
        ("Resolved", "ClusterNotFound", "Cluster 'x' not found", Category.REQUEST),
        ("Resolved", "InvalidGPUType", "no such GPU", Category.REQUEST),
        ("Resolved", "Failed", "exit code 1: no such project", Category.RESOLVER),
        ("Resolved", "Failed", "the image cannot be pulled (ErrImagePull)", Category.IMAGE_PULL),
        (
            "Resolved",
            "Failed",
            "Job was active too long: DeadlineExceeded",
            Category.TIMEOUT,
        ),
        ("Resolved", "CreateFailed", "denied", Category.INFRASTRUCTURE),
        ("WorkloadAdmitted", "PendingTimeout", "Not admitted within 1h", Category.TIMEOUT),
        ("PipelineRunReady", "SecretRefNotFound", "Secret x", Category.REQUEST),
        ("PipelineRunReady", "NotFound", "PipelineRun not found", Category.INFRASTRUCTURE),
    ],
)
def test_what_the_operator_says_of_a_job_without_a_run(
    type_: str, reason: str, message: str, category: Category
) -> None:
    assert told(type_, reason, message) == Failure(category, message)


def test_the_newest_of_several_conditions_counts() -> None:
    conditions = [
        {"type": type_, "status": "False", "reason": reason, "message": reason, "lastTransitionTime": at}
        for type_, reason, at in (
            ("PipelineRunReady", "Failed", ago(minutes=9)),
            ("WorkloadAdmitted", "PendingTimeout", ago(minutes=1)),
        )
    ]
    found = job("one", "Failed", status={"conditions": conditions})
    nothing = sort(found, [], [], [], [], [])
    assert failure(found, nothing).category is Category.TIMEOUT
    conditions[1]["lastTransitionTime"] = ago(minutes=9)
    assert failure(found, nothing).category is Category.BENCHMARK


def test_nothing_is_known() -> None:
    found = job("one", "Failed")
    assert failure(found, sort(found, [], [], [], [], [])).message == "no reason is given"
