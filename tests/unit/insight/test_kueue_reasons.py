"""Why a Workload waits in the words of Kueue 0.15 to 0.19, and what it asks for as Kueue counts it."""

from __future__ import annotations

from collections.abc import Iterable
from decimal import Decimal
from typing import Any

import pytest

from fournos.api.slots import UNAVAILABLE_TAINT
from fournos.engine.kube.resource import Obj
from fournos.insight.children import Children
from fournos.insight.explanation import Explanation
from fournos.insight.facts import WaitFacts
from fournos.insight.queue_reasons import REASONS, Words, in_queue
from fournos.insight.quota import requests
from fournos.insight.reasons import explain
from tests.unit.cli.objects import NOW, cluster_queue, job, local_queue

GPU, SLOT = "fournos/gpu-a100", "fournos/cluster-slot"
FLAVORS = ({"metadata": {"name": "cluster-1"}, "spec": {"nodeLabels": {"fournos.dev/cluster": "cluster-1"}}},)
TOPOLOGY = (
    "couldn't assign flavors to pod set main: topology \"default\" doesn't allow to fit any of 1 pod(s)"
)
MORE = "insufficient unused quota for fournos/gpu-a100 in flavor cluster-1, 2 more needed"
NEVER = "insufficient quota for fournos/gpu-a100 in flavor cluster-1, request > maximum capacity (8)"


def waiting(reason: str, message: str, pod: Obj | None = None, **status: Any) -> Obj:
    """A Workload that Kueue has not admitted for this reason."""
    template = {"spec": pod or {"containers": [container({GPU: "2"})]}}
    condition = {"type": "QuotaReserved", "status": "False", "reason": reason, "message": message}
    return {
        "metadata": {
            "name": "w",
            "namespace": "perf",
            "uid": "w",
            "creationTimestamp": "2026-01-01T00:00:00Z",
        },
        "spec": {
            "queueName": "fournos-queue",
            "podSets": [{"name": "main", "count": 1, "template": template}],
        },
        "status": {"conditions": [condition], **status},
    }


def container(requests: Obj, **more: Any) -> Obj:
    return {"name": "c", "resources": {"requests": requests}, **more}


def explained(workload: Obj, flavors: Iterable[Obj] = FLAVORS) -> tuple[Explanation, Explanation]:
    """The explanation of a FournosJob, and of an object of another kind."""
    facts = WaitFacts(
        job("one", "Pending"),
        Children(workloads=[workload]),
        "fournos-queue",
        local_queue(),
        cluster_queue(),
        tuple(flavors),
    )
    return explain(facts, NOW), in_queue(facts.job, workload, facts, Words((), "", ""))


@pytest.mark.parametrize(
    ("reason", "message"),
    [
        # With the gate UnadmittedWorkloadsObservability (0.19).
        ("TopologyPlacementFailed", TOPOLOGY),
        ("AdmissionGated", "Workload admission is gated by: team.io/approval"),
        ("WaitingForPreemptedWorkloads", f"{MORE}. Pending the preemption of 1 workload(s)"),
        ("WaitingForPodsReady", "waiting for all admitted workloads to be in PodsReady condition"),
        ("Misconfigured", "ClusterQueue fournos-queue is inactive"),
        ("Suspended", "LocalQueue fournos-queue is stopped"),
        # Without it, and in 0.15.
        ("Pending", TOPOLOGY),
        ("Pending", f"{MORE}. Pending the preemption of 1 workload(s)"),
        ("Waiting", "waiting for all admitted workloads to be in PodsReady condition"),
        ("Pending", "Workload has overlapping preemption targets with another workload"),
    ],
)
def test_a_reason_that_names_no_quota_is_kueues_for_every_kind(reason: str, message: str) -> None:
    for explanation in explained(waiting(reason, message)):
        assert any(explanation.verdict.endswith(known.sentence) for known in REASONS.values())
        assert any(message in line for line in explanation.because)


@pytest.mark.parametrize("reason", ["Pending", "WaitingForQuota"])
def test_never_is_not_said_of_a_workload_that_kueue_calls_waiting(reason: str) -> None:
    """Kueue may leave out resources that its ClusterQueue does not declare, or count others."""
    for asked in ({GPU: "2", "cpu": "1"}, {GPU: "99"}):
        for explanation in explained(waiting(reason, MORE, {"containers": [container(asked)]})):
            assert "never" not in explanation.verdict


@pytest.mark.parametrize(
    ("reason", "message"), [("Pending", NEVER), ("ExceedsMaxQuota", NEVER), ("Pending", "")]
)
def test_never_is_said_where_kueue_agrees_or_has_not_looked(reason: str, message: str) -> None:
    for explanation in explained(waiting(reason, message, {"containers": [container({GPU: "99"})]})):
        assert "can never be admitted: it asks for 99" in explanation.verdict
        # What Kueue leaves out or transforms is known only when it has looked.
        guessed = any("excludeResourcePrefixes" in line for line in explanation.because)
        assert guessed is (not message)


