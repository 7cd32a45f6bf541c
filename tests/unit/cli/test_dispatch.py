"""Jobs that run on other clusters: explained with each worker's own words, and their logs."""

from __future__ import annotations

import base64
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest
from typer.testing import CliRunner, Result

from fournos.api.kinds import FOURNOS_JOB, PIPELINE_RUN, TASK_RUN
from fournos.cli.app import build
from fournos.cli.command import Root, World
from fournos.engine.kube.errors import ForbiddenError
from fournos.engine.kube.resource import (
    NAMESPACE,
    POD,
    SECRET,
    SELF_SUBJECT_ACCESS_REVIEW,
    Obj,
    Resource,
)
from fournos.engine.queueing.kinds import ADMISSION_CHECK, CLUSTER_QUEUE, LOCAL_QUEUE, WORKLOAD
from fournos.systems.multikueue.config import MULTIKUEUE_CLUSTER, MULTIKUEUE_CONFIG, parse
from tests.fakes.clusters import kubeconfig
from tests.unit.cli.api import Api, Program
from tests.unit.cli.objects import NOW, NS, ago, job, pod, run, task_run

FOO = parse("Foo.v1.example.com")


class Worker(Api):
    """Another cluster; `forbidden` are rights that are lacking there, as (resource, verb)."""

    def __init__(self) -> None:
        super().__init__()
        self.forbidden: set[tuple[str, str]] = set()
        self.refuses = False

    async def server_version(self) -> str:
        if self.refuses:
            raise ForbiddenError("Unauthorized", status=401)
        return "v1.34.4"

    async def create(self, resource: Resource, obj: Obj, *, dry_run: bool = False) -> Obj:
        if resource is SELF_SUBJECT_ACCESS_REVIEW:
            asked = obj["spec"]["resourceAttributes"]
            return {"status": {"allowed": (asked["resource"], asked["verb"]) not in self.forbidden}}
        return await super().create(resource, obj, dry_run=dry_run)


class Fleet(Program):
    def __init__(self, api: Api, worker: Worker) -> None:
        super().__init__(api)
        self.worker = worker

    def __call__(self, *arguments: str, stdin: str | None = None) -> Result:
        root = Root(World(connect=self._connect, dial=self._dial, now=lambda: NOW))
        return CliRunner(env=self.env).invoke(build(), list(arguments), obj=root, input=stdin)

    @asynccontextmanager
    async def _dial(self, credentials: Any) -> AsyncIterator[Any]:
        assert credentials.server == "https://w1.example.com"
        yield self.worker


def plain(resource: Resource, name: str, *, namespace: str = "", **parts: Any) -> Obj:
    meta = {"name": name, "uid": name, "creationTimestamp": ago(minutes=5)}
    if namespace:
        meta["namespace"] = namespace
    return {"kind": resource.kind, "metadata": meta, **parts}


def dispatched(name: str = "a", **status: Any) -> Obj:
    owner = {"apiVersion": "example.com/v1", "kind": "Foo", "name": name, "uid": "u", "controller": True}
    entry = {"name": "workers", "state": "Ready", "message": 'The workload got reservation on "w1"'}
    quota = {"type": "QuotaReserved", "status": "True", "message": "Quota reserved in ClusterQueue team"}
    whole = {"admissionChecks": [entry], "conditions": [quota], "clusterName": "w1", **status}
    found = plain(WORKLOAD, f"foo-{name}", namespace=NS, spec={"queueName": "q"}, status=whole)
    found["metadata"]["ownerReferences"] = [owner]  # type: ignore[index]
    return found


@pytest.fixture
def fleet() -> Fleet:
    api, worker = Api(), Worker()
    parameters = {"kind": "MultiKueueConfig", "name": "all"}
    active = {"type": "Active", "status": "True", "message": "The admission check is active"}
    spec = {"controllerName": "fournos.dev/multikueue", "parameters": parameters}
    api.add(ADMISSION_CHECK, plain(ADMISSION_CHECK, "workers", spec=spec, status={"conditions": [active]}))
    api.add(MULTIKUEUE_CONFIG, plain(MULTIKUEUE_CONFIG, "all", spec={"clusters": ["w1"]}))
    source = {"clusterSource": {"kubeConfig": {"location": "w1", "locationType": "Secret"}}}
    api.add(MULTIKUEUE_CLUSTER, plain(MULTIKUEUE_CLUSTER, "w1", spec=source))
    data = {"kubeconfig": base64.b64encode(kubeconfig("https://w1.example.com")).decode()}
    api.add(SECRET, plain(SECRET, "w1", namespace="kueue-system", data=data))
    strategy = {"admissionChecksStrategy": {"admissionChecks": [{"name": "workers"}]}}
    api.add(CLUSTER_QUEUE, plain(CLUSTER_QUEUE, "team", spec=strategy, status={"conditions": [active]}))
    api.add(LOCAL_QUEUE, plain(LOCAL_QUEUE, "q", namespace=NS, spec={"clusterQueue": "team"}))
    worker.add(NAMESPACE, plain(NAMESPACE, NS))
    worker.add(LOCAL_QUEUE, plain(LOCAL_QUEUE, "q", namespace=NS, spec={"clusterQueue": "here"}))
    return Fleet(api, worker)


