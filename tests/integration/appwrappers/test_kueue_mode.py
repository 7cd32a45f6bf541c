"""With Kueue's own AppWrapper integration, the default: it suspends and admits, ours does the rest."""

from __future__ import annotations

from typing import Any

from fournos.api.kinds import APPWRAPPER
from fournos.engine.kube.resource import POD, Key
from fournos.engine.queueing.kinds import WORKLOAD
from tests.integration.appwrappers.stage import AppWrapperStage, job, pod


async def test_kueue_suspends_and_admits(stage: AppWrapperStage) -> None:
    stage.kubelet.endless.add("here")
    await stage.submit("here", pod("here"), job("here-job"), suspend=False)
    await stage.condition("here", "Admitted", "True", limit=150)  # its integration has to find the CRD
    wrapper = await stage.phase("here", "Running")
    await stage.until(lambda: len(stage.kubelet.seen) == 2, "no pods")
    assert wrapper["spec"]["components"][0]["podSetInfos"][0]["labels"]
    workload = await stage.workload("here")
    assert [one["name"] for one in workload["spec"]["podSets"]] == ["here-0", "here-1"]
    await stage.stop_policy("HoldAndDrain")
    await stage.phase("here", "Suspended")
    assert stage.kubelet.live() == []
    stage.kubelet.finish("here")
    await stage.stop_policy("None")
    await stage.phase("here", "Succeeded")
    await stage.condition("here", "Finished", "True", "Succeeded")
    await stage.client.delete(APPWRAPPER, Key(stage.namespace, "here"))
    await stage.gone(POD, "here")
    await stage.gone(WORKLOAD, workload["metadata"]["name"])


def groups() -> dict[str, Any]:
    """The published sample: it declares one worker less than the template makes."""
    template = {"spec": pod("x")["spec"]}
    spec = {"leaderTemplate": template, "size": 3, "workerTemplate": template}
    path = "template.spec.leaderWorkerTemplate"
    body = {
        "apiVersion": "leaderworkerset.x-k8s.io/v1",
        "kind": "LeaderWorkerSet",
        "metadata": {"name": "groups"},
        "spec": {"replicas": 2, "leaderWorkerTemplate": spec},
    }
    declared = [
        {"path": f"{path}.leaderTemplate", "replicas": 2},
        {"path": f"{path}.workerTemplate", "replicas": 3},
    ]
    return {"template": body, "podSets": declared}


async def test_quota_is_asked_for_what_a_template_makes(stage: AppWrapperStage) -> None:
    """Kueue counts by the status, which states what is made, whatever the spec declares."""
    await stage.stop_policy("Hold")
    await stage.submit("groups", components=[groups()])

    async def counted() -> bool:
        found = await stage.workloads("groups")
        return [[one["count"] for one in made["spec"]["podSets"]] for made in found] == [[2, 4]]

    await stage.until(counted, "Kueue does not count what the status states", limit=150)
    status = (await stage.get(APPWRAPPER, "groups"))["status"]["componentStatus"][0]
    assert [one["replicas"] for one in status["podSets"]] == [2, 4]
