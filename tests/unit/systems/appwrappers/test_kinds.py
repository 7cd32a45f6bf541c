"""Inference of pod sets, and how components are judged."""

from __future__ import annotations

from typing import Any

import pytest

from fournos.engine.kube.resource import Obj
from fournos.systems.appwrappers import health
from fournos.systems.appwrappers.build import PathError, pod_template, replaced
from fournos.systems.appwrappers.health import ComponentState
from fournos.systems.appwrappers.kinds import WRAPPED, InferenceError, infer, resource_of, wrapped_kind

POD_SPEC = {"spec": {"containers": []}}
JOB = {"parallelism": 3, "completions": 2, "template": POD_SPEC}


def of(api_version: str, kind: str, spec: Any = None, **more: Any) -> Obj:
    return {"apiVersion": api_version, "kind": kind, "spec": spec, **more}


RAY = {"headGroupSpec": {"template": POD_SPEC}, "workerGroupSpecs": [{"replicas": 3, "template": POD_SPEC}]}
ROLE = {"template": POD_SPEC}
WORKERS = {"replicas": 2, **ROLE}
JOB_SET = {"replicatedJobs": [{"replicas": 2, "template": {"spec": JOB}}]}
LWS = {"replicas": 2, "leaderWorkerTemplate": {"size": 4, "workerTemplate": POD_SPEC}}
LEADER = {"replicas": 2, "leaderWorkerTemplate": {**LWS["leaderWorkerTemplate"], "leaderTemplate": POD_SPEC}}  # type: ignore[dict-item]


@pytest.mark.parametrize(
    ("template", "expected"),
    [
        (of("v1", "Pod", POD_SPEC["spec"]), {"template": 1}),
        (of("apps/v1", "Deployment", {"template": POD_SPEC}), {"template.spec.template": 1}),
        (of("apps/v1", "StatefulSet", {"replicas": 4, "template": POD_SPEC}), {"template.spec.template": 4}),
        (of("batch/v1", "Job", JOB), {"template.spec.template": 2}),
        (
            of("jobset.x-k8s.io/v1alpha2", "JobSet", JOB_SET),
            {"template.spec.replicatedJobs[0].template.spec.template": 4},
        ),
        (
            of("kubeflow.org/v1", "PyTorchJob", {"pytorchReplicaSpecs": {"Worker": WORKERS, "Master": ROLE}}),
            {
                "template.spec.pytorchReplicaSpecs.Master.template": 1,
                "template.spec.pytorchReplicaSpecs.Worker.template": 2,
            },
        ),
        (
            of("kubeflow.org/v2beta1", "MPIJob", {"mpiReplicaSpecs": {"Launcher": ROLE, "Worker": WORKERS}}),
            {
                "template.spec.mpiReplicaSpecs.Launcher.template": 1,
                "template.spec.mpiReplicaSpecs.Worker.template": 2,
            },
        ),
        (
            of("ray.io/v1", "RayCluster", RAY),
            {"template.spec.headGroupSpec.template": 1, "template.spec.workerGroupSpecs[0].template": 3},
        ),
        (
            of("ray.io/v1", "RayJob", {"rayClusterSpec": RAY}),
            {
                "template.spec.rayClusterSpec.headGroupSpec.template": 1,
                "template.spec.rayClusterSpec.workerGroupSpecs[0].template": 3,
            },
        ),
        (
            of("leaderworkerset.x-k8s.io/v1", "LeaderWorkerSet", LWS),
            {"template.spec.leaderWorkerTemplate.workerTemplate": 8},
        ),
        (
            of("leaderworkerset.x-k8s.io/v1", "LeaderWorkerSet", LEADER),
            {
                "template.spec.leaderWorkerTemplate.leaderTemplate": 2,
                "template.spec.leaderWorkerTemplate.workerTemplate": 6,
            },
        ),
        (of("v1", "Service", {}), {}),
    ],
    ids=lambda value: value.get("kind", "") if isinstance(value, dict) else "",
)
def test_inference(template: Obj, expected: dict[str, int]) -> None:
    found = infer(template)
    assert {one.path: one.replicas for one in found} == expected
    assert list(expected) == [one.path for one in found]  # the order numbers the pod sets
    for one in found:
        pod_template(template, one.path)


