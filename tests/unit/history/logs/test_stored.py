"""Which containers' logs are stored, which are asked for, and the first failing line."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest

from fournos.history.logs.stored import ContainerLog, chosen, failing_line, first_failed, started_containers
from fournos.insight.children import Children
from tests.unit.history.logs.stage import BEGAN, container

TRACEBACK = """\
Traceback (most recent call last):
  File "bench.py", line 3, in <module>
    run()

torch.OutOfMemoryError: CUDA out of memory
cleaning up: error""".splitlines()


@pytest.mark.parametrize(
    ("lines", "expected"),
    [
        (["start", *TRACEBACK], (6, "torch.OutOfMemoryError: CUDA out of memory")),
        (["an error may be harmless", "fatal: no repository", "x"], (2, "fatal: no repository")),
        (["0 errors", "request failed", "goodbye"], (2, "request failed")),
        (["errors: 0, no failures", "last words", ""], (2, "last words")),
        (["/bin/sh: fio: not found\n"], (1, "/bin/sh: fio: not found")),
        (["panic: index out of range", "goroutine 1"], (1, "panic: index out of range")),
        (["ok", "ValueError: x", "KeyError: y"], (2, "ValueError: x")),
        (["Traceback (most recent call last):", "  more"], (1, "Traceback (most recent call last):")),
        (["x" * 900], (1, "x" * 500)),
        ([], None),
        (["", " "], None),
    ],
)
def test_the_first_line_that_shows_the_failure(lines: list[str], expected: tuple[int, str] | None) -> None:
    assert failing_line(lines) == expected


def test_the_container_that_failed_first_counts() -> None:
    def failed(name: str, seconds: int, position: int = 0) -> ContainerLog:
        at = BEGAN + timedelta(seconds=seconds)
        return container(name, code=1, ended_at=at, position=position, failing_line=1)

    first = failed("first", 3)
    logs = [failed("later", 9), failed("skipped", 3, 1), first, container("fine")]
    assert first_failed(logs) == first
    assert first_failed([container("fine"), replace(container("silent"), exit_code=1)]) is None


def test_which_logs_are_asked_for() -> None:
    resolver = container("resolve", pod="p0", task="resolver", attempt=0)
    one, other = container("step-a", pod="p1"), container("step-b", pod="p1", task="other")
    again = container("step-a", pod="p2", attempt=2)
    logs = [resolver, one, other, again]
    assert chosen(logs) == [again]
    assert chosen(logs, attempt=1) == [one, other]
    assert chosen(logs, attempt=1, task="other") == chosen(logs, attempt=1, container="b") == [other]
    assert chosen(logs, resolver=True) == chosen([resolver]) == [resolver]
    assert chosen([]) == []
    assert [log.source(chosen(logs, attempt=1)) for log in (one, other)] == ["run/a", "other/b"]
    assert again.source([again]) == "run"


def pod(
    name: str, owner: str, state: dict[str, Any], *, deleted: bool = False, **labels: str
) -> dict[str, Any]:
    names = {"run": "tekton.dev/pipelineRun", "task": "tekton.dev/pipelineTask"}
    return {
        "metadata": {
            "name": name,
            "namespace": "ns",
            "uid": f"uid-{name}",
            "creationTimestamp": "2030-01-01T00:00:00Z",
            "labels": {names[key]: value for key, value in labels.items()},
            "ownerReferences": [{"uid": owner}],
            **({"deletionTimestamp": "2030-01-01T00:00:30Z"} if deleted else {}),
        },
        "spec": {"containers": [{"name": "step-b"}, {"name": "step-a"}]},
        "status": {
            "containerStatuses": [{"name": "step-a", "state": state}, {"name": "step-b", "state": {}}]
        },
    }


def test_which_logs_can_be_stored_and_whose_they_are() -> None:
    runs = tuple(
        {"metadata": {"name": f"run-{number}", "uid": "", "labels": {"fournos.dev/attempt": str(number)}}}
        for number in (1, 2)
    )
    resolver = {"metadata": {"name": "job-resolve", "uid": "resolve-uid"}}
    terminated = {"terminated": {"exitCode": 2, "finishedAt": "2030-01-01T00:00:09Z"}}
    running = {"running": {"startedAt": "2030-01-01T00:00:02Z"}}
    found = Children(
        resolve_jobs=(resolver,),
        runs=runs,
        pods=(
            pod("p0", "resolve-uid", {"terminated": {"exitCode": 0}}),
            pod("p1", "t1", terminated, run="run-1", task="bench"),
            pod("p2", "t2", running, run="run-2", task="bench"),
            pod("p3", "t3", {"waiting": {}}, run="run-2", task="later"),
            pod("p4", "t4", running, deleted=True, run="run-2", task="stopped"),
        ),
    )
    started = started_containers(found)
    rows = [(one.log.pod, one.log.task, one.log.attempt, one.log.exit_code, one.readable) for one in started]
    assert rows == [
        ("p0", "resolver", 0, 0, True),
        ("p1", "bench", 1, 2, True),
        ("p2", "bench", 2, None, False),
        ("p4", "stopped", 2, None, True),
    ]
    assert {one.log.position for one in started} == {1}
