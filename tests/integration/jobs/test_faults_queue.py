"""Kueue goes away or takes its quota back; others stand where our objects should."""

from __future__ import annotations

import asyncio
import os
import signal
from functools import partial
from typing import Any

from devcluster import Cluster
from fournos.api.kinds import FOURNOS_JOB, PIPELINE_RUN
from fournos.app.parts import kinds
from fournos.engine.api.conditions import is_true
from fournos.engine.api.crd import crd
from fournos.engine.kube.errors import KubeError
from fournos.engine.kube.resource import JOB, SECRET, Key, Obj, Resource
from fournos.engine.queueing.kinds import WORKLOAD
from fournos.systems.jobs import names
from tests.integration.conftest import Server, install
from tests.integration.jobs.stage import JobStage

AWAY = 20.0


async def test_kueue_is_away_for_20_s(stage: JobStage, cluster: Cluster) -> None:
    stage.executors.held.add("before")
    await stage.leading()
    await stage.submit("before")
    await stage.phase("before", "Running")
    kueue = cluster.pid("kueue")
    os.kill(kueue, signal.SIGSTOP)
    try:
        stage.executors.finish("before")
        await stage.submit("during")
        await asyncio.sleep(AWAY)
        assert (await stage.status("during"))["phase"] in ("Resolving", "Pending")
    finally:
        os.kill(kueue, signal.SIGCONT)
    jobs = ["before", "during"]
    await stage.good_end(dict.fromkeys(jobs, "Succeeded"), runs=jobs)


async def test_kueue_deactivates_a_running_job(stage: JobStage) -> None:
    """Kueue frees a deactivated Workload's quota at once; only the operator activates it again."""
    stage.executors.deaf.add("job")
    await stage.leading()
    name = await stage.submit()
    await stage.phase(name, "Running")
    await stage.patch(WORKLOAD, name, {"spec": {"active": False}})
    await stage.until(lambda: _is_stop_requested(stage, name), "the run is not told to stop")
    await stage.submit("other")  # to its end the operator and Kueue act on it
    await stage.phase("other", "Succeeded")
    assert is_true(await stage.get(WORKLOAD, name), "QuotaReserved"), "released before the run has ended"
    stage.executors.finish(name)
    status = await stage.phase(name, "Pending")
    assert "Deactivated" in status["message"]
    assert not is_true(await stage.get(WORKLOAD, name), "QuotaReserved")
    await stage.patch(WORKLOAD, name, {"spec": {"active": True}})
    await stage.good_end(dict.fromkeys((name, "other"), "Succeeded"), runs=[name, f"{name}-r2", "other"])
    attempts = (await stage.status(name))["attempts"]
    assert [a["outcome"] for a in attempts] == ["Evicted", "Succeeded"]


async def test_kueue_preempts_a_running_job(stage: JobStage) -> None:
    stage.executors.deaf.add("low")
    stage.executors.held.add("high")
    await stage.leading()
    alone: dict[str, Any] = {"exclusive": True, "cluster": "faults-1", "hardware": None}
    await stage.submit("low", **alone)
    await stage.phase("low", "Running")
    await stage.submit("high", **alone, priority="faults-high")
    await stage.until(lambda: _is_stop_requested(stage, "low"), "the run is not told to stop")
    # The operator acts on the next job; Kueue takes it after the one that waits for the preemption.
    await stage.submit("other", cluster="faults-2")
    await stage.phase("other", "Pending", "Admitted", "Running", "Succeeded")
    assert is_true(await stage.get(WORKLOAD, "low"), "QuotaReserved")
    await stage.until(partial(_all_taken, stage), "the slots are not counted")
    assert (await stage.status("high"))["phase"] == "Pending", "runs beside one that has not stopped"
    stage.executors.finish("low")
    await stage.phase("high", "Running")
    assert (await stage.phase("low", "Pending"))["attempts"][0]["outcome"] == "Evicted"
    stage.executors.finish("high")
    await stage.good_end(
        dict.fromkeys(("low", "high", "other"), "Succeeded"), runs=["high", "low", "low-r2", "other"]
    )


async def _all_taken(stage: JobStage) -> bool:
    return await stage.used() >= names.SLOTS_PER_CLUSTER


async def _is_stop_requested(stage: JobStage, run: str) -> bool:
    return bool((await stage.get(PIPELINE_RUN, run))["spec"].get("status") == "CancelledRunFinally")


async def test_secrets_are_rotated_between_attempts(stage: JobStage) -> None:
    source = Key(f"{stage.namespace}-secrets", "vault-creds")
    await stage.client.create(
        SECRET,
        {
            "apiVersion": "v1",
            "kind": "Secret",
            "metadata": {
                "namespace": source.namespace,
                "name": source.name,
                "labels": {"fournos.dev/vault-entry": "true"},
            },
            "data": {"old": "b2xk"},
        },
    )
    stage.executors.failing.add("job")
    stage.executors.held.update(("job", "job-r2"))
    await stage.leading()
    name = await stage.submit(secretRefs=["creds"], retry={"limit": 1}, cluster="faults-1")
    await stage.phase(name, "Running")
    assert await stage.secret("job-vault-creds") == {"old": "b2xk"}
    await stage.client.patch(SECRET, source, {"data": {"old": None, "new": "bmV3"}})
    target = Key(source.namespace, "kubeconfig-faults-1")
    await stage.client.patch(SECRET, target, {"data": {"kubeconfig": "bmV3"}})
    stage.executors.finish("job")
    await stage.until(lambda: stage.executors.find(PIPELINE_RUN, "job-r2"), "no second attempt")
    assert await stage.secret("job-vault-creds") == {"new": "bmV3"}
    assert await stage.secret("job-kubeconfig") == {"kubeconfig": "bmV3"}
    spec = (await stage.get(PIPELINE_RUN, "job-r2"))["spec"]
    (volume,) = spec["taskRunTemplate"]["podTemplate"]["volumes"]
    (projected,) = volume["projected"]["sources"]
    assert [item["key"] for item in projected["secret"]["items"]] == ["new"]
    stage.executors.finish("job-r2")
    await stage.good_end({name: "Succeeded"}, runs=["job", "job-r2"])


