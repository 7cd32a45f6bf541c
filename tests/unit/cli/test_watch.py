"""fournos watch and wait: what they tell, and their exit codes."""

from __future__ import annotations

import pytest

from fournos.api.kinds import FOURNOS_JOB
from fournos.cli import watch
from fournos.cli.errors import Fail
from fournos.cli.watch import changes, seconds
from fournos.engine.kube.errors import ForbiddenError
from fournos.insight.children import Task, tasks
from tests.unit.cli.api import Api, Program
from tests.unit.cli.objects import NOW, ago, job, run, task_run


@pytest.mark.parametrize("verb", ["watch", "wait"])
@pytest.mark.parametrize(("phase", "code"), [("Succeeded", 0), ("Failed", 1), ("Stopped", 3)])
def test_the_exit_code_is_the_jobs(verb: str, phase: str, code: int) -> None:
    api = Api(job("one", "Running"))
    api.script = [("MODIFIED", job("one", phase, status={"message": "the end"}))]
    result = Program(api)(verb, "one")
    assert result.exit_code == code
    assert result.stdout.splitlines()[-1] == f"one {phase}: the end"


@pytest.mark.parametrize("verb", ["watch", "wait"])
def test_a_deleted_job_and_a_job_that_took_its_name(verb: str) -> None:
    api = Api(job("one", "Running"))
    api.script = [("DELETED", job("one", "Running"))]
    result = Program(api)(verb, "one")
    assert result.exit_code == 5
    assert "one was deleted" in result.stderr
    again = job("one", "Succeeded")
    again["metadata"]["uid"] = "another"
    api.script = [("MODIFIED", again)]
    assert Program(api)(verb, "one").exit_code == 5


def test_wait_gives_up_in_time() -> None:
    result = Program(Api(job("one", "Pending")))("wait", "one", "--timeout", "10ms")
    assert result.exit_code == 4
    assert "one has not ended within 10ms" in result.stderr
    assert "fournos explain one" in result.stderr


def test_a_time_limit_that_is_none() -> None:
    for text in ("soon", "-3s", "0"):
        with pytest.raises(Fail):
            seconds(text)
    assert seconds("1m30s") == 90


def test_wait_answers_in_json() -> None:
    api = Api(job("one", "Running"))
    api.script = [("MODIFIED", job("one", "Stopped"))]
    result = Program(api)("wait", "one", "-o", "json")
    assert result.exit_code == 3
    assert '"phase": "Stopped"' in result.stdout


def test_a_lost_right_ends_the_watching() -> None:
    api = Api(job("one", "Running"))
    api.fails["list", FOURNOS_JOB] = ForbiddenError("may not list", status=403)
    result = Program(api)("wait", "one")
    assert result.exit_code == 6
    assert "may not list" in result.stderr


def test_lines_for_a_log() -> None:
    api = Api(
        job("one", "Running", status={"pipelineRun": "one", "message": "Go"}),
        run(),
        task_run("prepare", startTime=ago(minutes=1)),
    )
    api.script = [("MODIFIED", job("one", "Succeeded", status={"pipelineRun": "one", "message": "Done"}))]
    lines = Program(api)("watch", "one").stdout.splitlines()
    assert lines[:2] == ["12:00:00Z  Running  Go", "12:00:00Z  task prepare: Running"]
    assert lines[-2:] == ["12:00:00Z  Succeeded  Done", "one Succeeded: Done"]


def test_only_changes_are_reported() -> None:
    before = (job("one", "Running"), [Task("a", "Running"), Task("b", "Waiting")])
    after = (job("one", "Running"), [Task("a", "Failed", message="exit 1"), Task("b", "Waiting")])
    assert [str(line) for line in changes(before, after, NOW)] == ["12:00:00Z  task a: Failed  exit 1"]
    assert changes(after, after, NOW) == []


def test_task_states() -> None:
    verdicts = {
        "prepare": {"type": "Succeeded", "status": "True", "reason": "Succeeded"},
        "benchmark": {"type": "Succeeded", "status": "False", "reason": "Failed", "message": "exit 1"},
        "cleanup": {"type": "Succeeded", "status": "False", "reason": "TaskRunCancelled"},
    }
    runs = [task_run(name, conditions=[verdict]) for name, verdict in verdicts.items()]
    runs.append(task_run("extra", startTime=ago(minutes=1)))
    runs.append(task_run("report", run_name="one-r2", startTime=ago(minutes=1)))
    found = {task.name: (task.state, task.message, task.final) for task in tasks(run(), runs)}
    assert found == {
        "prepare": ("Succeeded", "", False),
        "benchmark": ("Failed", "exit 1", False),
        "report": ("Waiting", "", False),
        "cleanup": ("Cancelled", "", True),
        "extra": ("Running", "", False),
    }
    assert tasks(None, runs) == []


def test_wait_for_the_record() -> None:
    api = Api(job("one", "Running"))
    ended = job("one", "Succeeded", status={"message": "the end"})
    noted = job("one", "Succeeded", status={"message": "the end", "archivedAt": ago(seconds=1)})
    api.script = [("MODIFIED", ended), ("MODIFIED", noted)]
    result = Program(api)("wait", "one", "--recorded", "-o", "json")
    assert result.exit_code == 0 and "archivedAt" in result.stdout


def test_without_a_history_the_wait_for_the_record_ends(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(watch, "_RECORDING", 0.01)
    result = Program(Api(job("one", "Succeeded")))("wait", "one", "--recorded")
    assert result.exit_code == 4
    assert "has not recorded one" in result.stderr and "fournos doctor" in result.stderr
