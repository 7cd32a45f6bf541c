"""fournos get: the whole picture of a job."""

from __future__ import annotations

from fournos.history.records import body
from fournos.history.results.models import Kpi, Test
from tests.unit.cli.api import Api, Program
from tests.unit.cli.objects import ago, child, job, pod, run, task_run, workload
from tests.unit.cli.test_stored import RUNS, stored


def true(type_: str) -> dict[str, str]:
    return {"type": type_, "status": "True"}


def running() -> Api:
    return Api(
        job(
            created=ago(minutes=10),
            spec={"displayName": "Night run", "priority": "high"},
            status={
                "cluster": "cluster-1",
                "pipelineRun": "one",
                "attempt": 1,
                "message": "Pipeline running: 1 of 4",
                "phaseTimes": {
                    "resolving": ago(minutes=10),
                    "pending": ago(minutes=9, seconds=30),
                    "admitted": ago(minutes=6),
                    "running": ago(minutes=5, seconds=58),
                },
                "conditions": [
                    {
                        "type": "Resolved",
                        "status": "True",
                        "reason": "Resolved",
                        "message": "Resolution complete",
                        "lastTransitionTime": ago(minutes=9, seconds=30),
                    }
                ],
                "attempts": [{"number": 1, "cluster": "cluster-1", "startedAt": ago(minutes=6)}],
            },
        ),
        child("batch/v1", "Job", "one-resolve", "uid-one", status={"conditions": [true("Complete")]}),
        workload(conditions=[true("QuotaReserved"), true("Admitted")]),
        run(skippedTasks=[{"name": "report", "reason": "When Expressions evaluated to false"}]),
        task_run(
            "prepare",
            startTime=ago(minutes=5),
            completionTime=ago(minutes=4, seconds=40),
            conditions=[{"type": "Succeeded", "status": "True"}],
        ),
        task_run("benchmark", startTime=ago(minutes=4)),
        pod("benchmark", "step-run"),
        # Of an earlier job of this name: not ours.
        child("tekton.dev/v1", "PipelineRun", "one-old", "uid-of-another-one"),
    )


def test_a_running_job() -> None:
    result = Program(running())("get", "one")
    assert result.exit_code == 0
    assert result.stdout == (
        """\
one  Running  on cluster-1
  Display name Night run
  Namespace    bench
  Owner        perf-team
  Pipeline     fournos-full
  Engine       forge
  Cluster      cluster-1 (exclusive)
  GPUs         2 x a100
  Priority     high
  Created      2030-01-01T11:50:00Z (10m ago)
  Message      Pipeline running: 1 of 4

Phases
  Resolving  30s
  Pending    3m30s
  Admitted   2s
  Running    5m58s so far
    ✓ prepare    20s
    ▶ benchmark  4m
    - report     skipped  When Expressions evaluated to false
    · cleanup    waiting  finally

Conditions
  TYPE      STATUS  REASON    SINCE  MESSAGE
  Resolved  True    Resolved  9m30s  Resolution complete

Attempts
  NUMBER  CLUSTER    OUTCOME    TOOK  MESSAGE
  1       cluster-1  under way  6m

Children
  KIND         NAME               AGE  STATE
  Job          one-resolve        8m   complete
  Workload     one                8m   admitted
  PipelineRun  one                8m   running: 1 of 4
  Pod          one-benchmark-pod  8m   running

Next
  fournos watch one     follow it to its end
  fournos logs -f one   what its tasks print
  fournos stop one      end it
"""
    )


def test_a_job_before_its_first_reconcile() -> None:
    result = Program(Api(job("fresh", None)))("get", "fresh")
    assert result.exit_code == 0
    assert result.stdout.startswith("fresh  New\n")
    assert "Phases" not in result.stdout
    assert "fournos explain fresh" in result.stdout


def test_what_to_do_next_follows_the_phase() -> None:
    for phase, command in {
        "Pending": "fournos explain one",
        "Resolving": "fournos logs -f one",
        "Stopping": "fournos stop --now one",
        "Failed": "fournos logs one",
        "Succeeded": "fournos delete one",
    }.items():
        assert command in Program(Api(job("one", phase)))("get", "one").stdout, phase


def test_how_it_ended() -> None:
    times = {"running": ago(minutes=9), "finished": ago(minutes=4)}
    text = Program(Api(job("one", "Succeeded", status={"phaseTimes": times})))("get", "one").stdout
    assert "Running    5m\n" in text
    assert "Succeeded  4m ago" in text


def served(*records: Test, phase: str = "Succeeded") -> Api:
    found = job("a", phase)
    api = Api(found)
    api.stored = {f"{RUNS}/{found['metadata']['uid']}/results": body(records, tuple[Test, ...])}
    return api


def test_its_results_are_shown_when_the_history_has_them() -> None:
    record = Test(kpis=(Kpi(kpi_id="tput", value=7.5, unit="tok/s"),))
    lines = Program(served(record))("get", "a").stdout.splitlines()
    place = lines.index("Results")
    assert lines[place + 1].split() == ["TEST", "KPI", "VALUE", "UNIT", "STATE"]
    assert lines[place + 2].split() == ["-", "tput", "7.5", "tok/s", "ok"]


def test_of_a_job_that_is_gone_too() -> None:
    gone = job("gone", "Failed")
    api = stored()
    record = Test(kpis=(Kpi(kpi_id="tput", value=7.5),))
    path = f"{RUNS}/{gone['metadata']['uid']}/results"
    api.stored[path] = body((record,), tuple[Test, ...])
    assert "tput" in Program(api)("get", "gone").stdout


def test_of_many_the_first_are_shown() -> None:
    record = Test(kpis=tuple(Kpi(kpi_id=f"k{n}", value=1.0) for n in range(20)))
    shown = Program(served(record))("get", "a").stdout
    assert "k11" in shown and "k12" not in shown
    assert "and 8 more: fournos results list" in shown


def test_without_results_or_history_or_before_the_end_there_is_no_section() -> None:
    assert "Results" not in Program(served())("get", "a").stdout
    assert "Results" not in Program(Api(job("a", "Succeeded")))("get", "a").stdout
    api = served(phase="Running")
    Program(api)("get", "a")
    assert not [path for _, path in api.raw_requests if path.endswith("/results")]
