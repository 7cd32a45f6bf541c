"""The job in its queue, as tables and as stories: what it asks for, and what follows."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
import yaml

from fournos.api.fournosjob import FournosJobSpec
from fournos.api.kinds import FOURNOS_JOB
from fournos.engine.kube.resource import Key, Obj, Resource, owner_reference
from fournos.engine.queueing.ensure import OUT_OF_SYNC, PREBUILT_LABEL
from fournos.engine.queueing.job import Ended, Verdict
from fournos.engine.queueing.kinds import WORKLOAD
from fournos.engine.queueing.workload import build
from fournos.engine.runtime.decision import (
    Create,
    Delete,
    Facts,
    LiveGet,
    NeededFacts,
    Patch,
    Present,
    StepFailure,
    attempt,
)
from fournos.systems.jobs import names
from fournos.systems.jobs.queue import QueuedFournosJob, queue
from fournos.systems.jobs.status import Context, Observed
from tests.unit.systems.jobs.actors import NS, SETTINGS, TEMPLATE, Tekton, edit, phase, submit
from tests.unit.systems.jobs.test_lifecycle import scenario
from tests.unit.systems.jobs.test_names_and_adoption import finished, status
from tests.world.connection import Connection
from tests.world.harness import Run, run
from tests.world.server import Server

CONFIG = Path(__file__).resolve().parents[4] / "config" / "kueue-config.yaml"
NOW = datetime(2030, 1, 1, tzinfo=UTC)
NOTHING = Facts()
MULTIKUEUE = "kueue.x-k8s.io/multikueue"
QUOTA, ADMITTED, EVICTED = (
    {"type": one, "status": "True"} for one in ("QuotaReserved", "Admitted", "Evicted")
)


def queued_job(
    *workloads: Obj, status: Any = None, prebuilt: bool = False, facts: Facts = NOTHING, **spec: Any
) -> QueuedFournosJob:
    labels = {PREBUILT_LABEL: "w"} if prebuilt else {}
    meta = {"name": "job", "namespace": NS, "uid": "u1", "resourceVersion": "1", "labels": labels}
    obj = {**FOURNOS_JOB_TYPE, "metadata": meta, "spec": spec, "status": status or {"phase": "Pending"}}
    observed = Observed(
        Key(NS, "job"),
        obj,
        FournosJobSpec.model_validate(spec),
        workloads=workloads,
        prebuilt=workloads[0] if prebuilt and workloads else None,
        priority_value=5,
    )
    return QueuedFournosJob(Context(observed, facts, NOW, SETTINGS, TEMPLATE))


FOURNOS_JOB_TYPE = {"apiVersion": FOURNOS_JOB.api_version, "kind": FOURNOS_JOB.kind}


def workload(*conditions: Any, spec: Any = None, **changes: Any) -> dict[str, Any]:
    """That of a job with this spec, on the way through Kueue."""
    job = queued_job(**(spec or {}))
    body: dict[str, Any] = dict(build(job.workload_request(None)))
    owner = owner_reference(FOURNOS_JOB, job.obj)
    meta = {**body["metadata"], "uid": "w1", "resourceVersion": "3", "ownerReferences": [owner]}
    return {
        **body,
        "metadata": meta,
        "spec": {**body["spec"], **changes},
        "status": {"conditions": list(conditions)},
    }


CLASS = {"priorityClassRef": {"kind": "WorkloadPriorityClass", "name": "high"}}


@pytest.mark.parametrize(
    ("found", "job", "fits"),
    [
        (workload(), queued_job(), True),
        (workload(spec={"cluster": "a"}), queued_job(cluster="b"), False),
        (workload(spec={"exclusive": False}), queued_job(exclusive=True), False),
        (workload(QUOTA, ADMITTED, spec={"cluster": "a"}), queued_job(cluster="b"), False),
        (workload(**CLASS), queued_job(), False),  # a priority that the job does not ask for
        (workload(**CLASS), queued_job(priority="low"), True),  # it is changed where it is
        (workload(QUOTA, ADMITTED, **CLASS), queued_job(), True),  # Hearth has raised it
        (workload(queueName="other"), queued_job(), True),  # it is changed where it is
        (workload(QUOTA, ADMITTED, queueName="other"), queued_job(), False),
        (workload(QUOTA, ADMITTED, queueName="other"), queued_job(prebuilt=True), True),
        (workload(spec={"cluster": "a"}), queued_job(cluster="b", prebuilt=True), False),
        (workload(spec={"cluster": "a"}), queued_job(cluster="b", status={"phase": "Failed"}), True),
        (workload(spec={"cluster": "a"}), queued_job(cluster="b", managedBy=MULTIKUEUE), False),
        (workload(QUOTA, spec={"cluster": "a"}), queued_job(cluster="b", managedBy=MULTIKUEUE), True),
        (workload(QUOTA, ADMITTED, queueName="other"), queued_job(managedBy=MULTIKUEUE), True),
    ],
)
def test_which_workload_fits(found: Obj, job: QueuedFournosJob, fits: bool) -> None:
    assert job.fits(found) is fits


def test_a_waiting_one_that_does_not_fit_is_rewritten_and_one_with_quota_goes() -> None:
    (patch,) = queue(queued_job(workload(**CLASS), cluster="b").ctx).steps
    assert isinstance(patch, Patch)
    pod = patch.body["spec"]["podSets"][0]["template"]["spec"]
    assert pod["nodeSelector"] == {"fournos.dev/cluster": "b"}
    assert (patch.body["spec"]["priorityClassRef"], patch.body["spec"]["priority"]) == (None, 0)
    unfit = queued_job(workload(QUOTA, ADMITTED), cluster="b")
    requested = attempt(queue, unfit.ctx)
    assert requested == NeededFacts((LiveGet(FOURNOS_JOB, Key(NS, "job")),))
    seen = Facts({requested.questions[0]: Present(unfit.obj)})
    (gone,) = queue(queued_job(workload(QUOTA, ADMITTED), cluster="b", facts=seen).ctx).steps
    assert isinstance(gone, Delete) and gone.uid == "w1"


@pytest.mark.parametrize(
    ("conditions", "name"),
    [((), "low"), ((EVICTED,), "low"), ((QUOTA, ADMITTED), ""), ((QUOTA, EVICTED), "")],
)
def test_a_priority_is_not_changed_while_quota_is_held(conditions: tuple[Any, ...], name: str) -> None:
    assert queued_job(workload(*conditions), priority="low").workload_priority_class() == name
    assert queued_job(priority="low").workload_priority_class() == "low"


@pytest.mark.parametrize(
    ("spec", "held"),
    [
        ({"managedBy": MULTIKUEUE, "suspend": True}, True),
        ({"managedBy": MULTIKUEUE, "shutdown": "Stop"}, True),
        ({"managedBy": MULTIKUEUE}, False),
        ({"suspend": True}, False),
        ({"managedBy": "fournos.dev/fournos", "suspend": True}, False),
    ],
)
def test_only_a_manager_holds_a_workload_back(spec: Any, held: bool) -> None:
    assert queued_job(**spec).held_back() is held


def test_the_end_is_that_of_the_status() -> None:
    done = {"phase": "Stopped", "message": "by user"}
    assert queued_job(status=done).finished() == Ended(False, "by user")
    assert queued_job(status={"phase": "Succeeded"}).finished() == Ended(True, "Succeeded")
    assert queued_job().finished() is None
    assert queued_job(status=done, managedBy=MULTIKUEUE).finished() is None, "it is MultiKueue's status"
    unfit = [{"type": "WorkloadAdmitted", "status": "False", "reason": OUT_OF_SYNC}]
    found = queued_job(status={"phase": "Failed", "conditions": unfit}).finished()
    assert found is not None and found.reason == OUT_OF_SYNC


def test_the_first_start_is_not_confirmed_and_a_later_one_is() -> None:
    held = workload(QUOTA, ADMITTED)
    outcome = queue(queued_job(held).ctx)
    assert (outcome.verdict, outcome.steps, outcome.workload) == (Verdict.STARTING, (), held)
    later = queued_job(held, status={"phase": "Pending", "attempt": 1})
    assert attempt(queue, later.ctx) == NeededFacts((LiveGet(WORKLOAD, Key(NS, "job")),))


def test_the_name_follows_the_attempt_and_gives_way() -> None:
    second = {"phase": "Pending", "attempt": 1}
    assert queued_job().workload_request(None).key == Key(NS, "job")
    request = queued_job(status=second).workload_request(None)
    assert request.key == Key(NS, "job-r2")
    step = Create(FOURNOS_JOB, build(request))
    taken = StepFailure(step, "ForeignObject", "taken", transient=False, count=1)
    name = queued_job(status=second, facts=Facts(failure=taken)).workload_request(None).key.name
    assert name.startswith("job-r2-") and name != "job-r2"


# --- queued jobs ---------------------------------------------------------------------------------------
# A FournosJob in the queue: how long it waits, what its message names, and when it is queued anew.


async def test_the_reported_holder_is_the_present_one() -> None:
    """Kueue's message stays the same when one job takes the cluster over from another; ours must not."""

    def setup(server: Server) -> None:
        submit(server, "first")
        submit(server, "urgent", priority="nightly")
        submit(server)

    def end_first(server: Server) -> None:
        assert "by job first" in status(server)["message"]
        edit("first", shutdown="Terminate")(server)

    server = await finished(setup, tekton=Tekton(endless={"first", "urgent"}), script=[end_first])
    assert phase(server, "first") == "Stopped"
    expected = "Cluster cluster-1 is exclusively locked by job urgent, waiting for it to finish"
    assert (phase(server), status(server)["message"]) == ("Pending", expected)


