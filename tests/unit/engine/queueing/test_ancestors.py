"""Which objects may run on an owner's quota: what its Workload names, and no other."""

from __future__ import annotations

from typing import Any

import pytest

from fournos.engine.kube.resource import Key, Obj
from fournos.engine.queueing.job import Ancestor
from fournos.engine.queueing.kinds import WORKLOAD
from fournos.engine.queueing.observe import (
    ancestor_among,
    ancestor_questions,
    component,
    generated_name,
    live_ancestor,
)
from fournos.engine.runtime.decision import Absent, Answer, Facts, LiveList, Present, Unknown
from fournos.systems.appwrappers.build import component_name
from fournos.systems.appwrappers.decide import QueuedAppWrapper

_AW = "workload.codeflare.dev/v1beta2"


def owner(api_version: str, kind: str, name: str = "parent") -> dict[str, Any]:
    return {"apiVersion": api_version, "kind": kind, "name": name, "uid": "u", "controller": True}


def child(kind: str, name: str, parent: Obj) -> dict[str, Any]:
    versions = {"PipelineRun": "tekton.dev/v1", "MiniCluster": "flux-framework.org/v1alpha2"}
    meta = {"name": name, "namespace": "ns", "ownerReferences": [parent]}
    return {"apiVersion": versions.get(kind, "fournos.dev/v1"), "kind": kind, "metadata": meta}


def workload(parent: Obj, *pod_sets: Obj, name: str = "w") -> dict[str, Any]:
    meta = {"name": name, "namespace": "ns", "ownerReferences": [parent]}
    return {"metadata": meta, "spec": {"podSets": list(pod_sets)}}


THIEF = "fournos.dev/v1/FournosJob/thief"
TEMPLATES: list[dict[str, Any]] = [
    {
        "apiVersion": "v1",
        "kind": "Pod",
        # An author's own annotation is overwritten: it names another's component.
        "metadata": {
            "name": "p",
            "annotations": {"fournos.dev/component": "fournos.dev/v1/FournosJob/thief"},
        },
        "spec": {"containers": [{"name": "c", "resources": {"requests": {"cpu": "1"}}}]},
    },
    {
        "apiVersion": "tekton.dev/v1",
        "kind": "PipelineRun",
        "metadata": {"generateName": "run-"},
        "spec": {},
    },
    {
        "apiVersion": "fournos.dev/v1",
        "kind": "FournosJob",
        "metadata": {"name": "job"},
        "spec": {"cluster": "c", "executionEngine": {"forge": {}}},
    },
]


def test_an_appwrapper_s_workload_names_its_components() -> None:
    wrapper = {
        "apiVersion": _AW,
        "kind": "AppWrapper",
        "metadata": {"name": "parent", "namespace": "ns", "uid": "u"},
        "spec": {"components": [{"template": one} for one in TEMPLATES]},
    }
    pod_sets = [
        {"name": one.name, "count": one.count, "template": one.template}
        for one in QueuedAppWrapper(wrapper).pod_sets()
    ]
    parent = owner(_AW, "AppWrapper")
    held = workload(parent, *pod_sets)
    for kind, name, nested in (
        ("PipelineRun", component_name(wrapper, 1), True),
        ("FournosJob", "job", False),
        ("PipelineRun", "job", False),
        ("FournosJob", "thief", False),
        ("PipelineRun", "run-", False),
        ("MiniCluster", "job", False),
    ):
        assert (ancestor_among(child(kind, name, parent), [held]) is not None) == nested, (kind, name)


@pytest.mark.parametrize(
    ("kind", "name", "parent", "nested"),
    [
        ("PipelineRun", "job-r2", owner("fournos.dev/v1", "FournosJob"), True),
        ("PipelineRun", "mine", owner("fournos.dev/v1", "FournosJob"), False),
        ("MiniCluster", "job-r2", owner("fournos.dev/v1", "FournosJob"), False),
        ("FournosJob", "job-r2", owner("batch/v1", "Job"), False),
        ("PipelineRun", "job-r2", owner("batch/v1", "Job"), False),
        ("MiniCluster", "job-r2", owner("jobset.x-k8s.io/v1alpha2", "JobSet"), False),
        ("RayCluster", "job-r2", owner("ray.io/v1", "RayJob"), True),
    ],
)
def test_other_owners(kind: str, name: str, parent: dict[str, Any], nested: bool) -> None:
    held = workload(parent, {"name": "main", "template": {}}, name="job-r2")
    assert (ancestor_among(child(kind, name, parent), [held]) is not None) == nested


