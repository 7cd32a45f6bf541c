"""The recorder as it is shipped: its own process, its ServiceAccount's rights, the policies, SQLite."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
import yaml

from dev import resources
from devcluster import manifests
from fournos.api.kinds import FOURNOS_JOB, PIPELINE_RUN, TASK_RUN
from fournos.engine.api.values import creation_time, format_time
from fournos.engine.kube.resource import EVENT, NAMESPACE, Key, Obj, uid_of
from fournos.history.fingerprint import fingerprint
from fournos.history.records import Document, Ending, Identity, Record
from fournos.history.results.read import read_file
from fournos.history.store.results import Results
from fournos.history.store.runs import HistoryStore
from fournos.insight.values import spec_of
from tests.history import a_run, ended
from tests.integration.conftest import PLURALS, Server
from tests.integration.jobs import conftest as jobs_stage
from tests.integration.jobs.operator import Operator
from tests.integration.jobs.stage import JobStage

ROOT = Path(__file__).resolve().parents[3]
HOME = "fournos-history"
RESULTS = "tests: [{{kpis: [{{kpi_id: tput, value: {}, unit: s, higher_is_better: true}}]}}]"
cluster, kubeconfig, stage = jobs_stage.cluster, jobs_stage.kubeconfig, jobs_stage.stage
"""A cluster without executors: the stage plays them."""


@pytest.fixture
async def account(server: Server, namespace: str) -> AsyncIterator[str]:
    """A token of the shipped ServiceAccount, with the shipped rights and policies."""
    await server.apply(
        f"/api/v1/namespaces/{HOME}", {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": HOME}}
    )
    made = []
    text = (ROOT / "deploy" / "history" / "rbac.yaml").read_text()
    for obj in (*manifests.parse(text), *resources.load("manifests/rbac/policies.yaml")):
        path = PLURALS[obj["kind"]].format(namespace=HOME)
        made.append(f"{path}/{obj['metadata']['name']}")
        await server.apply(made[-1], obj)
    body = {
        "apiVersion": "authentication.k8s.io/v1",
        "kind": "TokenRequest",
        "spec": {"expirationSeconds": 3600},
    }
    status, answer = await server("POST", f"/api/v1/namespaces/{HOME}/serviceaccounts/{HOME}/token", body)
    assert status == 201, answer
    yield answer["status"]["token"]
    for path in made:
        await server("DELETE", path)


def recorder(
    base: Path, token: str, directory: Path, namespace: str, *, settings: Mapping[str, str] | None = None
) -> Operator:
    """`fournos run --enable history`, as the ServiceAccount."""
    config = yaml.safe_load(base.read_text())
    config["users"] = [{"name": config["users"][0]["name"], "user": {"token": token}}]
    own = directory / "kubeconfig-recorder"
    own.write_text(yaml.safe_dump(config))
    given = {
        "HISTORY_URL": f"sqlite:///{directory}/history.db",
        "HISTORY_JOBS_NAMESPACE": namespace,
    }
    return Operator(
        own, namespace, directory / "recorder.log", enable="history", settings={**given, **(settings or {})}
    )


async def test_a_confirmed_change_is_an_event_of_its_job(
    stage: JobStage, kubeconfig: Path, account: str, tmp_path: Path
) -> None:
    await stage.submit("job")
    # The recorder records this job, too: its row has to stay one of the series.
    ends = {"status": {"phase": "Succeeded", "message": "done"}}
    job = await stage.client.patch(FOURNOS_JOB, Key(stage.namespace, "job"), ends, subresource="status")
    what, now = fingerprint(spec_of(job)).id, datetime.now(UTC)
    system = await stage.client.get(NAMESPACE, Key("", "kube-system"))
    home = await stage.client.get(NAMESPACE, Key("", stage.namespace))
    async with await HistoryStore.open(f"sqlite:///{tmp_path}/history.db") as store:
        for number, value in enumerate([100, 101, 102] * 5 + [60, 61, 62, 60, 61]):
            uid = uid_of(job) if number == 15 else f"uid-{number}"
            run = ended(
                a_run(
                    number,
                    identity=Identity(uid_of(system), stage.namespace, uid),
                    namespace_uid=uid_of(home),
                    name="job" if number == 15 else f"job-{number}",
                    fingerprint=what,
                    submitted_at=now - timedelta(hours=25 - number),
                )
            )
            await store.record(Record(run))
            records = read_file(RESULTS.format(value).encode(), "r.yaml").tests
            await Results(store).put(run.identity, records, run.submitted_at)
    process = recorder(kubeconfig, account, tmp_path, stage.namespace)
    stage.operators.append(process)
    await process.ready()

    async def written() -> list[Obj]:
        found = await stage.client.list(EVENT, namespace=stage.namespace)
        return [one for one in found.items if one.get("reason") == "RegressionConfirmed"]

    await stage.until(written, "no Event is written")
    (event,) = await written()
    assert event["regarding"] == {
        "apiVersion": FOURNOS_JOB.api_version, "kind": "FournosJob", "namespace": stage.namespace,
        "name": "job", "uid": uid_of(job),
    }  # fmt: skip
    assert "compared with 15 earlier runs" in event["note"]

    async def archived() -> bool:
        return "archivedAt" in await stage.status()

    await stage.until(archived, "the job is not recorded")
    process.stop()
    assert await process.ended() == 0
    async with await HistoryStore.open(f"sqlite:///{tmp_path}/history.db") as store:
        recorded = await store.get(Identity(uid_of(system), stage.namespace, uid_of(job)))
    assert recorded and recorded.submitted_at == creation_time(job), "the recorder has not seen the job"
    assert (recorded.fingerprint, recorded.phase) == (what, "Succeeded")


async def test_a_recorder_that_cannot_open_its_database_is_not_ready(
    stage: JobStage, kubeconfig: Path, account: str, tmp_path: Path
) -> None:
    volume = tmp_path / "volume"
    volume.touch()  # not a directory: no permission keeps root from opening it
    process = recorder(
        *(kubeconfig, account, tmp_path, stage.namespace),
        settings={"HISTORY_URL": f"sqlite:///{volume}/history.db"},
    )
    stage.operators.append(process)
    reason = f"The history's database {volume}/history.db cannot be opened: File exists"
    await process.unready(f"history: {reason}\n")
    assert f"the store of the history does not answer: {reason}" in process.log.read_text()


async def a_task(stage: JobStage, run: Obj) -> None:
    """A TaskRun of the run as Tekton writes it, whose step has started."""
    name, now = run["metadata"]["name"], format_time(datetime.now(UTC))
    labels = {**run["metadata"]["labels"], "tekton.dev/pipelineRun": name, "tekton.dev/pipelineTask": "run"}
    owner = {
        "apiVersion": PIPELINE_RUN.api_version,
        "kind": "PipelineRun",
        "name": name,
        "uid": uid_of(run),
        "controller": True,
    }
    spec = {"taskSpec": {"steps": [{"name": "main", "image": "bench"}]}}
    meta = {"labels": labels, "ownerReferences": [owner]}
    await stage.client.create(
        TASK_RUN,
        stage.body(
            TASK_RUN,
            f"{name}-run",
            metadata={"name": f"{name}-run", "namespace": stage.namespace, **meta},
            spec=spec,
        ),
    )
    step = {
        "name": "main",
        "container": "step-main",
        "imageID": "registry.test/bench@sha256:1",
        "running": {"startedAt": now},
    }
    body = {"status": {"podName": f"{name}-run-pod", "startTime": now, "steps": [step]}}
    await stage.patch(TASK_RUN, f"{name}-run", body, subresource="status")


async def test_a_job_is_recorded_to_its_end(
    stage: JobStage,
    kubeconfig: Path,
    account: str,
    tmp_path: Path,
) -> None:
    stage.executors.held.add("job")
    await stage.leading(settings={"HISTORY_ENABLED": "true"})
    process = recorder(kubeconfig, account, tmp_path, stage.namespace)
    stage.operators.append(process)
    await process.ready()
    await stage.submit("job", owner="perf")
    await stage.phase("job", "Running")
    await a_task(stage, await stage.get(PIPELINE_RUN, "job"))
    stage.executors.finish("job")
    await stage.phase("job", "Succeeded")

    async def archived() -> str:
        return str((await stage.status()).get("archivedAt") or "")

    await stage.until(archived, "the job is not archived")
    process.stop()  # SQLite has one writer
    job: Any = await stage.get(FOURNOS_JOB, "job")
    system = await stage.client.get(NAMESPACE, Key("", "kube-system"))
    identity = Identity(uid_of(system), stage.namespace, uid_of(job))
    async with await HistoryStore.open(f"sqlite:///{tmp_path}/history.db") as store:
        row = await store.get(identity)
        assert row is not None
        assert (row.phase, row.ending, row.owner, row.attempts) == ("Succeeded", Ending.OBSERVED, "perf", 1)
        assert row.target == job["status"]["cluster"] and row.gpu_count == 1 and row.fingerprint
        assert row.started_at is not None
        assert row.waited_for and row.queued_at is not None and row.admitted_at is not None
        tasks = await store.document(identity, Document.TASKS)
        assert [(one["name"], bool(one["started"])) for one in tasks[0]["tasks"]] == [("run", True)]
        provenance = await store.document(identity, Document.PROVENANCE)
        assert provenance["images"] == {"run/step-main": {"imageID": "registry.test/bench@sha256:1"}}
        stored = await store.document(identity, Document.OBJECT)
        assert stored["status"]["phase"] == "Succeeded" and "managedFields" not in stored["metadata"]
        events = await store.document(identity, Document.EVENTS) or []
        assert "Admitted" in {event["reason"] for event in events}
