"""The documents of an object."""

from __future__ import annotations

import json
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

import pytest

from fournos.api.kinds import FOURNOS_JOB
from fournos.engine.kube.resource import Key
from fournos.engine.runtime.decision import Facts
from fournos.history.fingerprint import Fingerprint, fingerprint_of
from fournos.history.recorder.decide import decide
from fournos.history.recorder.documents import documents_of, results_of
from fournos.history.recorder.observe import ObservedObject, project_task_run
from fournos.history.recorder.record import run_of
from fournos.history.recorder.steps import StoredRun, Write
from fournos.history.records import Document
from fournos.insight.children import TASK_LABEL, Children
from fournos.systems.jobs.names import RESULT_NAME


def pod(name: str, owner: str, **labels: str) -> dict[str, Any]:
    return {
        "metadata": {
            "name": name,
            "labels": labels,
            "ownerReferences": [{"kind": owner, "name": "x", "uid": "u", "controller": True}],
        },
        "spec": {"nodeName": "node-1"},
        "status": {"containerStatuses": [{"name": "main", "image": "i", "imageID": f"sha256:{owner}"}]},
    }


def test_nodes_and_the_version_of_the_target_are_recorded() -> None:
    job = {"metadata": {"name": "job", "namespace": "n", "uid": "u"}, "spec": {}}
    pods = (pod("job-x7k2m-run-pod", "TaskRun", **{TASK_LABEL: "run"}),)
    status = {"connection": {"version": "v1.36.2"}, "hardware": {"drivers": ["535", "550"]}}
    hearth = {"metadata": {"name": "c"}, "status": status}
    flavor = {"metadata": {"name": "c"}, "spec": {}}
    versions = {"kubernetes": "v1.36.2", "driver": "535, 550"}
    for target, known in ((hearth, {"target": versions}), (flavor, {}), (None, {})):
        seen = ObservedObject(
            Key("n", "job"), FOURNOS_JOB, obj=job, children=Children(pods=pods), target=target
        )
        provenance = documents_of(seen, fingerprint_of(job, None))[Document.PROVENANCE]
        assert {name: provenance[name] for name in ("nodes", "target") if name in provenance} == {
            "nodes": {"run": "node-1"},
            **known,
        }


def test_images_have_names_that_are_the_same_in_every_run() -> None:
    job = {"metadata": {"name": "job", "namespace": "n", "uid": "u"}, "spec": {}}
    pods = (pod("job-x7k2m-run-pod", "TaskRun", **{TASK_LABEL: "run"}), pod("job-resolve-abcde-fghij", "Job"))
    seen = ObservedObject(Key("n", "job"), FOURNOS_JOB, obj=job, children=Children(pods=pods))
    assert documents_of(seen, fingerprint_of(job, None))[Document.PROVENANCE]["images"] == {
        "run/main": {"image": "i", "imageID": "sha256:TaskRun"},
        "resolve/main": {"image": "i", "imageID": "sha256:Job"},
    }


def test_a_job_that_ran_on_a_worker_has_its_results_in_its_status() -> None:
    value = {"throughput": "1520.5"}
    status = {"phase": "Succeeded", "results": [{"name": RESULT_NAME, "value": value}]}
    job = {"kind": "FournosJob", "metadata": {"name": "job", "namespace": "n", "uid": "u"}, "status": status}
    seen = ObservedObject(Key("n", "job"), FOURNOS_JOB, obj=job)
    (record,) = results_of(seen).tests
    assert [(kpi.kpi_id, kpi.value) for kpi in record.kpis] == [("throughput", 1520.5)]
    stored = documents_of(seen, fingerprint_of(job, None))[Document.OBJECT]
    assert stored["status"] == {"phase": "Succeeded"}, "they are stored as results"


