"""Kinds without a pod template: their requests, the changes by an admission, and their ends."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

import pytest

from fournos.api.kinds import APPWRAPPER, PIPELINE_RUN
from fournos.engine.api.conditions import Condition, upsert
from fournos.engine.kube.resource import Key
from fournos.engine.queueing.kinds import WORKLOAD
from fournos.engine.queueing.podsets import PodSetInfo, PodSetInfoError
from fournos.engine.runtime.decision import Facts, Present
from fournos.engine.runtime.steps import Delete
from fournos.systems.appwrappers import templateless_kinds
from fournos.systems.appwrappers.admission import problems
from fournos.systems.appwrappers.component_health import ComponentState
from fournos.systems.appwrappers.context import Context, Observed
from fournos.systems.appwrappers.kinds import InferenceError, infer, wrapped_kind
from fournos.systems.appwrappers.paths import PathError
from fournos.systems.appwrappers.podsets import template_of
from fournos.systems.appwrappers.settings import AppWrapperSettings
from fournos.systems.appwrappers.teardown import Removal, remove
from tests.unit.systems.appwrappers.actors import NS, OWN, phase, pod_template, submit, wrapper
from tests.unit.systems.appwrappers.test_admission import request_for, reviewed
from tests.unit.systems.appwrappers.test_lifecycle import scenario
from tests.world.harness import DISTURBED, Scenario, run
from tests.world.server import Server
from tests.world.status import set_conditions

OWN_UNCHECKED = AppWrapperSettings(workloads="own", user_rbac_admission_check=False)
INFO = PodSetInfo(
    "p",
    1,
    labels={"kueue.x-k8s.io/podset": "p"},
    node_selector={"pool": "a"},
    tolerations=({"key": "t", "operator": "Exists"},),
)


def obj(kind: str, spec: Any = None, **annotations: str) -> dict[str, Any]:
    groups = {
        "TrainJob": "trainer.kubeflow.org/v1alpha1",
        "PipelineRun": "tekton.dev/v1",
        "FournosJob": "fournos.dev/v1",
        "MiniCluster": "flux-framework.org/v1alpha2",
    }
    marks = {f"fournos.dev/{key}": value for key, value in annotations.items()}
    meta = {"name": "x", **({"annotations": marks} if marks else {})}
    return {"apiVersion": groups[kind], "kind": kind, "metadata": meta, "spec": spec or {}}


def requests_of(template: dict[str, Any]) -> list[tuple[int, dict[str, str]]]:
    """Pods, and the requests of each one's first container."""
    found = []
    for one in infer(template):
        containers = template_of(template, one.path)["spec"]["containers"]
        found.append((one.replicas, containers[0]["resources"].get("requests")))
    return found


A100 = {"hardware": {"gpuType": "a100", "gpuCount": 8}}
TWO_CPUS = {"trainer": {"resourcesPerNode": {"limits": {"cpu": "2"}}}}
REQUESTS = {
    "a run is one run": (obj("PipelineRun"), [(1, {"tekton.dev/pipelineruns": "1"})]),
    "an annotation says more": (
        obj("PipelineRun", requests="cpu=4,memory=8Gi"),
        [(1, {"cpu": "4", "memory": "8Gi"})],
    ),
    "a training": (
        obj("TrainJob", {"trainer": {"numNodes": 3, "resourcesPerNode": {"limits": {"cpu": "2"}}}}),
        [(3, {"cpu": "2"})],
    ),
    "a training of its runtime": (obj("TrainJob"), [(1, {"trainer.kubeflow.org/trainjobs": "1"})]),
    "a job with its cluster to itself": (
        obj("FournosJob", {"hardware": {"gpuType": "H200", "gpuCount": 4}}),
        [(1, {"fournos/cluster-slot": "100", "fournos/gpu-h200": "4"})],
    ),
    "a job that shares": (obj("FournosJob", {"exclusive": False}), [(1, {"fournos/cluster-slot": "1"})]),
    "an annotation adds to what a spec states, and takes nothing away": (
        obj(
            "FournosJob",
            {"hardware": {"gpuType": "a100", "gpuCount": 8}},
            requests="cpu=2,fournos/gpu-a100=1",
        ),
        [(1, {"fournos/cluster-slot": "100", "fournos/gpu-a100": "8", "cpu": "2"})],
    ),
    "no slot is no slot less": (
        obj("FournosJob", {"exclusive": None}, requests="fournos/cluster-slot=0"),
        [(1, {"fournos/cluster-slot": "100"})],
    ),
    "more of what a spec states": (
        obj("FournosJob", {"exclusive": False}, requests="fournos/cluster-slot=7"),
        [(1, {"fournos/cluster-slot": "7"})],
    ),
    "a training of less": (
        obj(
            "TrainJob",
            {"trainer": {"resourcesPerNode": {"limits": {"cpu": "2"}}}},
            requests="cpu=1m,x.io/y=1",
        ),
        [(1, {"cpu": "2", "x.io/y": "1"})],
    ),
    "a cluster that may grow": (
        obj("MiniCluster", {"size": 2, "maxSize": 5, "containers": [{"image": "i"}]}),
        [(5, None)],
    ),
    "a cluster with services": (
        obj(
            "MiniCluster",
            {
                "size": 4,
                "containers": [{"image": "i", "resources": {"requests": {"cpu": "2"}}}],
                "services": [{"image": "s", "resources": {"requests": {"cpu": "1"}}}],
            },
        ),
        [(4, {"cpu": "2"}), (1, {"cpu": "1"})],
    ),
}


