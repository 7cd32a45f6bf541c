"""fournos dispatch …: where jobs are, why they wait, what a worker lacks."""

from __future__ import annotations

import base64
import json
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

import pytest
from typer.testing import CliRunner, Result

from fournos.api.kinds import FOURNOS_JOB, PIPELINE_RUN, TASK_RUN
from fournos.cli.app import build
from fournos.cli.command import Root, World
from fournos.engine.kube.errors import ForbiddenError, NoSuchResourceError
from fournos.engine.kube.resource import (
    NAMESPACE,
    POD,
    SECRET,
    SELF_SUBJECT_ACCESS_REVIEW,
    Key,
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


def test_where_jobs_are(fleet: Fleet) -> None:
    fleet.api.add(WORKLOAD, dispatched())
    fleet.api.add(WORKLOAD, plain(WORKLOAD, "local", namespace=NS, spec={}, status={}))
    shown = fleet("dispatch", "list").stdout.splitlines()
    assert shown[0].split() == ["JOB", "WORKER", "STATE", "ADAPTER", "AGE"]
    assert shown[1].split() == ["Foo/a", "w1", "Running", "ours", "5m"] and len(shown) == 2


def test_why_one_waits_in_the_workers_own_words(fleet: Fleet) -> None:
    entry = {"name": "workers", "state": "Pending", "message": 'waits for quota on "w1"'}
    waiting = dispatched(admissionChecks=[entry], clusterName=None, nominatedClusterNames=["w1"])
    fleet.api.add(WORKLOAD, waiting)
    told = {"type": "QuotaReserved", "status": "False", "message": "insufficient quota for cpu"}
    twin = plain(WORKLOAD, "foo-a", namespace=NS, spec={}, status={"conditions": [told]})
    fleet.worker.add(WORKLOAD, twin)
    result = fleet("dispatch", "explain", "a")
    assert "Foo/a: Pending" in result.stdout and 'waits for quota on "w1"' in result.stdout
    assert "on w1: waits: insufficient quota for cpu" in result.stdout


def test_a_worker_that_has_nothing_of_it(fleet: Fleet) -> None:
    fleet.api.add(WORKLOAD, dispatched(clusterName=None, nominatedClusterNames=["w1"]))
    told = fleet("dispatch", "explain", "a").stdout
    assert "on w1: it has nothing of it yet; see: fournos dispatch check" in told


def test_a_job_that_goes_nowhere(fleet: Fleet) -> None:
    fleet.api.add(WORKLOAD, dispatched(admissionChecks=[]))
    result = fleet("dispatch", "explain", "a")
    assert result.exit_code == 2 and "does not go to a worker" in result.stderr
    assert fleet("dispatch", "explain", "nobody").exit_code == 5


def test_all_is_well(fleet: Fleet) -> None:
    result = fleet("dispatch", "check", "--kind", "Foo.v1.example.com")
    assert result.exit_code == 0, result.stdout
    assert "MISSING" not in result.stdout and "Kubernetes v1.34.4" in result.stdout
    assert "rights on foos.example.com" in result.stdout and f"LocalQueue {NS}/q" in result.stdout


def test_what_a_worker_lacks(fleet: Fleet) -> None:
    fleet.worker.fails["list", FOO] = NoSuchResourceError("no such", status=404)
    fleet.worker.forbidden = {("workloads", "create")}
    del fleet.worker.objects[LOCAL_QUEUE][Key(NS, "q")]
    result = fleet("dispatch", "check", "--kind", "Foo.v1.example.com")
    assert result.exit_code == 1 and "3 of " in result.stderr
    wrong = [line for line in result.stdout.splitlines() if "MISSING" in line]
    assert [line.split("MISSING")[1].strip()[:24] for line in wrong] == [
        "install the CRD that ser",
        "lacks create: allow it i",
        "there is none: make one ",
    ]


def test_a_worker_that_cannot_be_reached_is_one_line(fleet: Fleet) -> None:
    del fleet.api.objects[SECRET]
    result = fleet("dispatch", "check", "--kind", "Foo.v1.example.com")
    assert result.exit_code == 1
    assert [line.split()[:2] for line in result.stdout.splitlines() if "MISSING" in line] == [
        ["w1", "connection"]
    ]


def missing(fleet: Fleet) -> dict[str, str]:
    """What `check` finds fault with, by worker and thing."""
    result = fleet("dispatch", "check", "--kind", "Foo.v1.example.com", "-o", "json")
    found = [line for line in json.loads(result.stdout) if not line["good"]]
    return {f"{line['worker']} {line['what']}": line["text"] for line in found}


WAYS = Key("", "w1"), Key("kueue-system", "w1")


def no_cluster(fleet: Fleet) -> None:
    del fleet.api.objects[MULTIKUEUE_CLUSTER][WAYS[0]]


def no_secret(fleet: Fleet) -> None:
    del fleet.api.objects[SECRET][WAYS[1]]


def no_key(fleet: Fleet) -> None:
    fleet.api.objects[SECRET][WAYS[1]]["data"] = {"config": "eA=="}  # type: ignore[index]


def refused(fleet: Fleet) -> None:
    fleet.worker.refuses = True


@pytest.mark.parametrize(
    ("fault", "said"),
    [
        (
            no_cluster,
            "there is no MultiKueueCluster w1: make it, or take the name out of the MultiKueueConfig",
        ),
        (no_secret, "there is no Secret kueue-system/w1: make it, and put the worker's kubeconfig into it"),
        (no_key, "Secret kueue-system/w1 has no key kubeconfig: put the worker's kubeconfig into it"),
        (
            refused,
            "the worker refuses the credentials in Secret kueue-system/w1 (401): put valid ones in place",
        ),
    ],
)
def test_why_there_is_no_connection_and_what_to_do(
    fleet: Fleet, fault: Callable[[Fleet], None], said: str
) -> None:
    fault(fleet)
    (text,) = missing(fleet).values()
    assert text.startswith(said)


def test_what_the_manager_lacks(fleet: Fleet) -> None:
    del fleet.api.objects[LOCAL_QUEUE][Key(NS, "q")]
    fleet.api.fails["list", FOO] = NoSuchResourceError("no such", status=404)
    assert missing(fleet) == {
        "(manager) ClusterQueue team": "no LocalQueue leads to it: make one in the namespace of the jobs",
        "(manager) foos.example.com v1": "install the CRD that serves Foo.v1.example.com",
    }
    fleet.api.objects[CLUSTER_QUEUE][Key("", "team")]["status"] = {  # type: ignore[index]
        "conditions": [
            {"type": "Active", "status": "False", "message": "references missing ResourceFlavor(s)"}
        ]
    }
    fleet.api.objects[ADMISSION_CHECK][Key("", "workers")]["status"] = {}  # type: ignore[index]
    fleet.api.add(LOCAL_QUEUE, plain(LOCAL_QUEUE, "q", namespace=NS, spec={"clusterQueue": "team"}))
    found = missing(fleet)
    assert found["(manager) ClusterQueue team"] == "references missing ResourceFlavor(s)"
    assert found["(manager) AdmissionCheck workers"] == (
        "no controller serves it (our adapter): start it: fournos run --enable multikueue"
    )
    del fleet.api.objects[CLUSTER_QUEUE][Key("", "team")]
    fleet.api.objects[ADMISSION_CHECK][Key("", "workers")]["status"] = {  # type: ignore[index]
        "conditions": [{"type": "Active", "status": "True", "message": "active"}]
    }
    assert missing(fleet)["(manager) AdmissionCheck workers"] == (
        "no ClusterQueue asks for it: name it in the admissionChecksStrategy of one"
    )


def test_wrong_kinds_are_refused(fleet: Fleet) -> None:
    result = fleet("dispatch", "check", "--kind", "foo.v1.example.com")
    assert result.exit_code == 2 and "kinds start with a capital" in result.stderr


def test_for_programs(fleet: Fleet) -> None:
    result = fleet("dispatch", "check", "--kind", "Foo.v1.example.com", "-o", "json")
    assert '"worker": "w1"' in result.stdout and '"good": true' in result.stdout


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
