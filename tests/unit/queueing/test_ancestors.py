"""Which objects may run on an owner's quota: what its Workload names, and no other."""

from __future__ import annotations

from typing import Any

import pytest

from fournos.appwrappers.build import component_name
from fournos.appwrappers.queued import QueuedAppWrapper
from fournos.kube.resource import Obj
from fournos.queueing.ancestors import ancestor_among

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
        ("FournosJob", "job", True),
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