def test_every_kind_is_known_by_its_own_type() -> None:
    for kind in WRAPPED:
        assert wrapped_kind(of(kind.resource.api_version, kind.resource.kind)) is kind
    assert wrapped_kind(of("ray.io/v1alpha1", "RayJob")) is None
    assert resource_of(of("networking.k8s.io/v1", "NetworkPolicy")).plural == "networkpolicies"
    assert resource_of(of("networking.k8s.io/v1", "Ingress")).plural == "ingresses"


@pytest.mark.parametrize("count", ["2", -1, True])
def test_a_count_that_is_none(count: Any) -> None:
    with pytest.raises(InferenceError):
        infer(of("apps/v1", "Deployment", {"replicas": count}))


@pytest.mark.parametrize(
    "path",
    [
        "spec",
        "template.",
        "template.spec[x]",
        "template.spec.list[9]",
        "template.spec.nothing",
        "template.spec",
    ],
)
def test_paths_that_lead_nowhere(path: str) -> None:
    with pytest.raises(PathError):
        pod_template({"spec": {"list": [POD_SPEC]}}, path)


def test_a_replacement_changes_a_copy() -> None:
    before = {"spec": {"list": [POD_SPEC, {"a": 1}]}}
    after = replaced(before, "template.spec.list[1]", lambda found: {**found, "b": 2})
    assert after == {"spec": {"list": [POD_SPEC, {"a": 1, "b": 2}]}}
    assert before["spec"]["list"][1] == {"a": 1}


def true(type_: str, reason: str = "") -> dict[str, Any]:
    return {"conditions": [{"type": type_, "status": "True", "reason": reason}]}


def obj(status: Any = None, **spec: Any) -> Obj:
    return {"metadata": {"generation": 2}, "spec": spec, "status": status or {}}


@pytest.mark.parametrize(
    ("health", "expected"),
    [
        (
            health.job(obj({"succeeded": 2}, parallelism=2, completions=10)),
            ComponentState.READY,
        ),  # not done
        (health.job(obj({"ready": 1}, parallelism=2)), ComponentState.PENDING),
        (
            health.job(obj({**true("Complete"), "failed": 1})),
            ComponentState.SUCCEEDED,
        ),  # recovered by itself
        (health.job(obj(true("Failed", "BackoffLimitExceeded"))), ComponentState.FAILED),
        (
            health.deployment(obj({"availableReplicas": 2, "observedGeneration": 2}, replicas=2)),
            ComponentState.READY,
        ),
        (
            health.deployment(obj({"availableReplicas": 2, "observedGeneration": 1}, replicas=2)),
            ComponentState.PENDING,
        ),
        (
            health.stateful_set(obj({"readyReplicas": 1, "observedGeneration": 2}, replicas=2)),
            ComponentState.PENDING,
        ),
        (health.job_set(obj(true("Completed"))), ComponentState.SUCCEEDED),
        (health.job_set(obj(true("Failed"))), ComponentState.FAILED),
        (
            health.job_set(
                obj({"replicatedJobsStatus": [{"name": "a", "ready": 1}]}, replicatedJobs=[{"name": "a"}])
            ),
            ComponentState.READY,
        ),
        (health.kubeflow(obj(true("Running"))), ComponentState.READY),
        (health.kubeflow(obj(true("Succeeded"))), ComponentState.SUCCEEDED),
        (health.kubeflow(obj(true("Failed"))), ComponentState.FAILED),
        (health.ray_cluster(obj({"state": "ready"})), ComponentState.READY),
        (health.ray_cluster(obj({"state": "failed"})), ComponentState.FAILING),
        (
            health.ray_job(obj({"jobStatus": "SUCCEEDED", "jobDeploymentStatus": "Complete"})),
            ComponentState.SUCCEEDED,
        ),
        (
            health.ray_job(obj({"jobStatus": "FAILED", "jobDeploymentStatus": "Failed"})),
            ComponentState.FAILING,
        ),
        (
            health.ray_job(obj({"jobStatus": "RUNNING", "jobDeploymentStatus": "Running"})),
            ComponentState.READY,
        ),
        (health.leader_worker_set(obj(true("Available"))), ComponentState.READY),
        (health.leader_worker_set(obj()), ComponentState.PENDING),
    ],
)
def test_health(health: health.ComponentHealth, expected: ComponentState) -> None:
    assert health.state is expected