def test_devices_that_kueue_has_not_counted_are_named() -> None:
    claims = [{"name": "a", "resourceClaimTemplateName": "two-gpus"}, {"name": "b"}]
    asked = {SLOT: "1", "deviceclass.resource.kubernetes.io/nvme": "1"}
    pod = {"resourceClaims": claims, "containers": [container(asked)]}
    for explanation in explained(waiting("WaitingForQuota", MORE, pod)):
        assert "devices (DRA: two-gpus, b, nvme)" in explanation.verdict
    counted = {"resourceRequests": [{"name": "main", "resources": {GPU: "2", SLOT: "1"}}]}
    for explanation in explained(waiting("WaitingForQuota", MORE, pod, **counted)):
        assert "devices" not in explanation.verdict


@pytest.mark.parametrize(
    ("pod", "asks"),
    [
        (
            {"containers": [container({GPU: "2"}), container({GPU: "1", "cpu": "500m"})]},
            {GPU: 3, "cpu": "0.5"},
        ),
        ({"containers": [container({GPU: "2"})], "initContainers": [container({GPU: "16"})]}, {GPU: 16}),
        ({"containers": [container({GPU: "2"})], "initContainers": [container({GPU: "1"})]}, {GPU: 2}),
        (
            {
                "containers": [container({"cpu": "1"})],
                "initContainers": [container({"cpu": "2"}, restartPolicy="Always"), container({"cpu": "3"})],
            },
            {"cpu": 5},
        ),
        ({"containers": [{"resources": {"limits": {GPU: "2"}}}]}, {GPU: 2}),
        ({"containers": [container({"cpu": "1"})], "overhead": {"cpu": "250m"}}, {"cpu": "1.25"}),
        ({"containers": [container({"cpu": "1"})], "resources": {"requests": {"cpu": "4"}}}, {"cpu": 4}),
    ],
)
def test_a_pod_asks_for_what_the_scheduler_counts(pod: Obj, asks: dict[str, Any]) -> None:
    assert requests(waiting("Pending", "", pod)) == {name: Decimal(value) for name, value in asks.items()}


@pytest.mark.parametrize("reason", ["Pending", "WaitingForQuota"])
def test_never_is_said_although_kueue_names_a_slot_that_is_used_first(reason: str) -> None:
    """Of each flavor Kueue names one resource: the GPUs that no cluster has are hidden behind the slot."""
    text = f"insufficient unused quota for {SLOT} in flavor cluster-1, 1 more needed"
    asked = {"containers": [container({SLOT: "1", GPU: "16"})]}
    for explanation in explained(waiting(reason, text, asked)):
        assert "can never be admitted: it asks for 16" in explanation.verdict, explanation.verdict


def test_what_kueue_has_counted_replaces_the_templates() -> None:
    """Excluded and transformed resources, and partial admission."""
    counted = {"resourceRequests": [{"name": "main", "resources": {GPU: "6"}}]}
    assert requests(waiting("Pending", "", **counted)) == {GPU: 6}
    admission = {"podSetAssignments": [{"name": "main", "count": 1, "resourceUsage": {GPU: "1"}}]}
    assert requests(waiting("Pending", "", admission=admission)) == {GPU: 1}


def test_partial_admission_needs_only_its_least_count() -> None:
    partial = waiting("Pending", "")
    partial["spec"]["podSets"][0] |= {"count": 6, "minCount": 3}
    assert requests(partial) == {GPU: 6}
    counted = {"name": "main", "resources": {GPU: "12", "cpu": "3"}}
    partial["status"]["resourceRequests"] = [counted]
    assert requests(partial) == {GPU: 6, "cpu": Decimal("1.5")}
    usage = {"name": "main", "count": 4, "resourceUsage": {GPU: "8"}}
    partial["status"]["admission"] = {"podSetAssignments": [usage]}
    assert requests(partial) == {GPU: 8}


def test_the_newest_slice_of_an_elastic_job_counts() -> None:
    older, newer = waiting("Pending", ""), waiting("Pending", "")
    newer["metadata"] |= {"name": "a", "creationTimestamp": "2026-01-02T00:00:00Z"}
    facts = WaitFacts(job("one", "Pending"), Children(workloads=[newer, older]))
    assert facts.workload is newer


def test_clusters_that_take_no_jobs_are_named_to_every_kind() -> None:
    taint = {"key": UNAVAILABLE_TAINT, "value": "draining", "effect": "NoSchedule"}
    closed = [
        {"metadata": {"name": name}, "spec": {"nodeTaints": [taint]}} for name in ("cluster-1", "cluster-2")
    ]
    of_job, of_other = explained(waiting("Pending", MORE), closed)
    assert of_job.verdict == of_other.verdict
    assert "it is being drained" in of_other.verdict