async def test_foreign_objects_of_the_same_names_stay_untouched(stage: JobStage) -> None:
    owner = {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "name": "somebody",
        "uid": (await stage.client.create(*_config_map(stage)))["metadata"]["uid"],
        "controller": True,
    }
    container = {"name": "c", "image": "busybox"}
    template = {"spec": {"containers": [container], "restartPolicy": "Never"}}
    podsets = [{"name": "main", "count": 1, "template": template}]
    taken: dict[str, tuple[Resource, str, dict[str, Any]]] = {
        "resolve": (JOB, "resolve-resolve", {"spec": {"template": template, "suspend": True}}),
        "workload": (WORKLOAD, "workload", {"spec": {"podSets": podsets, "queueName": "none"}}),
        "run": (PIPELINE_RUN, "run", {"spec": {"pipelineRef": {"name": "none"}}}),
        "secret": (SECRET, "secret-kubeconfig", {"data": {"kubeconfig": "dGhlaXJz"}}),
    }
    before = {}
    for name, (resource, called, parts) in taken.items():
        body = stage.body(resource, called, metadata={"ownerReferences": [owner]}, **parts)
        before[name] = _essence(await stage.client.create(resource, body))
    await stage.leading()
    for name in taken:
        await stage.submit(name)
    for name, (resource, called, _) in taken.items():
        status = await stage.phase(name, "Failed")
        assert called in status["message"], status["message"]
        assert _essence(await stage.get(resource, called)) == before[name]
    await stage.client.delete(WORKLOAD, Key(stage.namespace, "workload"))
    await stage.good_end(dict.fromkeys(taken, "Failed"), runs=["run"])


def _config_map(stage: JobStage) -> tuple[Resource, dict[str, Any]]:
    resource = Resource("", "v1", "ConfigMap", "configmaps")
    return resource, stage.body(resource, "somebody")


def _essence(obj: Obj) -> Any:
    """Returns the fields that only its owner may change; Kueue writes the other fields."""
    meta = {k: obj["metadata"].get(k) for k in ("uid", "labels", "ownerReferences", "deletionTimestamp")}
    return meta, obj.get("spec"), obj.get("data")


async def test_an_object_that_defeats_the_parser_is_isolated(stage: JobStage, server: Server) -> None:
    definition, rules = next(found for found in kinds() if found[0].resource.kind == FOURNOS_JOB.kind)
    lax: Any = crd(definition, rules=rules)
    anything = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
    lax["spec"]["versions"][0]["schema"]["openAPIV3Schema"] = anything
    operator = await stage.leading()
    poison = {
        "odd-values": {"exclusive": {"yes": 1}, "priority": ["high"], "secretRefs": "all"},
        "no-object": "text",
        "nothing": None,
    }
    await install(server, lax)
    try:
        for name, spec in poison.items():
            body = stage.body(FOURNOS_JOB, name, spec=spec)
            await stage.until(partial(_accepted, stage, body), "is not accepted")
    finally:
        await install(server, crd(definition, rules=rules))
    await stage.submit("good")
    await stage.phase("good", "Succeeded")
    await stage.kill(operator)  # at a start it reads them all
    operator = await stage.leading()
    await stage.submit("as-good")
    await stage.phase("as-good", "Succeeded")
    for name in poison:
        await stage.client.delete(FOURNOS_JOB, Key(stage.namespace, name))
    jobs = ["as-good", "good"]
    await stage.good_end(dict.fromkeys(jobs, "Succeeded"), runs=jobs)
    assert operator.running


async def _accepted(stage: JobStage, body: Obj) -> bool:
    """The API server takes a moment to use a new schema."""
    try:
        await stage.client.create(FOURNOS_JOB, body)
    except KubeError:
        return False
    return True


async def test_a_lock_without_a_priority_is_pushed_out_by_nobody(stage: JobStage) -> None:
    """In the queue it comes after those that have one, and pushes nobody out; held, it holds."""
    stage.executors.held.update(("before", "after"))
    await stage.leading()
    alone: dict[str, Any] = {"exclusive": True, "cluster": "faults-1", "hardware": None}
    await stage.submit("before", **alone)
    await stage.phase("before", "Running")
    await stage.submit("lock", **alone, lockOnly=True, executionEngine=None)
    await stage.phase("lock", "Pending")
    stage.executors.finish("before")
    await stage.phase("lock", "Admitted")
    await stage.until(partial(_has_priority, stage, names.LOCK_PRIORITY), "the lock has no priority")
    await stage.submit("after", **alone, priority="faults-high")
    await stage.until(partial(_waits_for_the_lock, stage), "the job does not wait for the lock")
    assert is_true(await stage.get(WORKLOAD, "lock"), "Admitted")
    await stage.patch(FOURNOS_JOB, "lock", {"spec": {"shutdown": "Stop"}})
    await stage.phase("after", "Running")
    stage.executors.finish("after")
    ends = {"before": "Succeeded", "after": "Succeeded", "lock": "Stopped"}
    await stage.good_end(ends, runs=["before", "after"])


async def _has_priority(stage: JobStage, priority: int) -> bool:
    return bool((await stage.get(WORKLOAD, "lock"))["spec"].get("priority") == priority)


async def _waits_for_the_lock(stage: JobStage) -> bool:
    return (await stage.status("after")).get("waiting", {}).get("holder") == "lock"