GPUS = {"image": "i", "resources": {"limits": {"nvidia.com/gpu": "8"}, "requests": {"memory": "500Mi"}}}


@pytest.mark.parametrize(
    ("requests", "added"),
    [
        ("cpu=1m", {"cpu": "0.001"}),
        ("memory=1Mi", None),
        ("memory=1Gi", {"memory": "25165824"}),
        ("nvidia.com/gpu=1", None),
        ("nvidia.com/gpu=20,memory=1Gi", {"nvidia.com/gpu": "4", "memory": "25165824"}),
    ],
)
def test_a_mini_cluster_asks_for_its_containers_and_what_the_annotation_adds(
    requests: str, added: dict[str, str] | None
) -> None:
    """Two containers of 500Mi and 8 GPUs in each of 100 pods."""
    template = obj("MiniCluster", {"size": 100, "containers": [GPUS, GPUS]}, requests=requests)
    (one,) = infer(template)
    containers = template_of(template, one.path)["spec"]["containers"]
    assert one.replicas == 100
    assert [each["resources"] for each in containers[:2]] == [GPUS["resources"]] * 2
    assert [each["resources"] for each in containers[2:]] == ([{"requests": added}] if added else [])


@pytest.mark.parametrize(
    ("requests", "lines"), [("fournos/cluster-slot=0,fournos/gpu-a100=1", 1), ("cpu=1", 0)]
)
def test_an_annotation_without_effect_is_warned_of(requests: str, lines: int) -> None:
    found = reviewed(request_for(wrapper(obj("FournosJob", A100, requests=requests))), OWN_UNCHECKED)
    assert not found.problems
    assert len([one for one in found.warnings if "asks for no more than the spec states" in one]) == lines


@pytest.mark.parametrize("case", REQUESTS)
def test_what_is_asked_for(case: str) -> None:
    template, expected = REQUESTS[case]
    assert requests_of(template) == expected


@pytest.mark.parametrize(
    ("template", "expected"),
    [
        (obj("PipelineRun", requests="cpu"), "annotation fournos.dev/requests: 'cpu' is not a request"),
        (obj("PipelineRun", requests="pods=1"), "Kueue counts them itself"),
        (obj("PipelineRun", requests="cpu=" + "9" * 4000), "cpu: a quantity has at most 32 characters"),
        (obj("PipelineRun", requests="cpu=1e300"), "more than can be counted"),
        (obj("PipelineRun", requests="a b=1"), "'a b' is not a resource name"),
        (obj("PipelineRun", requests="cpu=1," * 1000), "at most 4096 characters"),
        (
            obj("MiniCluster", {"containers": [{"resources": {"requests": {"cpu": "many"}}}]}),
            "cpu: 'many' is",
        ),
        (obj("TrainJob", {"trainer": {"numNodes": 2**31}}), "spec.trainer.numNodes is not a whole number"),
        (obj("TrainJob", {"trainer": {"numNodes": "2"}}), "spec.trainer.numNodes is not a whole number"),
        (obj("MiniCluster", {"size": 2}), "no containers"),
    ],
)
def test_what_cannot_be_read_is_refused(template: dict[str, Any], expected: str) -> None:
    with pytest.raises(InferenceError, match=expected):
        infer(template)
    assert [expected in one.message for one in problems(wrapper(template))] == [True]


def test_other_paths_lead_nowhere() -> None:
    with pytest.raises(PathError, match="is not a pod set of a PipelineRun"):
        template_of(obj("PipelineRun"), "template.spec")


def test_kueue_s_own_integration_cannot_queue_them() -> None:
    (found,) = problems(wrapper(obj("TrainJob")), own_workloads=False)
    assert "FOURNOS_APPWRAPPER_WORKLOADS=own" in found.message
    assert problems(wrapper(obj("TrainJob"), queue=None), own_workloads=False) == []
    assert problems(wrapper(obj("TrainJob"))) == []


