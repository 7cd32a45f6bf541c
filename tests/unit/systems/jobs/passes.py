"""One pass of a FournosJob: objects as the caches have them and answers in, the decision out."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from typing import Any

from fournos.api.fournosjob import FournosJobSpec
from fournos.api.kinds import FOURNOS_JOB, PIPELINE_RUN
from fournos.engine.kube.resource import POD, Key, Obj, owner_reference
from fournos.engine.queueing.kinds import WORKLOAD
from fournos.engine.runtime.decision import (
    Absent,
    Answer,
    Create,
    Decision,
    Delete,
    Facts,
    LiveGet,
    LiveList,
    Patch,
    Question,
    StepFailure,
)
from fournos.systems.jobs import names
from fournos.systems.jobs.decide import decide
from fournos.systems.jobs.settings import JobSettings
from fournos.systems.jobs.status import Observed
from tests.unit.systems.jobs.actors import NS, SETTINGS, TEMPLATE

NOW = datetime(2030, 1, 1, 12, tzinfo=UTC)
KEY = Key(NS, "job")
META = {"name": "job", "namespace": NS, "uid": "u1", "resourceVersion": "7", "generation": 2}
GOING = {"deletionTimestamp": "2030-01-01T12:00:00Z"}
RUN = LiveGet(PIPELINE_RUN, KEY)
PODS = LiveList(POD, NS, "tekton.dev/pipelineRun=job")
OWN_WORKLOAD = LiveGet(WORKLOAD, KEY)
GONE = Delete(WORKLOAD, KEY, "w-job")
"""The deletion of the Workload of `a_workload`."""


def ago(seconds: float) -> str:
    """Returns the time this many seconds before the pass."""
    return (NOW - timedelta(seconds=seconds)).strftime("%Y-%m-%dT%H:%M:%SZ")


def a_job(phase: str, *, meta: Mapping[str, Any] | None = None, status: Any = None, **spec: Any) -> Obj:
    """Returns a job on its first attempt, on cluster-1, if the phase has one."""
    holding = phase in ("Admitted", "Running", "Stopping")
    entry = {"number": 1, "cluster": "cluster-1", "workload": "job", "pipelineRun": "job"}
    claim = {"attempt": 1, "attempts": [entry], "cluster": "cluster-1"} if holding else {}
    return {
        "apiVersion": FOURNOS_JOB.api_version,
        "kind": FOURNOS_JOB.kind,
        "metadata": {**META, "finalizers": [names.FINALIZER] if holding else [], **(meta or {})},
        "spec": {"cluster": "cluster-1", **spec},
        "status": {"phase": phase, "resolved": {}, **claim, **(status or {})},
    }


def true(type_: str, reason: str = "", message: str = "", since: float = 60) -> dict[str, Any]:
    return {
        "type": type_,
        "status": "True",
        "reason": reason or type_,
        "message": message,
        "lastTransitionTime": ago(since),
    }


READY = true("PodsReady", "Started")


def a_workload(*conditions: Any, cluster: str = "cluster-1", name: str = "job", **meta: Any) -> Obj:
    """Returns the job's Workload, admitted on the cluster if no other conditions are given."""
    owner = owner_reference(FOURNOS_JOB, a_job(""))
    base = {"name": name, "namespace": NS, "uid": f"w-{name}", "resourceVersion": "3"}
    assigned = {"name": names.POD_SET, "flavors": {names.SLOT_RESOURCE: cluster}}
    return {
        "metadata": {**base, "ownerReferences": [owner], **meta},
        "spec": {"podSets": [], "queueName": "lq"},
        "status": {
            "conditions": list(conditions) or [true("QuotaReserved"), true("Admitted"), READY],
            "admission": {"clusterQueue": "cq", "podSetAssignments": [assigned]},
        },
    }


def a_run(
    *conditions: Any, name: str = "job", age: float = 600, cancelled: str = "", **status: Any
) -> dict[str, Any]:
    """Returns a run that Tekton has taken up."""
    owner = owner_reference(FOURNOS_JOB, a_job(""))
    base = {"name": name, "namespace": NS, "uid": f"r-{name}", "creationTimestamp": ago(age)}
    return {
        "metadata": {**base, "ownerReferences": [owner], "labels": {names.ATTEMPT_LABEL: "1"}},
        "spec": {"status": cancelled} if cancelled else {},
        "status": {"conditions": list(conditions) or [{**GOES_ON}], **status},
    }


