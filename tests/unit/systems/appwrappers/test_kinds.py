"""Inference of pod sets, and how components are judged."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

import pytest

from fournos.api.kinds import APPWRAPPER, PIPELINE_RUN
from fournos.engine.api.conditions import Condition, upsert
from fournos.engine.kube.resource import Key, Obj
from fournos.engine.queueing.kinds import WORKLOAD
from fournos.engine.queueing.podsets import PodSetInfo, PodSetInfoError
from fournos.engine.runtime.decision import Delete, Facts, Present
from fournos.systems.appwrappers import health, kinds
from fournos.systems.appwrappers.admission import problems
from fournos.systems.appwrappers.build import (
    PathError,
    component,
    pod_sets_of,
    pod_template,
    replaced,
    template_of,
)
from fournos.systems.appwrappers.finish import Removal, remove
from fournos.systems.appwrappers.health import ComponentState
from fournos.systems.appwrappers.kinds import WRAPPED, InferenceError, infer, resource_of, wrapped_kind
from fournos.systems.appwrappers.status import Context, Observed
from tests.unit.systems.appwrappers.actors import NS, OWN, edit, job_template, phase, submit, wrapper
from tests.unit.systems.appwrappers.actors import pod_template as pod_of
from tests.unit.systems.appwrappers.test_lifecycle import scenario
from tests.world.harness import DISTURBED, Scenario, in_order, run
from tests.world.server import Server
from tests.world.status import set_conditions

POD_SPEC = {"spec": {"containers": []}}
JOB = {"parallelism": 3, "completions": 2, "template": POD_SPEC}


def of(api_version: str, kind: str, spec: Any = None, **more: Any) -> Obj:
    return {"apiVersion": api_version, "kind": kind, "spec": spec, **more}


RAY = {"headGroupSpec": {"template": POD_SPEC}, "workerGroupSpecs": [{"replicas": 3, "template": POD_SPEC}]}
HOSTS = {**RAY, "workerGroupSpecs": [{"replicas": 2, "numOfHosts": 4, "template": POD_SPEC}]}
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
            of("ray.io/v1", "RayCluster", HOSTS),
            {"template.spec.headGroupSpec.template": 1, "template.spec.workerGroupSpecs[0].template": 8},
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


@pytest.mark.parametrize("from_manager", [True, False])
def test_a_component_on_a_worker_does_not_delete_itself(from_manager: bool) -> None:
    """Gone before the operator has seen its end it would be missing, and the AppWrapper failed."""
    ttl = {"ttlSecondsAfterFinished": 60}
    policy = {"runPolicy": {**ttl, "cleanPodPolicy": "None"}, "pytorchReplicaSpecs": {"Master": ROLE}}
    torch = of("kubeflow.org/v1", "PyTorchJob", policy, metadata={"name": "t"})
    made = wrapper(job_template("j", **ttl), torch)
    made["metadata"]["uid"] = "u"
    if from_manager:
        made["metadata"]["labels"]["kueue.x-k8s.io/multikueue-origin"] = "manager"
    specs = [
        component(made, index, pod_sets_of(made["spec"]["components"][index]))["spec"] for index in range(2)
    ]
    kept = {} if from_manager else ttl
    assert {name: value for name, value in specs[0].items() if name != "template"} == kept
    assert specs[1]["runPolicy"] == {"cleanPodPolicy": "None", **kept}


def true(type_: str, reason: str = "") -> dict[str, Any]:
    return {"conditions": [{"type": type_, "status": "True", "reason": reason}]}


def obj(status: Any = None, **spec: Any) -> Obj:
    return {"metadata": {"generation": 2}, "spec": spec, "status": status or {}}


@pytest.mark.parametrize(
    ("judged", "component", "expected"),
    [
        (health.job, obj({"succeeded": 2}, parallelism=2, completions=10), "ready"),  # not done
        (health.job, obj({"ready": 1}, parallelism=2), "pending"),
        (health.job, obj({**true("Complete"), "failed": 1}), "succeeded"),  # recovered by itself
        (health.job, obj(true("Failed", "BackoffLimitExceeded")), "failed"),
        (health.deployment, obj({"availableReplicas": 2, "observedGeneration": 2}, replicas=2), "ready"),
        (health.deployment, obj({"availableReplicas": 2, "observedGeneration": 1}, replicas=2), "pending"),
        (health.stateful_set, obj({"readyReplicas": 1, "observedGeneration": 2}, replicas=2), "pending"),
        (health.job_set, obj(true("Completed")), "succeeded"),
        (health.job_set, obj(true("Failed")), "failed"),
        (
            health.job_set,
            obj({"replicatedJobsStatus": [{"name": "a", "ready": 1}]}, replicatedJobs=[{"name": "a"}]),
            "ready",
        ),
        (health.kubeflow, obj(true("Running")), "ready"),
        (health.kubeflow, obj(true("Succeeded")), "succeeded"),
        (health.kubeflow, obj(true("Failed")), "failed"),
        (health.ray_cluster, obj({"state": "ready"}), "ready"),
        (health.ray_cluster, obj({"state": "failed"}), "failing"),
        (health.ray_job, obj({"jobStatus": "SUCCEEDED", "jobDeploymentStatus": "Complete"}), "succeeded"),
        (health.ray_job, obj({"jobStatus": "FAILED", "jobDeploymentStatus": "Failed"}), "failing"),
        (health.ray_job, obj({"jobStatus": "RUNNING", "jobDeploymentStatus": "Running"}), "ready"),
        (health.leader_worker_set, obj(true("Available")), "ready"),
        (health.leader_worker_set, obj(), "pending"),
    ],
)
def test_health(judged: Callable[[Obj], health.ComponentHealth], component: Obj, expected: str) -> None:
    assert judged(component).state == ComponentState(expected)


# --- templateless kinds --------------------------------------------------------------------------------
# Kinds without a pod template: their requests, the changes by an admission, and their ends.

INFO = PodSetInfo(
    "p",
    1,
    labels={"kueue.x-k8s.io/podset": "p"},
    node_selector={"pool": "a"},
    tolerations=({"key": "t", "operator": "Exists"},),
)


def run_of(**annotations: str) -> dict[str, Any]:
    marks = {f"fournos.dev/{key}": value for key, value in annotations.items()}
    meta = {"name": "x", **({"annotations": marks} if marks else {})}
    return {"apiVersion": "tekton.dev/v1", "kind": "PipelineRun", "metadata": meta, "spec": {}}


def requests_of(template: dict[str, Any]) -> list[tuple[int, dict[str, str]]]:
    """Pods, and the requests of each one's first container."""
    found = []
    for one in infer(template):
        containers = template_of(template, one.path)["spec"]["containers"]
        found.append((one.replicas, containers[0]["resources"].get("requests")))
    return found


