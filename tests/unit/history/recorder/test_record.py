"""The row of an object of any kind: its state, what it waits for, and how long it ran."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest

from fournos.api.kinds import APPWRAPPER, FOURNOS_JOB, PIPELINE_RUN, TASK_RUN
from fournos.api.phase import CAUSE_OF_REASON, Cause, run_times
from fournos.client.views import JobView
from fournos.engine.kube.resource import Key, Obj, key_of
from fournos.engine.queueing.kinds import CLUSTER_QUEUE, LOCAL_QUEUE, WORKLOAD
from fournos.history.fingerprint import fingerprint_of
from fournos.history.recorder.controller import recorder
from fournos.history.recorder.observe import ObservedObject
from fournos.history.recorder.record import run_of, state_of, waits_for
from fournos.history.recorder.steps import Journal
from fournos.history.records import Document, Ending, recorded_row
from fournos.history.settings import HistorySettings
from fournos.insight.children import Children
from fournos.insight.facts import WaitFacts
from fournos.insight.jobs import JobRow
from fournos.insight.reasons import explain
from fournos.systems.jobs.metrics import DURATION, JobMetrics
from tests.unit.cli.objects import NOW, ago, child, job, workload
from tests.unit.history.recorder.fakes import Archives, namespaces
from tests.unit.systems.jobs.actors import NS
from tests.unit.systems.jobs.test_metrics import attached, caches, count
from tests.world.harness import Run as Life
from tests.world.harness import Scenario
from tests.world.kueue import ADMITTED
from tests.world.server import Server
from tests.world.status import set_conditions

T = "2030-01-01T00:00:05Z"
META = {"name": "x", "creationTimestamp": "2030-01-01T00:00:00Z"}


def done(type_: str, status: str = "True") -> dict[str, str]:
    return {"type": type_, "status": status, "lastTransitionTime": T, "message": "why"}


@pytest.mark.parametrize(
    ("spec", "status", "phase", "ended"),
    [
        ({}, {}, "New", False),
        ({"suspend": True}, {}, "Suspended", False),
        ({}, {"startTime": T}, "Running", False),
        ({}, {"phase": "Resuming"}, "Resuming", False),
        ({}, {"phase": "Succeeded", "conditions": [done("PodsReady")]}, "Succeeded", True),
        ({}, {"phase": "Finished", "finishedAt": T}, "Finished", True),
        ({}, {"conditions": [done("Succeeded", "Unknown")]}, "New", False),
        ({}, {"conditions": [done("Succeeded", "False")], "completionTime": T}, "Failed", True),
        ({}, {"conditions": [done("Complete")]}, "Succeeded", True),
        ({}, {"conditions": [done("Failed")]}, "Failed", True),
    ],
)
def test_the_state_of_any_kind(spec: Any, status: Any, phase: str, ended: bool) -> None:
    found = state_of({"metadata": META, "spec": spec, "status": status})
    assert found.phase == phase
    assert (found.ended_at is not None) is ended
    assert not ended or (found.ended_at is not None and found.ended_at.second == 5)


def phase(value: str) -> Any:
    def act(server: Server) -> None:
        conditions = [done("PodsReady")] if value == "Succeeded" else []
        body = {"status": {"phase": value, "conditions": conditions}}
        server.patch(APPWRAPPER, Key(NS, "w"), body, subresource="status")

    return act


def queued(server: Server) -> None:
    wrapper = server.get(APPWRAPPER, Key(NS, "w"))
    owner = {"kind": "AppWrapper", "name": "w", "uid": wrapper["metadata"]["uid"], "controller": True}
    spec = {"queueName": "fournos-queue", "podSets": []}
    server.create(
        WORKLOAD, {"metadata": {"name": "w", "namespace": NS, "ownerReferences": [owner]}, "spec": spec}
    )


def admitted(server: Server) -> None:
    admission = {"clusterQueue": "q", "podSetAssignments": [{"name": "m", "flavors": {"cpu": "cluster-1"}}]}
    found = server.get(WORKLOAD, Key(NS, "w"))
    set_conditions(server, WORKLOAD, found, *ADMITTED, admission=admission)


async def test_an_appwrapper_is_recorded_with_queue_quota_and_end() -> None:
    archives, journal = Archives(), Journal()

    def begin(server: Server) -> None:
        archives.begin(server, (0.0, 0.0))
        namespaces(server)
        server.create(CLUSTER_QUEUE, {"metadata": {"name": "q"}, "spec": {"stopPolicy": "Hold"}})
        queue = {"metadata": {"name": "fournos-queue", "namespace": NS}, "spec": {"clusterQueue": "q"}}
        server.create(LOCAL_QUEUE, queue)
        labels = {"kueue.x-k8s.io/queue-name": "fournos-queue"}
        meta = {"name": "w", "namespace": NS, "labels": labels}
        server.create(APPWRAPPER, {"metadata": meta, "spec": {"suspend": True}})

    scenario = Scenario(
        recorder(HistorySettings(), APPWRAPPER, archives, journal),
        begin,
        script=[queued, admitted, phase("Running"), phase("Succeeded")],
        born=journal.clear,
    )
    await Life(scenario).finish()
    (row,) = archives.current.runs.values()
    assert (row.kind, row.name, row.phase, row.ending) == ("AppWrapper", "w", "Succeeded", Ending.OBSERVED)
    assert row.queued_at is not None and row.admitted_at is not None
    assert row.target == "cluster-1"
    documents = archives.current.documents[row.identity]
    assert set(documents) == {Document.OBJECT, Document.QUOTA}
    assert row.waited_for == ""


async def test_a_pipelinerun_that_ran_on_a_worker_brings_its_results_in_its_own_status() -> None:
    """MultiKueue copies the status of the copy: no TaskRun and no pod of it is in this cluster."""
    archives, journal = Archives(), Journal()
    key = Key(NS, "nightly")

    def begin(server: Server) -> None:
        archives.begin(server, (0.0, 0.0))
        namespaces(server)
        server.create(PIPELINE_RUN, {"metadata": {"name": key.name, "namespace": NS}, "spec": {}})

    def over(server: Server) -> None:
        values = ({"throughput": "12.5"}, "{")
        body = {
            "completionTime": T,
            "conditions": [done("Succeeded")],
            "results": [{"name": "fournos-results", "value": one} for one in values],
        }
        server.patch(PIPELINE_RUN, key, {"status": body}, subresource="status")

    settings = HistorySettings(kinds=("PipelineRun.v1.tekton.dev",))
    (resource,) = settings.resources()
    scenario = Scenario(
        recorder(settings, resource, archives, journal), begin, script=[over], born=journal.clear
    )
    await Life(scenario).finish()
    (row,) = archives.current.runs.values()
    (record,) = archives.current.results[row.identity].values()
    assert [(kpi.kpi_id, kpi.value) for kpi in record.kpis] == [("throughput", 12.5)]
    (problem,) = archives.current.documents[row.identity][Document.PROBLEMS]
    assert problem.startswith("fournos-results: pipeline")


def job_waits_for(phase: str | None, **status: Any) -> tuple[str, str] | None:
    obj = job("one", phase, status=status)
    return waits_for(ObservedObject(key_of(obj), FOURNOS_JOB, obj))


@pytest.mark.parametrize(
    ("phase", "status", "expected"),
    [
        (None, {}, "Operator"),
        ("Resolving", {}, "Resolver"),
        ("Pending", {"waiting": {"cause": "Lock"}}, "Lock"),
        ("Admitted", {}, "Dispatch"),
        ("Running", {}, None),
        ("Stopping", {}, None),
        ("Failed", {"waiting": {"cause": "Lock"}}, None),
    ],
)
def test_a_job_waits_for_what_its_status_says(phase: str | None, status: Any, expected: str | None) -> None:
    found = job_waits_for(phase, message="why\nnot", **status)
    assert found == (None if expected is None else (expected, "why not"))


def test_a_pending_job_whose_status_names_no_cause() -> None:
    assert job_waits_for("Pending") == ("Quota", "")


def wrapper_waits_for(workload: Obj | None) -> tuple[str, str] | None:
    wrapper = {**job("one", "Suspended"), "kind": "AppWrapper"}
    return waits_for(ObservedObject(key_of(wrapper), APPWRAPPER, wrapper, workload=workload))


def waiting(reason: str, status: str = "False") -> Obj:
    return workload(
        conditions=[{"type": "QuotaReserved", "status": status, "reason": reason, "message": "why"}]
    )


@pytest.mark.parametrize("reason", [*CAUSE_OF_REASON, "WaitingForQuota", "Pending"])
def test_another_kind_waits_for_what_kueue_says(reason: str) -> None:
    cause = CAUSE_OF_REASON.get(reason, Cause.QUOTA)
    assert wrapper_waits_for(waiting(reason)) == (cause.value, "why")


def test_what_has_its_quota_or_no_workload_does_not_wait() -> None:
    assert wrapper_waits_for(waiting("QuotaReserved", "True")) is None
    assert wrapper_waits_for(None) is None


BEGAN, CONTAINER, ENDED = ago(seconds=29), ago(seconds=24), ago(seconds=20)


def ended_job(attempt: int = 1) -> Obj:
    """A job whose first container started 5 s after its run was made."""
    times = {"pending": ago(seconds=40), "admitted": ago(seconds=31), "running": BEGAN, "finished": ENDED}
    status = {"attempt": attempt, "phaseTimes": times}
    return {**job("one", "Succeeded", status=status), "kind": "FournosJob"}


def recorded(live: Obj) -> ObservedObject:
    step = {"name": "main", "terminated": {"startedAt": CONTAINER, "finishedAt": ENDED}}
    task = child("tekton.dev/v1", TASK_RUN.kind, "one-run", "uid-run", status={"steps": [step]})
    live["metadata"]["resourceVersion"] = "1"
    return ObservedObject(key_of(live), FOURNOS_JOB, live, children=Children(task_runs=(task,)))


class Viewed(JobView):
    def __init__(self, raw: Obj) -> None:
        self._raw = raw

    @property
    def raw(self) -> Obj:
        return self._raw


@pytest.mark.parametrize("attempt", [1, 2])
def test_all_readers_show_the_same(attempt: int) -> None:
    live = ended_job(attempt)
    assert run_times(live) == (BEGAN, ENDED)
    assert JobRow.of(live).ran == "9s"
    observed = recorded(live)
    run = run_of(observed, NOW, fingerprint_of(live))
    assert run.started_at is not None and run.ended_at is not None
    assert run.ended_at - run.started_at == timedelta(seconds=4), "the first wait ended with the container"
    assert recorded_row(JobRow, run).ran == "9s"
    assert "run of 9s" in explain(WaitFacts(live), NOW).verdict
    columns = Viewed(live)._columns()
    assert columns["finished"] - columns["started"] == timedelta(seconds=9)
    counted, served = attached(caches())
    assert isinstance(counted, JobMetrics)
    counted.written(job("one", "Running", status={"phaseTimes": {"running": BEGAN}}), live)
    assert count(served, f"{DURATION.name}_sum", pipeline="other", phase="Succeeded") == 9


def test_a_run_that_an_earlier_version_recorded_counts_from_its_first_container() -> None:
    live = ended_job()
    older = replace(run_of(recorded(live), NOW, fingerprint_of(live)), running_at=None)
    assert recorded_row(JobRow, older).ran == "4s"


def test_a_job_that_waits_again_has_not_ended() -> None:
    waiting = job("one", "Pending", status={"phaseTimes": {"running": BEGAN, "finished": ENDED}})
    assert run_times(waiting) == (BEGAN, "")


@pytest.mark.parametrize(
    "spoiled",
    [
        {"conditions": "none"},
        {"conditions": 7, "phase": "Succeeded"},
        {"conditions": [{"type": "Failed", "status": "True", "lastTransitionTime": {"a": 1}}]},
        {"conditions": [7], "phase": ["x"]},
        {"phase": "Succeeded", "finishedAt": "9999-12-31T23:59:59Z"},
    ],
)
async def test_an_object_of_any_shape_takes_no_other_with_it(spoiled: Any) -> None:
    archives, journal = Archives(), Journal()

    def begin(server: Server) -> None:
        archives.begin(server, (0.0, 0.0))
        namespaces(server)
        for name in ("a-spoiled", "w", "z-spoiled"):
            server.create(APPWRAPPER, {"metadata": {"name": name, "namespace": NS}, "spec": {}})

    def spoil(server: Server) -> None:
        for name, status in (("a-spoiled", spoiled), ("z-spoiled", spoiled), ("w", {"phase": "Succeeded"})):
            server.patch(APPWRAPPER, Key(NS, name), {"status": status}, subresource="status")

    scenario = Scenario(
        recorder(HistorySettings(), APPWRAPPER, archives, journal), begin, script=[spoil], born=journal.clear
    )
    await Life(scenario).finish()
    phases = {row.name: row.phase for row in archives.current.runs.values()}
    assert phases["w"] == "Succeeded" and phases.keys() == {"a-spoiled", "w", "z-spoiled"}