GOES_ON = {"type": "Succeeded", "status": "Unknown", "reason": "Running", "message": "Tasks Completed: 1"}
SUCCEEDED = a_run(true("Succeeded", message="Tasks Completed: 3"), completionTime=ago(5), startTime=ago(300))
FAILED = a_run(
    {"type": "Succeeded", "status": "False", "reason": "Failed", "message": "exit code 1"},
    completionTime=ago(5),
    startTime=ago(300),
)


def a_pod(name: str = "pod", *, phase: str = "Running", job: str = "job") -> Obj:
    labels = {names.JOB_NAME_LABEL: job}
    meta = {"name": name, "namespace": NS, "uid": f"p-{name}", "labels": labels}
    return {"metadata": meta, "status": {"phase": phase}}


def decided(
    job: Obj,
    *,
    workloads: tuple[Obj, ...] = (),
    runs: tuple[Obj, ...] = (),
    answers: Mapping[Question, Answer] | None = None,
    failure: StepFailure | None = None,
    settings: JobSettings = SETTINGS,
    now: datetime = NOW,
    **observed: Any,
) -> Decision:
    """Returns the decision.

    Live reads find no pod, and neither run nor Workload if the caches do not have them.  For other reads the
    answer must be given.
    """
    seen = Observed(
        KEY,
        job,
        FournosJobSpec.model_validate(job["spec"]),
        workloads=workloads,
        runs=runs,
        **observed,
    )
    missing: dict[Question, Answer] = {PODS: Absent()}
    missing |= {} if runs else {RUN: Absent()}
    missing |= {} if workloads else {OWN_WORKLOAD: Absent()}
    return decide(
        seen, Facts({**missing, **(answers or {})}, failure), now, settings=settings, template=TEMPLATE
    )


def condition_of(decision: Decision, type_: str) -> tuple[str, str, str]:
    """Returns status, reason and message of a condition of the written status."""
    assert decision.status is not None
    (found,) = [one for one in decision.status["conditions"] if one["type"] == type_]
    return found["status"], found["reason"], found["message"]


def written(decision: Decision, *fields: str) -> tuple[Any, ...]:
    """Returns these fields of the written status."""
    assert decision.status is not None
    return tuple(decision.status.get(field) for field in fields)


# --- pending passes ------------------------------------------------------------------------------------
# Passes of a job in the queue, and the Workload that it gets.

ON = (true("QuotaReserved"), true("Admitted"))


def requested(**spec: Any) -> dict[str, Any]:
    """Returns the Workload that a pending job with this spec gets, as the API server has it."""
    (step,) = decided(a_job("Pending", **spec)).steps
    assert isinstance(step, Create)
    return {**step.body, "metadata": {**step.body["metadata"], "uid": "w-job", "resourceVersion": "3"}}


def queued(
    *conditions: Any, cluster: str = "", status: Any = None, since: float = 3600, **spec: Any
) -> dict[str, Any]:
    """Returns that Workload with these conditions, admitted on the cluster if one is given."""
    assigned = {"name": names.POD_SET, "flavors": {names.SLOT_RESOURCE: cluster} if cluster else {}}
    admission = {"admission": {"clusterQueue": "cq", "podSetAssignments": [assigned]}} if conditions else {}
    workload = requested(**spec)
    workload["metadata"]["creationTimestamp"] = ago(since)
    return {**workload, "status": {"conditions": list(conditions), **admission, **(status or {})}}


def pending(*workloads: Obj, status: Any = None, meta: Any = None, **changes: Any) -> Decision:
    known = {
        "answers",
        "failure",
        "priority_value",
        "prebuilt",
        "holders",
        "exclusive_holders",
        "free_quota",
        "queued_before",
    }
    observed = {name: value for name, value in changes.items() if name in known}
    spec = {name: value for name, value in changes.items() if name not in known}
    return decided(a_job("Pending", status=status, meta=meta, **spec), workloads=workloads, **observed)


# --- interruptions -------------------------------------------------------------------------------------
# Interruptions in the tables of jobs, and what a decision writes of them.

EVICTED = a_workload(
    true("QuotaReserved"), true("Admitted"), true("Evicted", "Preempted", "make room"), READY
)
ASKED = {"stopRequestedAt": ago(10)}


def cancelled(how: str) -> Patch:
    return Patch(PIPELINE_RUN, KEY, {"spec": {"status": how}})


def stopped(decision: Decision) -> tuple[Any, ...]:
    return written(decision, "phase", "message", "stopRequestedAt", "cluster")
