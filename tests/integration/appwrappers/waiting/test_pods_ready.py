"""Kueue's waitForPodsReady: who is not ready in time loses the place, in the end for good."""

from __future__ import annotations

from fournos.engine.queueing.kinds import WORKLOAD
from tests.integration.appwrappers.stage import AppWrapperStage, pod


async def test_pods_that_do_not_get_ready(stage: AppWrapperStage) -> None:
    """Evicted after Kueue's timeout, queued again, deactivated the second time; made active it runs."""
    stage.kubelet.stuck.add("slow")
    await stage.submit("slow", pod("slow"))
    await stage.condition("slow", "Evicted", "True", "PodsReadyTimeout")
    await stage.phase("slow", "Suspended")
    await stage.condition("slow", "Admitted", "True")  # after Kueue's backoff
    await stage.phase("slow", "Running")
    await stage.condition("slow", "Evicted", "True", "DeactivatedDueToRequeuingLimitExceeded")
    await stage.phase("slow", "Suspended")
    workload = await stage.workload("slow")
    assert workload["spec"]["active"] is False
    assert workload["status"]["schedulingStats"]["evictions"]
    await stage.condition("slow", "Requeued", "False", "Deactivated")
    assert stage.kubelet.live() == []
    stage.kubelet.finish("slow")
    await stage.patch(WORKLOAD, workload["metadata"]["name"], {"spec": {"active": True}})
    await stage.phase("slow", "Succeeded")
