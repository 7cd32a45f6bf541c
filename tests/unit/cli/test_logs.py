"""fournos logs: which containers, in which order, and what is said when there is nothing."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from fournos.api.kinds import FOURNOS_JOB
from fournos.cli.errors import Exit
from fournos.engine.kube.errors import NotFoundError
from fournos.engine.kube.resource import POD
from fournos.history.logs.stored import ContainerLog
from tests.history import keep_logs
from tests.unit.cli.api import Api, Program
from tests.unit.cli.objects import NS, ago, child, job, pod, run, task_run

BEGAN = datetime(2026, 3, 1, 8, tzinfo=UTC)


def with_pods(phase: str = "Succeeded") -> Api:
    api = Api(
        job("one", phase, status={"pipelineRun": "one"}),
        run(),
        task_run("prepare"),
        task_run("benchmark"),
        pod("benchmark", "step-load", "step-run", started=ago(minutes=3)),
        pod("prepare", "step-only", started=ago(minutes=5)),
        child("batch/v1", "Job", "one-resolve", "uid-one"),
        child(
            "v1",
            "Pod",
            "one-resolve-x",
            "uid-Job-one-resolve",
            spec={"containers": [{"name": "resolve"}]},
            status={"containerStatuses": [{"name": "resolve", "state": {"terminated": {}}}]},
        ),
    )
    api.log_lines = {
        ("one-benchmark-pod", "step-load"): ["loading"],
        ("one-benchmark-pod", "step-run"): ["one", "two [x]"],
        ("one-prepare-pod", "step-only"): ["preparing"],
        ("one-resolve-x", "resolve"): ["resolving"],
    }
    return api


def test_tasks_in_the_order_of_starting_each_line_with_its_task() -> None:
    result = Program(with_pods())("logs", "one")
    assert (result.exit_code, result.stdout.splitlines()) == (
        0,
        ["[prepare] preparing", "[benchmark/load] loading", "[benchmark/run] one", "[benchmark/run] two [x]"],
    )


def test_one_task_and_a_tail() -> None:
    assert Program(with_pods())("logs", "one", "--task", "benchmark", "--tail", "1").stdout.splitlines() == [
        "[benchmark/load] loading",
        "[benchmark/run] two [x]",
    ]


def test_the_resolver() -> None:
    assert Program(with_pods())("logs", "one", "--resolver").stdout == "[resolver] resolving\n"
    assert Program(with_pods("Resolving"))("logs", "one").stdout == "[resolver] resolving\n"


def test_following_reads_what_starts_and_ends_with_the_job() -> None:
    api = with_pods("Running")
    api.script = [("MODIFIED", job("one", "Succeeded", status={"pipelineRun": "one"}))]
    result = Program(api)("logs", "-f", "one")
    assert result.exit_code == 0
    assert sorted(result.stdout.splitlines()) == sorted(
        ["[prepare] preparing", "[benchmark/load] loading", "[benchmark/run] one", "[benchmark/run] two [x]"]
    )
    assert "one is Succeeded." in result.stderr


def test_following_from_the_resolver_on_to_the_tasks() -> None:
    api = with_pods("Resolving")
    api.script = [("MODIFIED", job("one", "Failed", status={"pipelineRun": "one"}))]
    lines = Program(api)("logs", "-f", "one").stdout.splitlines()
    assert {"[resolver] resolving", "[prepare] preparing"} <= set(lines)
    early = with_pods("Resolving")
    early.add(FOURNOS_JOB, job("one", "Resolving"))
    early.script = [("MODIFIED", job("one", "Stopped"))]
    assert Program(early)("logs", "-f", "one").stdout == "[resolver] resolving\n"
    api.script = [("MODIFIED", job("one", "Pending"))]
    assert Program(api)("logs", "-f", "one", "--resolver").stdout == "[resolver] resolving\n"


@pytest.mark.parametrize(
    ("api", "arguments", "expected"),
    [
        (Api(job("one", "Pending")), (), "one is Pending: no task has begun"),
        (Api(job("one", "Failed")), (), "ended before a task began"),
        (Api(job("one", "Succeeded", status={"pipelineRun": "one"})), (), "pods of one are gone"),
        (Api(job("one", None)), (), "no resolve Job: it has not begun"),
        (with_pods(), ("--task", "nope"), "task nope of one has not begun"),
        (with_pods(), ("--attempt", "2"), "pods of one are gone"),
    ],
)
def test_nothing_to_print_is_explained(api: Api, arguments: tuple[str, ...], expected: str) -> None:
    result = Program(api)("logs", "one", *arguments)
    assert (result.exit_code, result.stdout) == (5, "")
    assert expected in result.stderr
    assert "Fix: " in result.stderr


def test_a_pod_that_goes_while_it_is_read() -> None:
    api = with_pods()
    api.fails["logs", POD] = NotFoundError("gone", status=404)
    result = Program(api)("logs", "one", "--task", "prepare")
    assert result.exit_code == 0
    assert "its pod is gone" in result.stderr


def test_resolver_and_task_exclude_one_another() -> None:
    assert Program(with_pods())("logs", "one", "--resolver", "--task", "x").exit_code == 2


# --- from the history -----------------------------------------------------------------------------------


FAILED = ContainerLog(
    "pod",
    "u",
    "step-run",
    "bench",
    1,
    0,
    BEGAN,
    BEGAN,
    3,
    failing_line=2,
    failing_text="fatal",
)
FINE = ContainerLog("pod-0", "u-0", "step-run", "fetch", 1, 0, BEGAN, BEGAN, 0)


def with_history(name: str, api: Api | None = None, *logs: ContainerLog) -> Api:
    api = api or Api(job("other"))
    texts = dict.fromkeys(logs or (FAILED,), "start\nfatal: no such model\nend\n")
    keep_logs(api.stored, f"/apis/history.fournos.dev/v1/namespaces/{NS}/runs/{name}", texts)
    return api


def test_a_job_that_is_gone() -> None:
    result = Program(with_history("gone"))("logs", "gone")
    assert (result.exit_code, result.stdout) == (
        0,
        "[bench] start\n[bench] fatal: no such model\n[bench] end\n",
    )


def test_a_job_whose_pods_are_gone() -> None:
    api = Api(job("one", "Failed", status={"pipelineRun": "one"}))
    result = Program(with_history("uid-one", api))("logs", "one", "--attempt", "1", "--tail", "1")
    assert (result.exit_code, result.stdout) == (0, "[bench] end\n")


def test_without_a_stored_log_the_job_is_missing_as_before() -> None:
    for api in (with_history("other"), Api(job("other"))):
        result = Program(api)("logs", "gone")
        assert result.exit_code == Exit.NOT_FOUND and "gone" in result.stderr


def test_the_first_error_with_the_lines_before_it() -> None:
    api = with_history("one", None, FINE, FAILED)
    result = Program(api)("logs", "one", "--first-error", "--task", "bench")
    assert (result.exit_code, result.stdout) == (0, "[bench] start\n[bench] fatal: no such model\n")
    assert "Line 2: bench ended with exit code 3." in result.stderr
    result = Program(with_history("one", None, FINE))("logs", "one", "--first-error")
    assert result.exit_code == Exit.NOT_FOUND and "no container of one has failed" in result.stderr


@pytest.mark.parametrize("words", [("--first-error", "-f"), ("--first-error", "--tail", "3")])
def test_what_does_not_go_together(words: tuple[str, ...]) -> None:
    result = Program(Api(job("one")))("logs", "one", *words)
    assert result.exit_code == Exit.USAGE and "reads what is stored" in result.stderr