def test_what_is_asked_for() -> None:
    assert requests_of(run_of()) == [(1, {"tekton.dev/pipelineruns": "1"})]
    more = run_of(requests="cpu=4,memory=8Gi")
    assert requests_of(more) == [(1, {"cpu": "4", "memory": "8Gi"})]
    moved = run_of()
    moved["metadata"]["annotations"] = {"kueue.konflux-ci.dev/requests-cpu": "4"}
    assert requests_of(moved) == [(1, {"tekton.dev/pipelineruns": "1", "cpu": "4"})]


@pytest.mark.parametrize(
    ("template", "expected"),
    [
        (run_of(requests="cpu"), "annotation fournos.dev/requests: 'cpu' is not a request"),
        (run_of(requests="pods=1"), "Kueue counts them itself"),
        (run_of(requests="cpu=" + "9" * 4000), "cpu: a quantity has at most 32 characters"),
        (run_of(requests="cpu=1e300"), "more than can be counted"),
        (run_of(requests="a b=1"), "'a b' is not a resource name"),
        (run_of(requests="cpu=1," * 1000), "at most 4096 characters"),
    ],
)
def test_what_cannot_be_read_is_refused(template: dict[str, Any], expected: str) -> None:
    with pytest.raises(InferenceError, match=expected):
        infer(template)
    assert [expected in one.message for one in problems(wrapper(template))] == [True]


def test_other_paths_lead_nowhere() -> None:
    with pytest.raises(PathError, match="is not the pod set of a PipelineRun"):
        template_of(run_of(), "template.spec")


def test_kueue_s_own_integration_cannot_queue_them() -> None:
    (found,) = problems(wrapper(run_of()), own_workloads=False)
    assert "FOURNOS_APPWRAPPER_WORKLOADS=own" in found.message
    assert problems(wrapper(run_of(), queue=None), own_workloads=False) == []
    assert problems(wrapper(run_of())) == []


def test_where_an_admission_goes() -> None:
    run = kinds.place_run(run_of(), kinds.marks("aw", 0, INFO))
    pods = run["spec"]["taskRunTemplate"]["podTemplate"]
    assert (pods["nodeSelector"], pods["tolerations"][0]["key"]) == ({"pool": "a"}, "t")
    assert run["metadata"]["annotations"]["workload.codeflare.dev.appwrapper/component"] == "0"


def test_an_admission_that_cannot_be_followed_is_refused() -> None:
    with pytest.raises(PodSetInfoError):
        kinds.place_run(run_of(), replace(INFO, scheduling_gates=("g",)))


