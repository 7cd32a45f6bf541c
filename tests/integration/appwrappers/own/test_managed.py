"""spec.managedBy: the manager's half of MultiKueue, and the worker's."""

from __future__ import annotations

from fournos.api.kinds import APPWRAPPER
from fournos.engine.kube.resource import Key, controller_of, uid_of
from fournos.engine.queueing.kinds import WORKLOAD
from tests.integration.appwrappers.stage import QUEUE, AppWrapperStage, pod
from tests.queues import whole


async def test_on_the_manager_only_its_workload_is_made(stage: AppWrapperStage) -> None:
    """Admitted and drained it stays as it is; the status that MultiKueue mirrors ends its Workload."""
    await stage.submit("far", pod("far"), managedBy="kueue.x-k8s.io/multikueue")
    await stage.condition("far", "Admitted", "True")
    await stage.submit("near", pod("near"))
    await stage.phase("near", "Succeeded")  # by then the other one would have started, too
    wrapper = await stage.get(APPWRAPPER, "far")
    assert wrapper["spec"]["suspend"] is True
    assert "status" not in wrapper
    assert not wrapper["metadata"].get("finalizers")
    assert [one["metadata"]["name"] for one in stage.kubelet.seen.values()] == ["near"]
    await stage.stop_policy("HoldAndDrain")
    await stage.condition("far", "QuotaReserved", "False")
    await stage.stop_policy("None")
    await stage.condition("far", "Admitted", "True")
    mirrored = {"status": {"phase": "Succeeded", "componentStatus": []}}
    await stage.patch(APPWRAPPER, "far", mirrored, subresource="status")
    await stage.condition("far", "Finished", "True", "Succeeded")
    name = (await stage.workload("far"))["metadata"]["name"]
    await stage.client.delete(APPWRAPPER, Key(stage.namespace, "far"))
    await stage.gone(WORKLOAD, name)


async def test_on_the_worker_the_workload_that_came_first_is_taken_over(stage: AppWrapperStage) -> None:
    """MultiKueue makes the Workload, waits for its admission, and only then the AppWrapper."""
    origin = "sent"
    spec = pod("sent")["spec"]
    body = whole(
        WORKLOAD,
        origin,
        namespace=stage.namespace,
        spec={
            "queueName": QUEUE,
            "podSets": [{"name": "sent-0", "count": 1, "template": {"spec": spec}}],
        },
    )
    body["metadata"]["labels"] = {"kueue.x-k8s.io/multikueue-origin": "multikueue"}
    await stage.client.create(WORKLOAD, body)
    labels = {"kueue.x-k8s.io/prebuilt-workload-name": origin}
    await stage.submit("sent", pod("sent"), labels=labels)
    wrapper = await stage.phase("sent", "Succeeded")
    workload = await stage.get(WORKLOAD, origin)
    assert (controller_of(workload) or {})["uid"] == uid_of(wrapper)
    assert len((await stage.client.list(WORKLOAD, namespace=stage.namespace)).items) == 1