async def test_a_job_for_any_cluster_reports_that_all_are_locked() -> None:
    def setup(server: Server) -> None:
        submit(server, "first", cluster="cluster-1")
        submit(server, "second", cluster="cluster-2")

    def submit_shared(server: Server) -> None:
        submit(server, cluster=None, exclusive=False, hardware={"gpuType": "a100", "gpuCount": 2})

    def end_second(server: Server) -> None:
        expected = "All eligible clusters are exclusively locked, waiting for availability"
        assert (phase(server), status(server)["message"]) == ("Pending", expected)
        edit("second", shutdown="Terminate")(server)

    tekton = Tekton(endless={"first", "second"})
    server = await finished(setup, tekton=tekton, script=[submit_shared, end_second])
    assert (phase(server), status(server)["cluster"]) == ("Succeeded", "cluster-2")


async def test_a_long_queue_is_not_written_again_for_every_job_that_ends() -> None:
    def setup(server: Server) -> None:
        submit(server, "first")
        for number in range(60):
            submit(server, f"waiting-{number}")

    server = await finished(setup, tekton=Tekton(endless={"first"}))
    messages = [j["status"]["message"] for j in server.list(FOURNOS_JOB) if j["metadata"]["name"] != "first"]
    assert sum("by job first" in message for message in messages) == 50
    assert sum("by another job" in message for message in messages) == 10