def _status(*wanted: Condition, **status: Any) -> dict[str, Any]:
    conditions: list[Any] = []
    for one in wanted:
        conditions = upsert(conditions, one, now=NOW)
    return {"metadata": {}, "status": {"conditions": conditions, **status}}


NOW = datetime(2030, 1, 1, tzinfo=UTC)


@pytest.mark.parametrize(
    ("status", "state"),
    [
        (_status(), ComponentState.PENDING),
        (_status(Condition("Succeeded", "Unknown", "Running", "")), ComponentState.READY),
        (_status(Condition("Succeeded", "True", "Succeeded", "")), ComponentState.SUCCEEDED),
        (_status(Condition("Succeeded", "False", "Failed", "")), ComponentState.PENDING),
        (_status(Condition("Succeeded", "False", "Failed", ""), completionTime="t"), ComponentState.FAILED),
    ],
)
def test_how_a_run_is_judged(status: Obj, state: ComponentState) -> None:
    known = wrapped_kind(run_of())
    assert known is not None and known.health is not None
    assert known.health(status).state is state


# --- lives ---


def tekton(server: Server) -> None:
    for a_run in server.list(PIPELINE_RUN):
        conditions = (a_run.get("status") or {}).get("conditions") or [{"status": ""}]
        if conditions[0]["status"] == "":
            set_conditions(server, PIPELINE_RUN, a_run, Condition("Succeeded", "Unknown", "Running", ""))
            return
        if conditions[0]["status"] == "Unknown":
            ended = Condition("Succeeded", "True", "Succeeded", "")
            set_conditions(server, PIPELINE_RUN, a_run, ended, completionTime="2030-01-01T00:00:00Z")
            return


def wrapped_run(server: Server) -> None:
    submit(server, run_of())


def a_run_s_life() -> Scenario:
    return replace(scenario(wrapped_run, world=lambda: tekton), end=phase)


async def test_a_wrapped_run_lives_and_ends() -> None:
    server = (await run(a_run_s_life())).server
    assert phase(server) == "Succeeded"
    (workload,) = server.list(WORKLOAD)
    (pod_set,) = workload["spec"]["podSets"]
    requests = pod_set["template"]["spec"]["containers"][0]["resources"]["requests"]
    assert requests == {"tekton.dev/pipelineruns": "1"}
    (made,) = server.list(PIPELINE_RUN)
    assert made["spec"]["taskRunTemplate"]["podTemplate"]["nodeSelector"] == {"pool": "a"}


@pytest.mark.parametrize("disturbed", DISTURBED)
async def test_survives(disturbed: str) -> None:
    assert await DISTURBED[disturbed](a_run_s_life()) > 0


# --- another cluster's ---


async def test_managed_elsewhere_it_has_a_workload_and_nothing_else() -> None:
    setup = in_order(wrapped_run, edit(managedBy="kueue.x-k8s.io/multikueue"))
    server = (await run(replace(scenario(setup), invariants=(), end=phase))).server
    assert "status" not in server.get(APPWRAPPER, Key(NS, "aw"))
    assert len(server.list(WORKLOAD)) == 1
    assert server.list(PIPELINE_RUN) == []


# --- taken down ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("template", "how"),
    [
        (run_of(), "Foreground"),
        ({**pod_of("x"), "metadata": {"name": "x"}}, "Background"),
    ],
)
def test_pods_that_cannot_be_seen_are_gone_when_their_owner_is(template: Any, how: str) -> None:
    made = wrapper(template)
    made["metadata"] |= {"uid": "u", "resourceVersion": "1"}
    conditions = [
        {"type": "ResourcesDeployed", "status": "True", "lastTransitionTime": "2030-01-01T00:00:00Z"}
    ]
    kind = {"kind": made["spec"]["components"][0]["template"]["kind"], "apiVersion": "any/v1"}
    component = {"name": "x", **kind, "podSets": [{"path": "template"}], "conditions": conditions}
    made["status"] = {"phase": "Suspending", "conditions": conditions, "componentStatus": [component]}
    live = {"metadata": {"name": "x", "uid": "c", "ownerReferences": [{"uid": "u", "controller": True}]}}
    empty = Context(Observed(Key(NS, "aw"), made, (None,), (True,)), Facts(), NOW, OWN)
    question = empty.component_question(0)
    assert question is not None
    facts = Facts({question: Present(live), empty.pods_question: Present(())})
    removal = remove(Context(empty.observed, facts, NOW, OWN))
    assert isinstance(removal, Removal)
    (step,) = removal.steps
    assert isinstance(step, Delete)
    assert step.propagation == how
