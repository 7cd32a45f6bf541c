"""A job in the queue with a Workload that it has not made, as tables: that of MultiKueue."""

from __future__ import annotations

from typing import Any

import pytest

from fournos.api.kinds import FOURNOS_JOB
from fournos.engine.kube.resource import Key, Obj, owner_reference
from fournos.engine.queueing.workload import WORKLOAD
from fournos.engine.runtime.decision import Absent, Answer, Decision, LiveGet, Patch, Present, Unknown
from tests.unit.systems.jobs.actors import NS
from tests.unit.systems.jobs.passes import a_job, a_workload, condition_of, decided, written
from tests.unit.systems.jobs.pending_passes import pending, queued

PARENT = {"apiVersion": "workload.codeflare.dev/v1beta2", "kind": "AppWrapper", "name": "aw", "uid": "aw1"}

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
