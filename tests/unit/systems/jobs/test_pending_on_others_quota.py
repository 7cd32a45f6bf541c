"""A job in the queue with a Workload that it has not made, as tables: its owner's, or that of MultiKueue."""

from __future__ import annotations

from typing import Any

import pytest

from fournos.api.kinds import FOURNOS_JOB
from fournos.engine.kube.resource import Key, Obj, owner_reference
from fournos.engine.queueing.kinds import WORKLOAD
from fournos.engine.runtime.decision import Absent, Answer, Decision, LiveGet, LiveList, Present, Unknown
from fournos.engine.runtime.steps import Patch
from tests.unit.systems.jobs.actors import NS
from tests.unit.systems.jobs.passes import a_job, a_workload, condition_of, decided, true, written
from tests.unit.systems.jobs.pending_passes import ON, pending, queued

# --- on the quota of an owner --------------------------------------------------------------------------

PARENT = {"apiVersion": "workload.codeflare.dev/v1beta2", "kind": "AppWrapper", "name": "aw", "uid": "aw1"}
OF_PARENT = LiveList(WORKLOAD, NS, "kueue.x-k8s.io/job-uid=aw1")


def of_parent(*conditions: Any, usage: Any = None) -> Obj:
    amounts = {"fournos/cluster-slot": "100"} if usage is None else usage
    template = {"metadata": {"annotations": {"fournos.dev/component": "fournos.dev/v1/FournosJob/job"}}}
    assigned = {"name": "p-0", "flavors": dict.fromkeys(amounts, "cluster-1"), "resourceUsage": amounts}
    return {
        "metadata": {
            "name": "w-aw",
            "namespace": NS,
            "uid": "w-aw",
            "ownerReferences": [{**PARENT, "controller": True}],
        },
        "spec": {"podSets": [{"name": "p-0", "template": template}]},
        "status": {
            "conditions": list(conditions),
            "admission": {"clusterQueue": "cq", "podSetAssignments": [assigned]},
        },
    }


def nested(answer: Answer) -> Decision:
    return pending(meta={"ownerReferences": [{**PARENT, "controller": True}]}, answers={OF_PARENT: answer})


def test_a_nested_job_gets_no_workload_and_claims_the_cluster_of_its_owner() -> None:
    found = nested(Present((of_parent(*ON),)))
    assert found.steps == () and written(found, "phase", "cluster") == ("Admitted", "cluster-1")
    (attempts,) = written(found, "attempts")
    assert (attempts[0]["workload"], attempts[0]["pipelineRun"]) == ("w-aw", "job")


def test_a_nested_job_waits_for_its_owner() -> None:
    found = nested(Present((of_parent(true("QuotaReserved")),)))
    text = "Waiting for AppWrapper aw to be admitted"
    assert written(found, "phase", "message") == ("Pending", text) and found.retry and found.steps == ()
    assert condition_of(found, "WorkloadAdmitted") == ("False", "OwnerNotAdmitted", text)


def test_a_nested_job_for_which_its_owner_has_no_slots_fails() -> None:
    found = nested(Present((of_parent(*ON, usage={"cpu": "1"}),)))
    text = "Runs on the quota of AppWrapper aw, which assigns no cluster: request fournos/cluster-slot there"
    assert written(found, "phase", "message") == ("Failed", text)
    assert condition_of(found, "WorkloadAdmitted") == ("False", "NoFlavorAssigned", text)


def test_a_job_whose_owner_cannot_be_seen_gets_no_workload() -> None:
    found = nested(Unknown("timeout"))
    text = "Waiting: cannot read the Workload of its owner: timeout"
    assert written(found, "phase", "message") == ("Pending", text) and found.retry and found.steps == ()
    assert condition_of(found, "WorkloadAdmitted") == ("False", "OwnerUnknown", text)


# --- on a worker: the Workload that MultiKueue has made ------------------------------------------------

PREBUILT = {"labels": {"kueue.x-k8s.io/prebuilt-workload-name": "pre"}}
LIVE = LiveGet(WORKLOAD, Key(NS, "pre"))


@pytest.mark.parametrize(
    ("answer", "message"),
    [
        (Absent(), "Waiting: its Workload 'pre' is not there"),
        (Unknown("timeout"), "Waiting: its Workload 'pre' cannot be read"),
    ],
)
def test_a_prebuilt_workload_that_is_missing_is_waited_for(answer: Answer, message: str) -> None:
    found = pending(meta=PREBUILT, answers={LIVE: answer})
    assert written(found, "phase", "message") == ("Pending", message) and found.retry and found.steps == ()
    assert condition_of(found, "WorkloadAdmitted") == ("False", "PrebuiltMissing", message)


def prebuilt(owner: Any) -> Obj:
    base = a_workload(name="pre")
    return {**base, "metadata": {**base["metadata"], "ownerReferences": [owner] if owner else []}}


def test_a_prebuilt_workload_of_another_owner_fails_the_job_and_stays() -> None:
    theirs = {**PARENT, "controller": True}
    found = pending(meta=PREBUILT, answers={LIVE: Present(prebuilt(theirs))})
    text = "Workload 'pre' belongs to AppWrapper aw"
    assert written(found, "phase", "message") == ("Failed", text) and found.steps == ()
    assert condition_of(found, "WorkloadAdmitted") == ("False", "PrebuiltTaken", text)


@pytest.mark.parametrize("owner", [None, owner_reference(FOURNOS_JOB, a_job(""))], ids=["free", "ours"])
def test_a_prebuilt_workload_that_only_the_cache_misses_is_waited_for(owner: Any) -> None:
    found = pending(meta=PREBUILT, answers={LIVE: Present(prebuilt(owner))})
    assert found == Decision(retry=True)


def test_a_job_that_does_not_match_its_prebuilt_workload_fails() -> None:
    """The Workload is finished after the status: its end is the signal to the manager cluster."""
    labels = {"kueue.x-k8s.io/prebuilt-workload-name": "job"}
    owner = owner_reference(FOURNOS_JOB, a_job(""))
    base = queued()
    ours = {**base, "metadata": {**base["metadata"], "ownerReferences": [owner]}}
    found = pending(ours, meta={"labels": labels}, prebuilt=ours, cluster="cluster-2")
    text = (
        "The prebuilt workload is out of sync with its user job: "
        "write the GPUs that it needs into spec.hardware where it is submitted"
    )
    assert written(found, "phase", "message") == ("Failed", text) and found.steps == ()
    assert condition_of(found, "WorkloadAdmitted") == ("False", "OutOfSync", text)


def test_a_free_prebuilt_workload_is_taken_before_anything_else() -> None:
    found = decided(a_job("", meta=PREBUILT, status={"resolved": None}), prebuilt=prebuilt(None))
    (step,) = found.steps
    assert isinstance(step, Patch) and (step.resource, step.key) == (WORKLOAD, Key(NS, "pre"))
    assert step.body["metadata"]["ownerReferences"][0]["uid"] == "u1" and found.status is None