def test_a_workload_that_only_names_the_owner_s_uid_is_not_its_own() -> None:
    parent = owner(_AW, "AppWrapper")
    forged = workload({**parent, "kind": "Job"}, {"name": "main", "template": {}})
    assert ancestor_among(child("RayCluster", "r", parent), [forged]) is None


# --- which Workload of the owner, and how it is found --------------------------------------------------

RAY = owner("ray.io/v1", "RayJob")


def at(found: dict[str, Any], created: str, *conditions: str) -> dict[str, Any]:
    meta = {**found["metadata"], "creationTimestamp": f"2030-01-01T00:00:0{created}Z"}
    return {
        **found,
        "metadata": meta,
        "status": {"conditions": [{"type": c, "status": "True"} for c in conditions]},
    }


def test_the_ancestor_is_the_owner_with_its_newest_workload_that_goes_on() -> None:
    old, new, over = (
        at(workload(RAY, name="old"), "1"),
        at(workload(RAY, name="new"), "2"),
        at(workload(RAY, name="over"), "3", "Finished"),
    )
    found = ancestor_among(child("RayCluster", "r", RAY), [over, old, new])
    assert found == Ancestor(Key("ns", "parent"), "RayJob", new)
    ended = ancestor_among(child("RayCluster", "r", RAY), [over])
    assert ended == Ancestor(Key("ns", "parent"), "RayJob", None), "it had quota, and gets no other"


def test_a_later_run_is_of_the_later_workload() -> None:
    parent = owner("fournos.dev/v1", "FournosJob")
    first, second = (
        at(workload(parent, name="job"), "1", "Finished"),
        at(workload(parent, name="job-r2"), "2"),
    )
    for run, nested in (("job-r2", True), ("job", False)):
        found = ancestor_among(child("PipelineRun", run, parent), [first, second])
        assert (found is not None) is nested


def test_the_workloads_of_the_owner_are_read_by_its_uid() -> None:
    obj = child("RayCluster", "r", RAY)
    (question,) = ancestor_questions(obj)
    assert question == LiveList(WORKLOAD, "ns", "kueue.x-k8s.io/job-uid=u")
    held = workload(RAY)

    def found(answer: Answer) -> Any:
        return live_ancestor(obj, Facts({question: answer}))

    assert found(Present((held,))) == Ancestor(Key("ns", "parent"), "RayJob", held)
    assert found(Present(())) is None and found(Absent()) is None
    assert found(Unknown("timeout")) == Unknown("timeout")
    alone = {**obj, "metadata": {"name": "r", "namespace": "ns"}}
    assert ancestor_questions(alone) == () and live_ancestor(alone, Facts()) is None


@pytest.mark.parametrize(
    ("kind", "named", "nested"),
    [
        ("RayCluster", False, True),
        ("RayCluster", True, False),
        ("FournosJob", False, False),
        ("PipelineRun", False, False),
        ("MiniCluster", False, False),
    ],
)
def test_an_appwrapper_without_names_has_quota_for_kinds_with_pod_templates(
    kind: str, named: bool, nested: bool
) -> None:
    """Kueue's own AppWrapper names nothing; FournosJobs and MiniClusters have a Workload of their own."""
    parent = owner(_AW, "AppWrapper")
    template = {"metadata": {"annotations": {"fournos.dev/component": THIEF}}} if named else {}
    held = workload(parent, {"name": "main", "template": template})
    assert (ancestor_among(child(kind, "r", parent), [held]) is not None) is nested


def test_a_kind_of_the_same_name_in_another_group_is_another_kind() -> None:
    """`example.com/v1` FournosJob is not ours: its Workload needs no name of a run."""
    parent = owner("example.com/v1", "FournosJob")
    assert ancestor_among(child("RayCluster", "r", parent), [workload(parent)]) is not None
    ours = owner("fournos.dev/v1", "FournosJob")
    assert ancestor_among(child("RayCluster", "r", ours), [workload(ours)]) is None


# --- the names of components ---------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("meta", "expected"),
    [
        ({"name": "a"}, "v1/Pod/a"),
        ({"name": "a", "generateName": "b-"}, "v1/Pod/a"),
        ({"generateName": "b-"}, "v1/Pod/b-{3}"),
        ({}, "v1/Pod/{3}"),
        (None, "v1/Pod/{3}"),
    ],
)
def test_a_component_is_named_without_the_uid_of_its_owner(meta: Any, expected: str) -> None:
    assert component({"apiVersion": "v1", "kind": "Pod", "metadata": meta}, 3) == expected


def test_a_generated_name_is_that_of_its_owner_and_index() -> None:
    name = generated_name("run-", "u", 1)
    assert name == generated_name("run-", "u", 1) and len(name) == len("run-") + 5
    assert len({name, generated_name("run-", "u", 2), generated_name("run-", "v", 1)}) == 3
