"""What keeps the pods of a job from starting, as Kubernetes and Tekton say it."""

from __future__ import annotations

from typing import Any

import pytest

from fournos.api.kinds import FOURNOS_JOB
from fournos.engine.kube.errors import ForbiddenError
from fournos.engine.kube.resource import EVENT, POD, Key, Obj
from fournos.insight.explanation import Explanation
from fournos.insight.facts import gather
from fournos.insight.reasons import explain
from fournos.insight.sheets import sheet
from tests.unit.cli.api import Api
from tests.unit.cli.objects import NOW, NS, ago, child, job, pod, run, task_run

RESOLVE = child("batch/v1", "Job", "one-resolve", "uid-one")
QUOTA = 'pods "x" is forbidden: exceeded quota: q, requested: requests.cpu=1, used: 0, limited: 100m'
ACCOUNT = (
    'Error creating: pods "one-resolve-" is forbidden: error looking up service account '
    'bench/fournos-resolver: serviceaccount "fournos-resolver" not found'
)
MOUNT = 'MountVolume.SetUp failed for volume "c" : configmap "not-there" not found'
UNBOUND = "0/1 nodes are available: pod has unbound immediate PersistentVolumeClaims."


def event(about: Obj, reason: str, note: str, **fields: Any) -> Obj:
    return {
        "metadata": {"name": f"{reason}-{len(note)}", "namespace": NS, "creationTimestamp": ago(minutes=1)},
        "regarding": {"uid": about["metadata"]["uid"]},
        "type": "Warning",
        "reason": reason,
        "note": note,
        **fields,
    }


def running(*objects: Obj) -> Api:
    times = {"running": ago(minutes=2)}
    return Api(job("one", "Running", status={"pipelineRun": "one", "phaseTimes": times}), run(), *objects)


def waiting_pod(state: dict[str, Any] | None = None, message: str = "") -> Obj:
    found = pod("prepare", "step-x", state=state or {"waiting": {"reason": "PodInitializing"}})
    found["status"]["phase"] = "Pending"
    if message:
        scheduled = {"type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": message}
        found["status"]["conditions"] = [scheduled]
    return found


async def explained(api: Api, *events: Obj) -> Explanation:
    for one in events:
        api.add(EVENT, one)
    return explain(await gather(api, await api.get(FOURNOS_JOB, Key(NS, "one"))), NOW)


@pytest.mark.parametrize(
    ("note", "text", "helps"),
    [
        (ACCOUNT, '"fournos-resolver" not found', "serviceaccounts.yaml"),
        (QUOTA, "exceeded quota: q", "resourcequota"),
    ],
)
async def test_a_resolve_job_whose_pod_is_refused(note: str, text: str, helps: str) -> None:
    found = await explained(Api(job("one", "Resolving"), RESOLVE), event(RESOLVE, "FailedCreate", note))
    assert found.verdict == "one: its resolver cannot start."
    assert any(text in line for line in found.because), found.because
    assert helps in found.advice[0] and not any("fournos logs" in line for line in found.advice)


@pytest.mark.parametrize(
    ("state", "scheduling", "note", "text", "helps"),
    [
        ({}, "", MOUNT, f"FailedMount: {MOUNT}", f"in namespace {NS}"),
        ({}, UNBOUND, "", UNBOUND, "kubectl describe pvc"),
        (
            {},
            "0/1 nodes: 1 Insufficient cpu.",
            "",
            "Insufficient cpu",
            "kubectl describe nodes",
        ),
        (
            {"waiting": {"reason": "ImagePullBackOff", "message": "no such host"}},
            "",
            "",
            "ImagePullBackOff: no such host",
            "correct the image",
        ),
        (
            {"waiting": {"reason": "CreateContainerConfigError", "message": 'secret "not-there" not found'}},
            "",
            "",
            'secret "not-there" not found',
            "create what is named",
        ),
    ],
)
async def test_a_pod_of_a_task(state: Any, scheduling: str, note: str, text: str, helps: str) -> None:
    api, stuck = running(task_run("prepare")), waiting_pod(state, scheduling)
    api.add(POD, stuck)
    found = await explained(api, *([event(stuck, "FailedMount", note)] if note else []))
    assert found.verdict == "one has been running for 2m, but a pod of it cannot start."
    assert any(text in line for line in found.because), found.because
    assert helps in found.advice[0], found.advice


async def test_a_task_whose_pod_tekton_may_not_make() -> None:
    verdict = {"type": "Succeeded", "status": "Unknown", "reason": "ExceededResourceQuota", "message": QUOTA}
    found = await explained(running(task_run("prepare", conditions=[verdict])))
    assert f"task prepare: ExceededResourceQuota: {QUOTA}" in found.because
    assert "resourcequota" in found.advice[0]


async def test_the_newest_warning_of_a_pod_counts_and_a_pod_that_started_has_none() -> None:
    api, stuck = running(task_run("prepare")), waiting_pod()
    api.add(POD, stuck)
    older = event(stuck, "FailedMount", "older", eventTime=ago(minutes=9))
    newer = event(stuck, "FailedMount", "the newest", series={"lastObservedTime": ago(seconds=5)})
    normal = event(stuck, "Pulling", "normal!", type="Normal", eventTime=ago(seconds=1))
    found = await explained(api, older, newer, normal)
    assert [line for line in found.because if "FailedMount" in line] == [
        "pod one-prepare-pod: FailedMount: the newest"
    ]
    started = pod("prepare", "step-x", state={"running": {"startedAt": ago(minutes=1)}})
    api.add(POD, started)
    assert (await explained(api)).verdict.startswith("one has been running for 2m")
    assert "cannot" not in (await explained(api)).verdict


async def test_without_the_right_to_read_events_the_state_of_a_pod_is_said() -> None:
    api, stuck = running(task_run("prepare")), waiting_pod(message=UNBOUND)
    api.add(POD, stuck)
    api.fails["list", EVENT] = ForbiddenError("no", status=403)
    assert any(UNBOUND in line for line in (await explained(api)).because)


async def test_a_minicluster_and_an_appwrapper_whose_job_gets_no_pods() -> None:
    meta = {"name": "flux", "namespace": NS, "uid": "uid-flux"}
    flux = {"kind": "MiniCluster", "metadata": meta, "spec": {"size": 2}, "status": {"phase": "Running"}}
    made = {"kind": "Job", "metadata": {**meta, "uid": "uid-job"}}
    api = Api(flux, made)
    api.add(EVENT, event(made, "FailedCreate", QUOTA))
    found = (await sheet(api, "MiniCluster", Key(NS, "flux"), NOW)).explanation
    assert found.because == (f"Job flux: FailedCreate: {QUOTA}",)
    assert "resourcequota" in found.advice[0]
    template = {"apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": "two"}}
    owner = {"kind": "AppWrapper", "name": "aw", "uid": "uid-aw", "controller": True}
    live = {
        "kind": "Job",
        "metadata": {"name": "two", "namespace": NS, "uid": "j", "ownerReferences": [owner]},
    }
    status = {"phase": "Running", "componentStatus": [{"name": "two", "podSets": []}]}
    wrapper = {
        "kind": "AppWrapper",
        "metadata": {"name": "aw", "namespace": NS, "uid": "uid-aw"},
        "spec": {"components": [{"template": template}]},
        "status": status,
    }
    api = Api(wrapper, live)
    api.add(EVENT, event(live, "FailedCreate", QUOTA))
    found = (await sheet(api, "AppWrapper", Key(NS, "aw"), NOW)).explanation
    assert f"Job two: FailedCreate: {QUOTA}" in found.because and "resourcequota" in found.advice[0]