async def test_a_spec_that_changes_in_the_queue_is_queued_anew() -> None:
    """Cluster and priority are free until a cluster is assigned."""

    def setup(server: Server) -> None:
        submit(server, "first")
        submit(server)

    def move(server: Server) -> None:
        assert phase(server) == "Pending"
        edit(cluster="cluster-2")(server)

    server = await finished(setup, tekton=Tekton(endless={"first"}), script=[move])
    assert (phase(server), status(server)["cluster"]) == ("Succeeded", "cluster-2")


# --- requests ------------------------------------------------------------------------------------------
# The requests of one job's life, each by name: docs/decisions/0016 says what each is for.
#
# The rest of docs/performance.md's count is Events and Kueue's share.

STATUS = "patch fournosjobs.fournos.dev/status bench/job"
METADATA = "patch fournosjobs.fournos.dev bench/job"

RESOLVED = (
    STATUS,  # Resolving
    "create jobs.batch bench/job-resolve",
    STATUS,  # Pending: proves what the resolver wrote
)
STARTED = (
    "create workloads.kueue.x-k8s.io bench/job",
    STATUS,  # Admitted: claims the attempt
    METADATA,  # the finalizer, before the run
    "get secrets psap-secrets/kubeconfig-cluster-1",
    "create secrets bench/job-kubeconfig",
    "create pipelineruns.tekton.dev bench/job",
)
RUNNING = (
    "patch workloads.kueue.x-k8s.io/status bench/job",  # PodsReady
    STATUS,  # Running
)
ENDED = (
    "delete workloads.kueue.x-k8s.io bench/job",  # the quota, before the end is declared
    STATUS,  # Succeeded
    "patch pipelineruns.tekton.dev bench/job",  # no finalizer, after the end
    METADATA,  # no finalizer, after the end
)