def test_why_one_waits_in_the_workers_own_words(fleet: Fleet) -> None:
    entry = {"name": "workers", "state": "Pending", "message": 'waits for quota on "w1"'}
    waiting = dispatched(admissionChecks=[entry], clusterName=None, nominatedClusterNames=["w1"])
    fleet.api.add(WORKLOAD, waiting)
    told = {"type": "QuotaReserved", "status": "False", "message": "insufficient quota for cpu"}
    twin = plain(WORKLOAD, "foo-a", namespace=NS, spec={}, status={"conditions": [told]})
    fleet.worker.add(WORKLOAD, twin)
    lines = fleet("explain", "foo/a").stdout.splitlines()
    assert lines[0] == "Foo/a"
    shown = [line.split() for line in lines]
    assert ["State:", "Pending"] in shown
    assert ["Its", "message:", "waits", "for", "quota", "on", '"w1"'] in shown
    assert ["On", "w1:", "waits:", "insufficient", "quota", "for", "cpu"] in shown
    found = json.loads(fleet("explain", "foo/a", "-o", "json").stdout)
    assert found["workers"] == {"w1": "waits: insufficient quota for cpu"}


def test_a_worker_that_has_nothing_of_it(fleet: Fleet) -> None:
    fleet.api.add(WORKLOAD, dispatched(clusterName=None, nominatedClusterNames=["w1"]))
    assert "it has nothing of it yet; see: fournos doctor" in fleet("explain", "foo/a").stdout


def test_a_job_that_goes_nowhere(fleet: Fleet) -> None:
    fleet.api.add(WORKLOAD, dispatched(admissionChecks=[]))
    result = fleet("explain", "foo/a")
    assert result.exit_code == 2 and "does not go to a worker" in result.stderr
    assert fleet("explain", "foo/nobody").exit_code == 5


def test_a_dispatched_fournosjob_is_explained_with_its_worker(fleet: Fleet) -> None:
    mine = job("one", "Pending")
    fleet.api.add(FOURNOS_JOB, mine)
    taken = dispatched("one")
    taken["metadata"]["ownerReferences"][0]["uid"] = mine["metadata"]["uid"]
    taken["metadata"]["labels"] = {"fournos.dev/job-name": "one"}
    fleet.api.add(WORKLOAD, taken)
    assert "it has nothing of it yet" in fleet("explain", "one").stdout


def test_logs_are_read_where_the_job_runs(fleet: Fleet) -> None:
    mine = job("one", status={"pipelineRun": "one"})
    mine["spec"]["managedBy"] = "kueue.x-k8s.io/multikueue"
    fleet.api.add(FOURNOS_JOB, mine)
    nowhere = fleet("logs", "one")
    assert nowhere.exit_code == 5 and "is on no worker yet" in nowhere.stderr
    taken = dispatched("one")
    taken["metadata"]["ownerReferences"][0]["uid"] = mine["metadata"]["uid"]
    fleet.api.add(WORKLOAD, taken)
    gone = fleet("logs", "one")
    assert gone.exit_code == 5 and "one is gone from w1" in gone.stderr
    fleet.worker.add(FOURNOS_JOB, job("one", "Succeeded", status={"pipelineRun": "one"}))
    fleet.worker.add(PIPELINE_RUN, run())
    fleet.worker.add(TASK_RUN, task_run("prepare"))
    fleet.worker.add(POD, pod("prepare", "step-only", started=ago(minutes=5)))
    fleet.worker.log_lines["one-prepare-pod", "step-only"] = ["from the worker"]
    shown = fleet("logs", "one")
    assert (shown.exit_code, shown.stdout.splitlines()) == (0, ["[prepare] from the worker"]), shown.stderr