@pytest.mark.parametrize("adopted", ["", "forged", "no controller", "by name"])
def test_results_of_a_task_that_somebody_else_made_are_not_the_job_s(adopted: str) -> None:
    """Nor are those of a PipelineRun that lists such a one: they may be copies of its results."""

    def result(value: int) -> list[dict[str, Any]]:
        record = {"kpi_id": f"kpi{value}", "value": value, "labels": {"from": str(value)}}
        return [{"name": RESULT_NAME, "value": json.dumps(record)}]

    def owner(kind: str, uid: str) -> dict[str, Any]:
        return {"kind": kind, "name": "job", "uid": uid, "controller": True}

    job = {
        "metadata": {"name": "job", "namespace": "n", "uid": "u"},
        "status": {"phase": "Succeeded", "pipelineRun": "job"},
    }
    tasks = [{"name": name, "taskRef": {"name": name, "kind": "Task"}} for name in ("run", "post")]
    children = [
        {"kind": "TaskRun", "name": f"job-{one['name']}", "pipelineTaskName": one["name"]} for one in tasks
    ]
    run = {
        "metadata": {"name": "job", "uid": "r", "ownerReferences": [owner("FournosJob", "u")]},
        "status": {"pipelineSpec": {"tasks": tasks}, "childReferences": children, "results": result(3)},
    }
    task_runs = [
        {
            "metadata": {
                "name": f"job-{one['name']}",
                "uid": "t",
                "ownerReferences": [owner("P", "r")],
            },
            "spec": {"taskRef": dict(one["taskRef"])},
            "status": {"results": result(number)},
        }
        for number, one in enumerate(tasks, start=1)
    ]
    if adopted == "forged":
        task_runs[1]["spec"] = {"taskSpec": {"steps": [{"image": "evil"}]}}
    elif adopted == "no controller":
        task_runs[1]["metadata"]["ownerReferences"][0]["controller"] = False
    elif adopted:  # the recorder watches what has the job's label only
        del task_runs[1]
    found = Children(runs=(run,), task_runs=tuple(map(project_task_run, task_runs)))
    returned = results_of(ObservedObject(Key("n", "job"), FOURNOS_JOB, obj=job, children=found))
    counted = {kpi.kpi_id for record in returned.tests for kpi in record.kpis}
    assert counted == ({"kpi1"} if adopted else {"kpi1", "kpi2", "kpi3"})
    assert ["TaskRun job-post" in one.message for one in returned.problems] == [True][: bool(adopted)]


def test_a_lock_is_used_from_its_admission_on() -> None:
    begin, now = datetime(2030, 1, 1, tzinfo=UTC), datetime(2030, 1, 1, 1, tzinfo=UTC)
    job: dict[str, Any] = {
        "metadata": {
            "name": "job",
            "namespace": "n",
            "uid": "u",
            "creationTimestamp": "2030-01-01T00:00:00Z",
            "resourceVersion": "1",
        },
        "spec": {"lockOnly": True, "cluster": "c"},
        "status": {
            "phase": "Admitted",
            "cluster": "c",
            "phaseTimes": {"pending": "2030-01-01T00:00:05Z", "admitted": "2030-01-01T00:20:00Z"},
        },
    }
    held = ObservedObject(Key("n", "job"), FOURNOS_JOB, cluster="x", obj=job)
    open_run = StoredRun(replace(run_of(held, begin, None), waited_for="Lock"))
    decision = decide(replace(held, stored=open_run), Facts(), now)
    (record,) = [step.record for step in decision.steps if isinstance(step, Write)]
    cluster = {"metadata": {"name": "c"}, "status": {"hardware": {"totalGPUs": 16}}}
    (of_cluster, later) = (
        run_of(replace(held, target=target, stored=stored), begin, Fingerprint())
        for target, stored in ((cluster, None), (None, StoredRun(replace(record.run, gpu_count=8))))
    )
    assert (of_cluster.gpu_count, of_cluster.fingerprint, of_cluster.pipeline) == (16, "", "")
    assert later.gpu_count == 8, "as it was first recorded"
    held_since = datetime(2030, 1, 1, 0, 20, tzinfo=UTC)
    assert (record.run.started_at, of_cluster.ran_from) == (held_since, held_since)
    assert record.run.admitted_at == datetime(2030, 1, 1, 0, 20, tzinfo=UTC)
