"""The metrics of FournosJobs: by phase, by what they wait for, and how they end."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from fournos.api.kinds import FOURNOS_JOB, PIPELINE
from fournos.api.phase import CAUSE_OF_REASON, Cause
from fournos.app.parts import TABLE
from fournos.engine.kube.store import Store
from fournos.engine.runtime.controller import Caches
from fournos.engine.runtime.metrics import Metrics
from fournos.insight.queue_reasons import REASONS
from fournos.systems.jobs import metrics as jobs_metrics
from fournos.systems.jobs.metrics import CAUSES, PIPELINES_MAX, JobMetrics, cause_of
from fournos.systems.jobs.part import jobs_controller
from tests.unit.systems.jobs import actors
from tests.unit.systems.jobs.actors import NS, Tekton
from tests.unit.systems.jobs.test_lifecycle import scenario
from tests.world.harness import run
from tests.world.server import VirtualClock


def at(minute: int) -> str:
    return f"2030-01-01T00:{minute:02}:00Z"


def job(name: str, phase: str = "", message: str = "", *, pipeline: str = "p0", **status: Any) -> Any:
    conditions = [{"type": "WorkloadAdmitted", "status": "False", "reason": status.pop("reason", "Pending")}]
    conditions += status.pop("conditions", [])
    return {
        "metadata": {
            "name": name,
            "namespace": NS,
            "uid": name,
            "resourceVersion": "1",
            "creationTimestamp": at(0),
        },
        "spec": {"pipeline": pipeline, "lockOnly": status.pop("lock_only", False)},
        "status": {"phase": phase, "message": message, "conditions": conditions, **status} if phase else {},
    }


def store(*objects: Any) -> Store:
    found = Store()
    found.replace(list(objects), "1")
    return found


def caches(*jobs: Any, pipelines: int = 1) -> Caches:
    there = [
        {"metadata": {"name": f"p{n}", "namespace": NS, "uid": f"p{n}", "resourceVersion": "1"}}
        for n in range(pipelines)
    ]
    return Caches({FOURNOS_JOB: store(*jobs), PIPELINE: store(*there)})


def attached(found: Caches) -> tuple[JobMetrics, Metrics]:
    served = Metrics(TABLE)
    counted = JobMetrics(served, VirtualClock())
    counted.attach(found)
    return counted, served


def count(served: Metrics, name: str, **labels: str) -> float:
    """The observations of a histogram, or the value of a counter."""
    return served._registry.get_sample_value(name, labels) or 0.0


SUSPENDED = [{"type": "Suspended", "status": "True", "lastTransitionTime": at(30)}]


@pytest.mark.parametrize(
    ("waiting", "cause"),
    [
        (job("a"), "Operator"),
        (job("a", "Resolving"), "Resolver"),
        (job("a", "Pending", waiting={"cause": "Quota"}), "Quota"),
        (job("a", "Pending", waiting={"cause": "Lock", "cluster": "c1"}), "Lock"),
        (job("a", "Pending", waiting={"cause": "of a newer operator"}), "Quota"),
        (job("a", "Pending", "Cluster c1 is exclusively locked by job b, waiting for it to finish"), "Quota"),
        (job("a", "Pending", conditions=SUSPENDED), "Suspended"),
        (job("a", "Pending", retryAt=at(5)), "Retry"),
        (job("a", "Pending", waiting={"cause": "AdmissionCheck"}), "AdmissionCheck"),
        (job("a", "Pending", reason="KueueNotInstalled"), "QueueStopped"),
        (job("a", "Pending", reason="Misconfigured"), "QueueStopped"),
        (job("a", "Pending", reason="NotBefore"), "Suspended"),
        (job("a", "Pending", reason="WaitingForPodsReady"), "Priority"),
        (job("a", "Admitted"), "Dispatch"),
        (job("a", "Running"), ""),
        (job("a", "Failed"), ""),
    ],
)
def test_what_a_job_waits_for(waiting: Any, cause: str) -> None:
    assert cause_of(waiting) == cause
    assert cause in (*CAUSES, "")


def test_causes_are_those_of_the_waiting_ledger() -> None:
    assert set(CAUSES) <= {cause.value for cause in Cause}
    assert CAUSE_OF_REASON.keys() == REASONS.keys(), "each has a sentence"


def test_the_gauges_are_of_the_cache_and_empty_ones_are_0() -> None:
    pending = {"phaseTimes": {"pending": at(10)}}
    found = caches(
        job("a", "Pending", **pending),
        job("b", "Pending", **{**pending, "conditions": SUSPENDED}),
        job("c", "Running"),
        job("d"),
    )
    counted, served = attached(found)
    counted.report()
    assert [served.value("fournos_jobs", phase) for phase in ("Pending", "Running", "New", "Failed")] == [
        *(2, 1, 1, 0)
    ]
    waiting = [served.value("fournos_jobs_waiting", cause) for cause in ("Quota", "Suspended", "Retry")]
    assert waiting == [1, 1, 0]
    longest = [served.value("fournos_jobs_longest_wait_seconds", cause) for cause in ("Quota", "Retry")]
    expected = (VirtualClock().now() - jobs_metrics.parse_time(at(10))).total_seconds()
    assert longest == [max(0.0, expected), 0]


def ended(name: str, phase: str, minute: int, pipeline: str = "p0", **more: Any) -> Any:
    times = {"running": at(0), "finished": at(minute)}
    return job(name, phase, pipeline=pipeline, phaseTimes=times, **more)


def test_failures_since_the_last_success_by_pipeline() -> None:
    found = caches(
        ended("a", "Failed", 1),
        ended("b", "Succeeded", 2),
        ended("c", "Failed", 3),
        ended("d", "Failed", 4),
        ended("e", "Stopped", 5),
        ended("f", "Failed", 6, "nobody-has-it"),
        ended("g", "Failed", 6, "nor-this"),
        ended("h", "Failed", 7, lock_only=True),
    )
    counted, served = attached(found)
    counted.report()
    failures = [served.value("fournos_jobs_failed_in_a_row", name) for name in ("p0", "other")]
    assert failures == [2, 1]


def test_labels_are_bounded() -> None:
    many = PIPELINES_MAX + 5
    counted, served = attached(caches(pipelines=many))
    for number in range(many):
        done = ended(f"j{number}", "Failed", 1, f"p{number}")
        counted.written(job(f"j{number}", "Running"), done)
    assert count(served, "fournos_jobs_ended_total", pipeline="p0", phase="Failed") == 1
    assert count(served, "fournos_jobs_ended_total", pipeline="other", phase="Failed") == 5


def test_a_suspension_is_no_wait_for_quota() -> None:
    counted, served = attached(caches())
    times = {"pending": at(10), "admitted": at(50)}
    resumed = [{"type": "Suspended", "status": "False", "lastTransitionTime": at(40)}]
    first = job("a", "Pending", phaseTimes=times)
    held = job("a", "Pending", phaseTimes=times, conditions=SUSPENDED)
    again = job("a", "Pending", phaseTimes=times, conditions=resumed)
    for before, now in ((first, held), (held, again), (again, job("a", "Admitted", phaseTimes=times))):
        counted.written(before, now)
    assert count(served, "fournos_job_waiting_seconds_sum", cause="Quota") == (20 + 10) * 60
    assert count(served, "fournos_job_waiting_seconds_sum", cause="Suspended") == 10 * 60


async def test_a_job_s_life_is_counted_and_a_restart_counts_nothing_again() -> None:
    counted, served = attached(caches())
    counting = jobs_controller(actors.SETTINGS, actors.TEMPLATE, written=counted.written)
    story = replace(scenario(tekton=lambda: Tekton(fails={"job"})), controller=counting)
    life = await run(story)
    names = {"pipeline": "other", "phase": "Failed"}  # the cache of this test has no such Pipeline
    assert count(served, "fournos_jobs_ended_total", **names) == 1
    assert count(served, "fournos_job_run_seconds_count", **names) == 1
    for cause in ("Operator", "Resolver", "Quota", "Dispatch"):
        assert count(served, "fournos_job_waiting_seconds_count", cause=cause) == 1, cause
    again, restarted = attached(caches(*life.server.list(FOURNOS_JOB)))
    again.report()
    assert restarted.value("fournos_jobs", "Failed") == 1
    assert count(restarted, "fournos_jobs_ended_total", **names) == 0


def test_a_status_with_a_time_that_nobody_can_read_keeps_no_other_job_from_the_metrics() -> None:
    odd = job("odd", "Pending", phaseTimes={"pending": "0000-01-01T00:00:00Z"})
    counted, served = attached(caches(odd, job("a", "Running")))
    counted.report()
    assert count(served, "fournos_jobs", phase="Running") == 1
    assert count(served, "fournos_jobs", phase="Pending") == 1
