"""The ledger books the cause that `explain` names, for every kind and every reason of Kueue."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from fournos.api.kinds import APPWRAPPER, FOURNOS_JOB
from fournos.api.phase import Cause
from fournos.engine.kube.resource import Obj, key_of
from fournos.engine.runtime.decision import Facts
from fournos.history.recorder.archive import Write
from fournos.history.recorder.context import ObservedObject
from fournos.history.recorder.decide import decide
from fournos.history.settings import HistorySettings
from fournos.insight import appwrapper_reasons, reasons
from fournos.insight.appwrapper_reasons import WrapperMembers
from fournos.insight.children import Children
from fournos.insight.facts import WaitFacts
from fournos.insight.kueue_reasons import REASONS
from tests.unit.cli.objects import NOW, ago, cluster_queue, job, local_queue, workload

QUEUED = {"kueue.x-k8s.io/queue-name": "fournos-queue"}


def wrapper(phase: str = "Suspended", *, labels: Any = None, **status: Any) -> Obj:
    found = job("one", phase, labels=QUEUED if labels is None else labels, status=status)
    return {**found, "kind": "AppWrapper", "spec": {"suspend": phase == "Suspended", "components": []}}


def waiting(reason: str, **fields: Any) -> Obj:
    condition = {"type": "QuotaReserved", "status": "False", "reason": reason, "message": "why"}
    return workload(conditions=[condition], **fields)


def facts_of(obj: Obj, *workloads: Obj) -> WaitFacts:
    return WaitFacts(obj, Children(workloads), "fournos-queue", local_queue(), cluster_queue())


def booked(facts: WaitFacts, now: Any = NOW) -> Cause | None:
    """The cause of the ledger's open interval."""
    resource = FOURNOS_JOB if facts.job["kind"] == "FournosJob" else APPWRAPPER
    obj: Obj = {**facts.job, "metadata": {**facts.job["metadata"], "resourceVersion": "1"}}
    seen = ObservedObject(
        key_of(obj),
        resource,
        cluster="c",
        obj=obj,
        children=facts.found,
        facts=replace(facts, job=obj),
        workload=facts.found.workloads[-1] if facts.found.workloads else None,
    )
    decision = decide(seen, Facts(), now, settings=HistorySettings())
    (write,) = (step for step in decision.steps if isinstance(step, Write))
    last = write.record.waits[-1] if write.record.waits else None
    return last.cause if last is not None and last.end is None else None


@pytest.mark.parametrize("reason", [*REASONS, "WaitingForQuota", "ExceedsMaxQuota", "Pending"])
def test_a_reason_of_kueue_is_booked_as_it_is_explained(reason: str) -> None:
    for facts in (facts_of(job("one", "Pending"), waiting(reason)), facts_of(wrapper(), waiting(reason))):
        assert booked(facts) is explained(facts)


def explained(facts: WaitFacts) -> Cause | None:
    if facts.job["kind"] == "FournosJob":
        return reasons.explain(facts, NOW).cause
    return appwrapper_reasons.explain(facts.job, WrapperMembers(facts.found.workloads), facts, NOW).cause


def test_a_finished_workload_is_not_the_one_that_waits() -> None:
    """A replaced slice, or the Workload of an attempt that is over, in whichever order they are read."""
    older, newer = waiting("Misconfigured", created=ago(minutes=9)), workload("two")
    newer["status"]["conditions"] = [{"type": "Finished", "status": "True"}]
    facts = facts_of(wrapper(), older, newer)
    assert booked(facts) is explained(facts) is Cause.QUEUE_STOPPED
    later = waiting("AdmissionGated", created=ago(minutes=1))
    facts = facts_of(wrapper(), later, older)
    assert booked(facts) is explained(facts) is Cause.ADMISSION_CHECK


def test_an_object_without_a_queue_waits_for_no_queue() -> None:
    facts = facts_of(wrapper(labels={}))
    assert booked(facts) is explained(facts) is Cause.SUSPENDED


def test_an_appwrapper_that_runs_does_not_wait() -> None:
    deployed = {"type": "ResourcesDeployed", "status": "True", "lastTransitionTime": ago(minutes=1)}
    admitted = workload(conditions=[{"type": "Admitted", "status": "True"}])
    facts = facts_of(wrapper("Running", conditions=[deployed]), admitted)
    assert booked(facts) is explained(facts) is None
