"""Our Workloads before the real Kueue: admission, stops, eviction, deactivation, the end."""

from __future__ import annotations

import pytest

from fournos.api.kinds import APPWRAPPER
from fournos.api.slots import CLUSTER_NODE_LABEL
from fournos.engine.kube.resource import JOB, POD, Key, uid_of
from fournos.engine.queueing.kinds import WORKLOAD
from fournos.engine.queueing.workload import IN_USE, generic_name
from tests.integration.appwrappers.stage import FLAVOR, AppWrapperStage, job, pod


async def test_from_the_queue_to_the_end(stage: AppWrapperStage) -> None:
    """Placed as it was admitted; its Workload stays, finished, until the AppWrapper goes."""
    name = await stage.submit("whole", pod("whole-pod"), job("whole-job", parallelism=2, completions=2))
    wrapper = await stage.phase(name, "Succeeded")
    workload = await stage.workload(name)
    assert workload["metadata"]["name"] == generic_name(
        kind="AppWrapper", group=APPWRAPPER.group, name=name, uid=uid_of(wrapper)
    )
    counts = [(one["name"], one["count"]) for one in workload["spec"]["podSets"]]
    assert counts == [("whole-0", 1), ("whole-1", 2)]
    made = await stage.get(JOB, "whole-job")
    template = made["spec"]["template"]
    assert template["spec"]["nodeSelector"] == {CLUSTER_NODE_LABEL: FLAVOR}
    assert template["metadata"]["labels"]["kueue.x-k8s.io/podset"] == "whole-1"
    finished = await stage.condition(name, "Finished", "True", "Succeeded")
    assert finished["message"] == "AppWrapper finished successfully"
    await stage.until(lambda: _let_go(stage, name), "the finalizer stays")
    await stage.until(stage.nothing_reserved, "quota stays taken")
    await stage.client.delete(APPWRAPPER, Key(stage.namespace, name))
    await stage.gone(APPWRAPPER, name)
    await stage.gone(POD, "whole-pod")
    # The garbage collector learns of a new CRD within half a minute.
    await stage.gone(WORKLOAD, workload["metadata"]["name"])


async def _let_go(stage: AppWrapperStage, name: str) -> bool:
    return IN_USE not in ((await stage.workload(name))["metadata"].get("finalizers") or ())


async def test_hold_and_drain_takes_everything_down_and_it_comes_back(stage: AppWrapperStage) -> None:
    stage.kubelet.endless.add("drained")
    await stage.submit("drained", pod("drained", cpu="3"))
    await stage.condition("drained", "PodsReady", "True")
    await stage.stop_policy("HoldAndDrain")
    wrapper = await stage.phase("drained", "Suspended")
    assert stage.kubelet.live() == []
    assert "podSetInfos" not in wrapper["spec"]["components"][0]
    requeued = await stage.condition("drained", "Requeued", "False", "ClusterQueueStopped")
    assert requeued["message"]
    await stage.until(stage.nothing_reserved, "quota stays taken")
    stage.kubelet.finish("drained")
    await stage.stop_policy("None")
    await stage.phase("drained", "Succeeded")


@pytest.mark.parametrize("deleted", ["workload", "appwrapper"])
async def test_deleted_while_it_runs(stage: AppWrapperStage, deleted: str) -> None:
    """Quota stays taken until the last pod is gone; a Workload is made anew, an AppWrapper is not."""
    stage.kubelet.endless.add("cut")
    await stage.submit("cut", pod("cut"))
    await stage.condition("cut", "PodsReady", "True")
    workload = await stage.workload("cut")
    name = workload["metadata"]["name"]
    if deleted == "appwrapper":
        await stage.client.delete(APPWRAPPER, Key(stage.namespace, "cut"))
        await stage.gone(APPWRAPPER, "cut")
        await stage.gone(WORKLOAD, name)
        await stage.gone(POD, "cut")
        return
    await stage.client.delete(WORKLOAD, Key(stage.namespace, name))

    async def anew() -> bool:
        found = await stage.workloads("cut")
        return len(found) == 1 and uid_of(found[0]) != uid_of(workload)

    await stage.until(anew, "no new Workload")
    stage.kubelet.finish("cut")
    await stage.phase("cut", "Succeeded")