def test_where_an_admission_goes() -> None:
    run = templateless_kinds.PIPELINE_RUN.place(obj("PipelineRun"), [templateless_kinds.marks("aw", 0, INFO)])
    pods = run["spec"]["taskRunTemplate"]["podTemplate"]
    assert (pods["nodeSelector"], pods["tolerations"][0]["key"]) == ({"pool": "a"}, "t")
    assert run["metadata"]["annotations"]["workload.codeflare.dev.appwrapper/component"] == "0"
    training = templateless_kinds.TRAIN_JOB.place(obj("TrainJob"), [INFO])
    (override,) = training["spec"]["podTemplateOverrides"]
    assert override["spec"]["nodeSelector"] == {"pool": "a"}
    job = templateless_kinds.FOURNOS_JOB.place(
        obj("FournosJob"), [PodSetInfo("p", 1, node_selector=_cluster("c1"))]
    )
    assert job["spec"]["cluster"] == "c1"
    infos = [INFO, replace(INFO, name="q", labels={"kueue.x-k8s.io/podset": "q"})]
    cluster = templateless_kinds.MINI_CLUSTER.place(obj("MiniCluster"), infos)
    assert cluster["spec"]["pod"] == {"nodeSelector": {"pool": "a"}, "tolerations": list(INFO.tolerations)}


def _cluster(name: str) -> dict[str, str]:
    return {"fournos.dev/cluster": name}


@pytest.mark.parametrize(
    ("how", "template", "infos"),
    [
        (templateless_kinds.PIPELINE_RUN, obj("PipelineRun"), [replace(INFO, scheduling_gates=("g",))]),
        (
            templateless_kinds.FOURNOS_JOB,
            obj("FournosJob", {"cluster": "c2"}),
            [PodSetInfo("p", 1, node_selector=_cluster("c1"))],
        ),
        (
            templateless_kinds.MINI_CLUSTER,
            obj("MiniCluster"),
            [INFO, replace(INFO, node_selector={"pool": "b"})],
        ),
    ],
)
def test_an_admission_that_cannot_be_followed_is_refused(
    how: templateless_kinds.Templateless, template: Any, infos: list[PodSetInfo]
) -> None:
    with pytest.raises(PodSetInfoError):
        how.place(template, infos)


def _status(*wanted: Condition, **status: Any) -> dict[str, Any]:
    conditions: list[Any] = []
    for one in wanted:
        conditions = upsert(conditions, one, now=NOW)
    return {"metadata": {}, "status": {"conditions": conditions, **status}}


NOW = datetime(2030, 1, 1, tzinfo=UTC)
YES, NO = "True", "False"

JUDGED = {
    "TrainJob": [
        (_status(), ComponentState.PENDING),
        (_status(jobsStatus=[{"name": "node", "ready": 1}]), ComponentState.READY),
        (_status(Condition("Complete", YES, "", "")), ComponentState.SUCCEEDED),
        (_status(Condition("Failed", YES, "", "")), ComponentState.FAILED),
    ],
    "PipelineRun": [
        (_status(), ComponentState.PENDING),
        (_status(Condition("Succeeded", "Unknown", "Running", "")), ComponentState.READY),
        (_status(Condition("Succeeded", YES, "Succeeded", "")), ComponentState.SUCCEEDED),
        (_status(Condition("Succeeded", NO, "Failed", "")), ComponentState.PENDING),
        (_status(Condition("Succeeded", NO, "Failed", ""), completionTime="t"), ComponentState.FAILED),
    ],
    "FournosJob": [
        (_status(phase="Pending"), ComponentState.PENDING),
        (_status(phase="Running"), ComponentState.READY),
        (_status(phase="Succeeded"), ComponentState.SUCCEEDED),
        (_status(phase="Stopped", message="by user"), ComponentState.FAILED),
    ],
    "MiniCluster": [
        (_status(), ComponentState.PENDING),
        (_status(Condition("JobMiniClusterReady", YES, "", "")), ComponentState.READY),
        (_status(Condition("JobFinished", YES, "", ""), exitCode=0), ComponentState.SUCCEEDED),
        (_status(Condition("JobFinished", YES, "", ""), exitCode=3), ComponentState.FAILED),
    ],
}


@pytest.mark.parametrize("kind", JUDGED)
def test_how_it_is_judged(kind: str) -> None:
    known = wrapped_kind(obj(kind))
    assert known is not None
    assert known.health is not None
    assert [known.health(status).state for status, _ in JUDGED[kind]] == [state for _, state in JUDGED[kind]]


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
    submit(server, obj("PipelineRun"))


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
    def setup(server: Server) -> None:
        submit(server, obj("PipelineRun"))
        body = {"spec": {"managedBy": "kueue.x-k8s.io/multikueue"}}
        server.patch(APPWRAPPER, Key(NS, "aw"), body)

    server = (await run(replace(scenario(setup), invariants=(), end=phase))).server
    assert "status" not in server.get(APPWRAPPER, Key(NS, "aw"))
    assert len(server.list(WORKLOAD)) == 1
    assert server.list(PIPELINE_RUN) == []


# --- taken down ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("template", "how"),
    [(obj("FournosJob"), "Foreground"), ({**pod_template("x"), "metadata": {"name": "x"}}, "Background")],
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