@pytest.fixture
def requests(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """All requests in their order; a read has no number among the writes of a `Connection`."""
    found: list[str] = []
    write, get, list_ = Connection._write, Connection.get, Connection.list

    def written(self: Connection, what: str, *rest: Any) -> Any:
        found.append(what)
        return write(self, what, *rest)

    async def read(self: Connection, resource: Resource, key: Key) -> Any:
        found.append(f"get {resource} {key}")
        return await get(self, resource, key)

    async def listed(self: Connection, resource: Resource, **options: Any) -> Any:
        found.append(f"list {resource}")
        return await list_(self, resource, **options)

    monkeypatch.setattr(Connection, "_write", written)
    monkeypatch.setattr(Connection, "get", read)
    monkeypatch.setattr(Connection, "list", listed)
    return found


class InstantTekton(Tekton):
    """Ends a run in the round in which it starts it: the operator never sees it running."""

    def __call__(self, server: Any) -> None:
        super().__call__(server)
        super().__call__(server)


async def test_a_job(requests: list[str]) -> None:
    await run(scenario(submit))
    assert tuple(requests) == (*RESOLVED, *STARTED, *RUNNING, *ENDED)


async def test_a_job_that_is_over_at_once(requests: list[str]) -> None:
    await run(scenario(submit, tekton=InstantTekton))
    assert tuple(requests) == (*RESOLVED, *STARTED, *ENDED)


async def test_a_job_without_a_cluster(requests: list[str]) -> None:
    await run(scenario(lambda server: submit(server, cluster=None, exclusive=False, clusterless=True)))
    written = [one for one in STARTED if "workloads" not in one and "secrets" not in one]
    assert tuple(requests) == (*RESOLVED[:2], *written, STATUS, *ENDED[1:])


@pytest.mark.parametrize("lag", [1, 2, 3])
async def test_caches_that_lag_cost_refused_writes_but_create_nothing_twice(
    lag: int, requests: list[str]
) -> None:
    await Run(scenario(submit), lag=lag).finish()
    made = [one for one in requests if not one.startswith("patch")]
    expected = [one for one in (*RESOLVED, *STARTED, *RUNNING, *ENDED) if not one.startswith("patch")]
    assert made == expected


def test_a_held_lock_has_the_priority_of_the_highest_class_that_is_shipped() -> None:
    shipped = [one["value"] for one in yaml.safe_load_all(CONFIG.read_text()) if "value" in (one or {})]
    assert max(shipped) == names.LOCK_PRIORITY
