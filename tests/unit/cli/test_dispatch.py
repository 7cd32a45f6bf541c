"""Jobs that run on other clusters: explained with each worker's own words, and their logs."""

from __future__ import annotations

import asyncio
import base64
import json
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any, cast

import pytest
from typer.testing import CliRunner, Result

from fournos.api.kinds import FOURNOS_JOB, PIPELINE_RUN, TASK_RUN
from fournos.cli.app import build
from fournos.cli.command import Root, World
from fournos.client import AsyncClient
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
from fournos.insight.dispatch import ManagerCluster
from fournos.insight.doctor_workers import check_workers
from fournos.systems.multikueue.config import MULTIKUEUE_CLUSTER, MULTIKUEUE_CONFIG, parse
from tests.fakes.clusters import kubeconfig
from tests.multikueue_configuration import configuration
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

    async def explained() -> tuple[str, ...]:
        client = AsyncClient(api=cast(Any, fleet.api), namespace=NS)
        client.dial = fleet._dial
        return (await (await client.job("one")).explain()).because

    assert "on w1: it has nothing of it yet; see: fournos doctor" in asyncio.run(explained())


def workers(fleet: Fleet) -> dict[str, tuple[str, str]]:
    """What `fournos doctor` finds of workers: its level, and the fault with its fix."""

    async def found() -> dict[str, tuple[str, str]]:
        look = check_workers(ManagerCluster(cast(Any, fleet.api), fleet._dial, lambda: NOW))
        return {one.what: (one.level.value, f"{one.text}: {one.fix}") async for one in look}

    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("FOURNOS_MULTIKUEUE_CONFIG_FILE", configuration("Foo.v1.example.com"))
        return asyncio.run(found())


def test_workers_that_are_ready(fleet: Fleet) -> None:
    found = workers(fleet)
    assert {level for level, _ in found.values()} == {"ok"}
    assert found["worker w1"] == ("ok", "Kubernetes v1.34.4: ")
    assert {"worker w1: foos.example.com", f"worker w1: LocalQueue {NS}/q"} <= found.keys()


def test_without_multikueue_there_is_no_word_of_workers(fleet: Fleet) -> None:
    fleet.api.fails["list", ADMISSION_CHECK] = NoSuchResourceError("no such", status=404)
    assert workers(fleet) == {}


def test_what_a_worker_lacks(fleet: Fleet) -> None:
    fleet.worker.fails["list", FOO] = NoSuchResourceError("no such", status=404)
    fleet.worker.forbidden = {("workloads", "create")}
    del fleet.worker.objects[LOCAL_QUEUE][Key(NS, "q")]
    found = {what: text for what, (level, text) in workers(fleet).items() if level == "fault"}
    assert found == {
        "worker w1: workloads.kueue.x-k8s.io": (
            "its identity lacks create: see deploy/multikueue/worker/identity.yaml"
        ),
        "worker w1: foos.example.com": (
            "it does not serve v1: install the CRD that serves Foo.v1.example.com"
        ),
        f"worker w1: LocalQueue {NS}/q": (
            'localqueues.kueue.x-k8s.io "q" not found: make the namespace, and a LocalQueue of the same '
            "name, there"
        ),
    }


WAYS = Key("", "w1"), Key("kueue-system", "w1")


def no_cluster(fleet: Fleet) -> None:
    del fleet.api.objects[MULTIKUEUE_CLUSTER][WAYS[0]]


def no_secret(fleet: Fleet) -> None:
    del fleet.api.objects[SECRET][WAYS[1]]


def no_key(fleet: Fleet) -> None:
    fleet.api.objects[SECRET][WAYS[1]]["data"] = {"config": "eA=="}  # type: ignore[index]


def refused(fleet: Fleet) -> None:
    fleet.worker.refuses = True


def unreadable(fleet: Fleet) -> None:
    fleet.api.fails["get", SECRET] = ForbiddenError("no", status=403)


@pytest.mark.parametrize(
    ("problem", "level", "text"),
    [
        (
            no_cluster,
            "fault",
            "there is no MultiKueueCluster w1: make it, or take the name out of the MultiKueueConfig",
        ),
        (no_secret, "fault", "there is no Secret kueue-system/w1: make it, and put the worker's kubeconfig"),
        (
            no_key,
            "fault",
            "Secret kueue-system/w1 has no key kubeconfig: put the worker's kubeconfig into it",
        ),
        (
            refused,
            "fault",
            "the worker refuses the credentials in Secret kueue-system/w1 (401): put valid ones in place",
        ),
        (unreadable, "unknown", "you may not read it: "),
    ],
)
def test_why_there_is_no_connection_and_what_to_do(
    fleet: Fleet, problem: Callable[[Fleet], None], level: str, text: str
) -> None:
    problem(fleet)
    assert [one for one in workers(fleet) if one.startswith("worker")] == ["worker w1"]
    found = workers(fleet)["worker w1"]
    assert (found[0], found[1].startswith(text)) == (level, True), found


def test_what_the_manager_lacks(fleet: Fleet) -> None:
    del fleet.api.objects[LOCAL_QUEUE][Key(NS, "q")]
    text = "no LocalQueue leads to it: make one in the namespace of the jobs"
    assert workers(fleet)["ClusterQueue team"] == ("fault", text)
    fleet.api.objects[ADMISSION_CHECK][Key("", "workers")]["status"] = {}  # type: ignore[index]
    text = "no controller serves it (our adapter): start it: fournos run --enable multikueue"
    assert workers(fleet)["AdmissionCheck workers"] == ("fault", text)
    del fleet.api.objects[CLUSTER_QUEUE][Key("", "team")]
    fleet.api.objects[ADMISSION_CHECK][Key("", "workers")]["status"] = {  # type: ignore[index]
        "conditions": [{"type": "Active", "status": "True", "message": "active"}]
    }
    text = "no ClusterQueue asks for it: name it in the admissionChecksStrategy of one"
    assert workers(fleet)["AdmissionCheck workers"] == ("fault", text)


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
