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
from fournos.engine.runtime.decision import Delete, Facts, Present
from fournos.systems.appwrappers import kinds
from fournos.systems.appwrappers.admission import problems
from fournos.systems.appwrappers.build import PathError, template_of
from fournos.systems.appwrappers.finish import Removal, remove
from fournos.systems.appwrappers.health import ComponentState
from fournos.systems.appwrappers.kinds import InferenceError, infer, wrapped_kind
from fournos.systems.appwrappers.status import Context, Observed
from tests.unit.systems.appwrappers.actors import NS, OWN, phase, pod_template, submit, wrapper
from tests.unit.systems.appwrappers.test_lifecycle import scenario
from tests.world.harness import DISTURBED, Scenario, run
from tests.world.server import Server
from tests.world.status import set_conditions

INFO = PodSetInfo(
    "p",
    1,
    labels={"kueue.x-k8s.io/podset": "p"},
    node_selector={"pool": "a"},
    tolerations=({"key": "t", "operator": "Exists"},),
)


def obj(kind: str, spec: Any = None, **annotations: str) -> dict[str, Any]:
    groups = {"PipelineRun": "tekton.dev/v1"}
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


REQUESTS = {
    "a run is one run": (obj("PipelineRun"), [(1, {"tekton.dev/pipelineruns": "1"})]),
    "an annotation says more": (
        obj("PipelineRun", requests="cpu=4,memory=8Gi"),
        [(1, {"cpu": "4", "memory": "8Gi"})],
    ),
}


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
    (found,) = problems(wrapper(obj("PipelineRun")), own_workloads=False)
    assert "FOURNOS_APPWRAPPER_WORKLOADS=own" in found.message
    assert problems(wrapper(obj("PipelineRun"), queue=None), own_workloads=False) == []
    assert problems(wrapper(obj("PipelineRun"))) == []


def test_where_an_admission_goes() -> None:
    run = kinds.WRAPPED_RUN.place(obj("PipelineRun"), [kinds.marks("aw", 0, INFO)])
    pods = run["spec"]["taskRunTemplate"]["podTemplate"]
    assert (pods["nodeSelector"], pods["tolerations"][0]["key"]) == ({"pool": "a"}, "t")
    assert run["metadata"]["annotations"]["workload.codeflare.dev.appwrapper/component"] == "0"


def test_an_admission_that_cannot_be_followed_is_refused() -> None:
    with pytest.raises(PodSetInfoError):
        kinds.WRAPPED_RUN.place(obj("PipelineRun"), [replace(INFO, scheduling_gates=("g",))])


def _status(*wanted: Condition, **status: Any) -> dict[str, Any]:
    conditions: list[Any] = []
    for one in wanted:
        conditions = upsert(conditions, one, now=NOW)
    return {"metadata": {}, "status": {"conditions": conditions, **status}}


NOW = datetime(2030, 1, 1, tzinfo=UTC)
YES, NO = "True", "False"

JUDGED = {
    "PipelineRun": [
        (_status(), ComponentState.PENDING),
        (_status(Condition("Succeeded", "Unknown", "Running", "")), ComponentState.READY),
        (_status(Condition("Succeeded", YES, "Succeeded", "")), ComponentState.SUCCEEDED),
        (_status(Condition("Succeeded", NO, "Failed", "")), ComponentState.PENDING),
        (_status(Condition("Succeeded", NO, "Failed", ""), completionTime="t"), ComponentState.FAILED),
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
    [(obj("PipelineRun"), "Foreground"), ({**pod_template("x"), "metadata": {"name": "x"}}, "Background")],
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
