"""Kinds other than FournosJob: the narrow row, from whatever their status looks like."""

from __future__ import annotations

from typing import Any

import pytest

from fournos.api.kinds import APPWRAPPER, PIPELINE_RUN
from fournos.engine.kube.resource import Key
from fournos.engine.queueing.workload import CLUSTER_QUEUE, LOCAL_QUEUE, WORKLOAD
from fournos.history.recorder.controller import recorder
from fournos.history.recorder.record import state_of
from fournos.history.recorder.steps import Journal
from fournos.history.records import Document, Ending
from fournos.history.settings import HistorySettings
from tests.unit.history.recorder.fakes import Archives, namespaces
from tests.unit.systems.jobs.actors import NS
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
        recorder(HistorySettings(interval_sec=0), APPWRAPPER, archives, journal),
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

    settings = HistorySettings(kinds=("PipelineRun.v1.tekton.dev",), interval_sec=0)
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
