"""A FournosJob in the job framework: its requests, and the Workloads that fit."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest

from fournos.api.fournosjob import FournosJobSpec
from fournos.api.kinds import FOURNOS_JOB
from fournos.engine.kube.resource import Key, Obj, owner_reference
from fournos.engine.queueing.ensure import OUT_OF_SYNC, PREBUILT_LABEL
from fournos.engine.queueing.job import Ended, Verdict
from fournos.engine.queueing.workload import WORKLOAD, build
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
from fournos.systems.jobs.queue import QueuedFournosJob, queue
from fournos.systems.jobs.status import Context, Observed
from tests.unit.systems.jobs.actors import NS, SETTINGS, TEMPLATE

NOW = datetime(2030, 1, 1, tzinfo=UTC)
NOTHING = Facts()
MULTIKUEUE = "kueue.x-k8s.io/multikueue"
QUOTA, ADMITTED, EVICTED = (
    {"type": one, "status": "True"} for one in ("QuotaReserved", "Admitted", "Evicted")
)


def queued(
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
    job = queued(**(spec or {}))
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
        (workload(), queued(), True),
        (workload(spec={"cluster": "a"}), queued(cluster="b"), False),
        (workload(spec={"exclusive": False}), queued(exclusive=True), False),
        (workload(QUOTA, ADMITTED, spec={"cluster": "a"}), queued(cluster="b"), False),
        (workload(**CLASS), queued(), False),  # a priority that the job does not ask for
        (workload(**CLASS), queued(priority="low"), True),  # it is changed where it is
        (workload(QUOTA, ADMITTED, **CLASS), queued(), True),  # Hearth has raised it
        (workload(queueName="other"), queued(), True),  # it is changed where it is
        (workload(QUOTA, ADMITTED, queueName="other"), queued(), False),
        (workload(QUOTA, ADMITTED, queueName="other"), queued(prebuilt=True), True),
        (workload(spec={"cluster": "a"}), queued(cluster="b", prebuilt=True), False),
        (workload(spec={"cluster": "a"}), queued(cluster="b", status={"phase": "Failed"}), True),
        (workload(spec={"cluster": "a"}), queued(cluster="b", managedBy=MULTIKUEUE), False),
        (workload(QUOTA, spec={"cluster": "a"}), queued(cluster="b", managedBy=MULTIKUEUE), True),
        (workload(QUOTA, ADMITTED, queueName="other"), queued(managedBy=MULTIKUEUE), True),
    ],
)
def test_which_workload_fits(found: Obj, job: QueuedFournosJob, fits: bool) -> None:
    assert job.fits(found) is fits


def test_a_waiting_one_that_does_not_fit_is_rewritten_and_one_with_quota_goes() -> None:
    (patch,) = queue(queued(workload(**CLASS), cluster="b").ctx).steps
    assert isinstance(patch, Patch)
    pod = patch.body["spec"]["podSets"][0]["template"]["spec"]
    assert pod["nodeSelector"] == {"fournos.dev/cluster": "b"}
    assert patch.body["spec"]["priorityClassRef"] is patch.body["spec"]["priority"] is None
    unfit = queued(workload(QUOTA, ADMITTED), cluster="b")
    requested = attempt(queue, unfit.ctx)
    assert requested == NeededFacts((LiveGet(FOURNOS_JOB, Key(NS, "job")),))
    seen = Facts({requested.questions[0]: Present(unfit.obj)})
    (gone,) = queue(queued(workload(QUOTA, ADMITTED), cluster="b", facts=seen).ctx).steps
    assert isinstance(gone, Delete) and gone.uid == "w1"


@pytest.mark.parametrize(
    ("conditions", "name"),
    [((), "low"), ((EVICTED,), "low"), ((QUOTA, ADMITTED), ""), ((QUOTA, EVICTED), "")],
)
def test_a_priority_is_not_changed_while_quota_is_held(conditions: tuple[Any, ...], name: str) -> None:
    assert queued(workload(*conditions), priority="low").workload_priority_class() == name
    assert queued(priority="low").workload_priority_class() == "low"


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
    assert queued(**spec).held_back() is held


def test_the_end_is_that_of_the_status() -> None:
    done = {"phase": "Stopped", "message": "by user"}
    assert queued(status=done).finished() == Ended(False, "by user")
    assert queued(status={"phase": "Succeeded"}).finished() == Ended(True, "Succeeded")
    assert queued().finished() is None
    assert queued(status=done, managedBy=MULTIKUEUE).finished() is None, "it is MultiKueue's status"
    unfit = [{"type": "WorkloadAdmitted", "status": "False", "reason": OUT_OF_SYNC}]
    found = queued(status={"phase": "Failed", "conditions": unfit}).finished()
    assert found is not None and found.reason == OUT_OF_SYNC


def test_the_first_start_is_not_confirmed_and_a_later_one_is() -> None:
    held = workload(QUOTA, ADMITTED)
    outcome = queue(queued(held).ctx)
    assert (outcome.verdict, outcome.steps, outcome.workload) == (Verdict.STARTING, (), held)
    later = queued(held, status={"phase": "Pending", "attempt": 1})
    assert attempt(queue, later.ctx) == NeededFacts((LiveGet(WORKLOAD, Key(NS, "job")),))


def test_the_name_follows_the_attempt_and_gives_way() -> None:
    second = {"phase": "Pending", "attempt": 1}
    assert queued().workload_request(None).key == Key(NS, "job")
    request = queued(status=second).workload_request(None)
    assert request.key == Key(NS, "job-r2")
    step = Create(FOURNOS_JOB, build(request))
    taken = StepFailure(step, "ForeignObject", "taken", transient=False, count=1)
    name = queued(status=second, facts=Facts(failure=taken)).workload_request(None).key.name
    assert name.startswith("job-r2-") and name != "job-r2"
