"""What an admission changes in pod templates, as tables: flavors, labels, gates, checks, and what stays."""

from __future__ import annotations

from typing import Any

import pytest

from fournos.engine.kube.resource import Obj
from fournos.engine.queueing.podsets import (
    MissingFlavorError,
    PodSetInfo,
    PodSetInfoError,
    distinct,
    infos_of,
    original_infos,
    placed,
    union,
)

TAINT = {"key": "gpu", "operator": "Exists"}
SPOT = {"key": "spot", "operator": "Exists"}
FLAVORS: dict[str, Obj] = {
    "a": {"spec": {"nodeLabels": {"pool": "a"}, "tolerations": [TAINT]}},
    "b": {"spec": {"nodeLabels": {"zone": "b"}, "tolerations": [TAINT, SPOT]}},
    "other": {"spec": {"nodeLabels": {"pool": "other"}}},
    "bare": {},
}
LABELS = {
    "kueue.x-k8s.io/podset": "main",
    "kueue.x-k8s.io/local-queue-name": "lq",
    "kueue.x-k8s.io/cluster-queue-name": "cq",
}
NOTE = {"kueue.x-k8s.io/workload": "w"}


def admitted(
    flavors: dict[str, str] | None = None,
    *,
    queue: str | None = "lq",
    cluster_queue: str = "cq",
    pod_set: Any = None,
    checks: Any = (),
    **assigned: Any,
) -> Obj:
    assignment = {"name": "main", "flavors": flavors, **assigned}
    return {
        "metadata": {"name": "w", "namespace": "ns"},
        "spec": {"queueName": queue, "podSets": [{"name": "main", **(pod_set or {})}]},
        "status": {
            "admission": {"clusterQueue": cluster_queue, "podSetAssignments": [assignment]},
            "admissionChecks": list(checks),
        },
    }


def info(workload: Obj) -> PodSetInfo:
    (found,) = infos_of(workload, FLAVORS)
    return found


# --- of flavors ----------------------------------------------------------------------------------------


def test_flavors_of_several_resources_are_joined() -> None:
    assert info(admitted({"cpu": "a", "memory": "b", "gpu": "a"}, count=3)) == PodSetInfo(
        "main",
        3,
        labels=LABELS,
        annotations=NOTE,
        node_selector={"pool": "a", "zone": "b"},
        tolerations=(TAINT, SPOT),
    )


def test_a_flavor_without_a_spec_adds_nothing() -> None:
    found = info(admitted({"cpu": "bare"}))
    assert (found.node_selector, found.tolerations) == ({}, ())
    assert info(admitted(None)).node_selector == {}


def test_flavors_that_contradict_each_other_fit_nothing() -> None:
    with pytest.raises(PodSetInfoError, match=r"^conflict for nodeSelector key=pool: 'a' and 'other'$"):
        info(admitted({"cpu": "a", "memory": "other"}))


def test_a_flavor_that_is_missing_is_named() -> None:
    with pytest.raises(MissingFlavorError, match=r"^ResourceFlavor 'none' not found$"):
        info(admitted({"cpu": "a", "memory": "none"}))


def test_an_admission_of_an_unknown_pod_set_fits_nothing() -> None:
    workload = admitted({})
    workload["status"]["admission"]["podSetAssignments"][0]["name"] = "x"
    with pytest.raises(PodSetInfoError, match="names pod set x, which the Workload does not have"):
        infos_of(workload, FLAVORS)


def test_without_an_admission_there_is_nothing_to_add() -> None:
    workload = admitted({})
    assert infos_of({**workload, "status": {}}, FLAVORS) == ()
    assert infos_of({"metadata": {}, "spec": workload["spec"]}, FLAVORS) == ()


@pytest.mark.parametrize(
    ("assigned", "pod_set", "count"),
    [({"count": 2}, {"count": 5}, 2), ({"count": 0}, {"count": 5}, 0), ({}, {"count": 5}, 5), ({}, {}, 1)],
    ids=["admitted", "none", "requested", "default"],
)
def test_the_count_is_the_admitted_one(assigned: Any, pod_set: Any, count: int) -> None:
    assert info(admitted({}, pod_set=pod_set, **assigned)).count == count


@pytest.mark.parametrize(
    ("names", "missing"),
    [
        ({"queue": "q" * 63}, None),
        ({"queue": "q" * 64}, "kueue.x-k8s.io/local-queue-name"),
        ({"queue": None}, "kueue.x-k8s.io/local-queue-name"),
        ({"cluster_queue": "q" * 63}, None),
        ({"cluster_queue": "q" * 64}, "kueue.x-k8s.io/cluster-queue-name"),
        ({"cluster_queue": "team.example.com"}, "kueue.x-k8s.io/cluster-queue-name"),
    ],
)
def test_names_of_queues_that_are_no_label_values_are_left_out(names: Any, missing: str | None) -> None:
    found = info(admitted({}, **names)).labels
    assert set(found) == set(LABELS) - {missing}


@pytest.mark.parametrize(
    ("assigned", "pod_set", "gates", "unconstrained"),
    [
        ({"topologyAssignment": {"levels": []}}, {}, ("kueue.x-k8s.io/topology",), "true"),
        (
            {"topologyAssignment": {"levels": []}},
            {"topologyRequest": {"required": "rack"}},
            ("kueue.x-k8s.io/topology",),
            None,
        ),
        ({}, {}, (), None),
    ],
    ids=["unconstrained", "requested", "none"],
)
def test_pods_with_a_topology_wait_for_their_places(
    assigned: Any, pod_set: Any, gates: tuple[str, ...], unconstrained: str | None
) -> None:
    found = info(admitted({}, pod_set=pod_set, **assigned))
    assert found.scheduling_gates == gates
    assert found.annotations.get("kueue.x-k8s.io/podset-unconstrained-topology") == unconstrained


# --- of admission checks -------------------------------------------------------------------------------


def test_checks_add_to_their_pod_set_alone() -> None:
    update = {
        "name": "main",
        "labels": {"l": "1"},
        "annotations": {"n": "2"},
        "nodeSelector": {"s": "3"},
        "tolerations": [SPOT, TAINT],
    }
    checks = [
        {"podSetUpdates": [update]},
        {"podSetUpdates": [{**update, "name": "x", "labels": {"x": "x"}}]},
        {},
    ]
    topology = {"topologyAssignment": {"levels": []}}
    found = info(admitted({"cpu": "a"}, checks=checks, count=2, **topology))
    assert found == PodSetInfo(
        "main",
        2,
        labels={**LABELS, "l": "1"},
        annotations={**NOTE, "kueue.x-k8s.io/podset-unconstrained-topology": "true", "n": "2"},
        node_selector={"pool": "a", "s": "3"},
        tolerations=(TAINT, SPOT),
        scheduling_gates=("kueue.x-k8s.io/topology",),
    )


@pytest.mark.parametrize(
    ("update", "what"),
    [
        ({"labels": {"kueue.x-k8s.io/podset": "x"}}, "label key=kueue.x-k8s.io/podset: 'main' and 'x'"),
        (
            {"annotations": {"kueue.x-k8s.io/workload": "x"}},
            "annotation key=kueue.x-k8s.io/workload: 'w' and 'x'",
        ),
        ({"nodeSelector": {"pool": "x"}}, "nodeSelector key=pool: 'a' and 'x'"),
    ],
)
def test_a_check_that_contradicts_the_flavor_fits_nothing(update: Any, what: str) -> None:
    checks = [{"podSetUpdates": [{"name": "main", **update}]}]
    with pytest.raises(PodSetInfoError, match=f"^conflict for {what}$"):
        info(admitted({"cpu": "a"}, checks=checks))


# --- into a template and out of it ---------------------------------------------------------------------

FULL = PodSetInfo(
    "main",
    1,
    labels={"l": "1"},
    annotations={"n": "2"},
    node_selector={"s": "3"},
    tolerations=(TAINT,),
    scheduling_gates=("g",),
)


def test_a_template_gets_all_of_it_and_keeps_its_own() -> None:
    template = {
        "metadata": {"labels": {"own": "1"}, "name": "kept"},
        "spec": {
            "containers": [{"name": "c"}],
            "tolerations": [SPOT],
            "schedulingGates": [{"name": "own"}],
            "nodeSelector": {"own": "2"},
        },
        "kept": True,
    }
    assert placed(template, FULL) == {
        "metadata": {"labels": {"own": "1", "l": "1"}, "annotations": {"n": "2"}, "name": "kept"},
        "spec": {
            "containers": [{"name": "c"}],
            "tolerations": [SPOT, TAINT],
            "schedulingGates": [{"name": "own"}, {"name": "g"}],
            "nodeSelector": {"own": "2", "s": "3"},
        },
        "kept": True,
    }
    assert template["spec"]["nodeSelector"] == {"own": "2"}, "the template itself does not change"  # type: ignore[index]


def test_what_a_template_has_already_is_not_added_twice() -> None:
    full = placed({}, FULL)
    assert placed(full, FULL) == full


def test_nothing_leaves_no_empty_fields() -> None:
    empty = {"metadata": {"labels": {}}, "spec": {"tolerations": [], "containers": []}}
    assert placed(empty, PodSetInfo("main", 1)) == {"metadata": {}, "spec": {"containers": []}}
    assert placed({}, PodSetInfo("main", 1)) == {"metadata": {}, "spec": {}}


@pytest.mark.parametrize(
    ("template", "what"),
    [
        ({"metadata": {"labels": {"l": "x"}}}, "label key=l: 'x' and '1'"),
        ({"metadata": {"annotations": {"n": "x"}}}, "annotation key=n: 'x' and '2'"),
        ({"spec": {"nodeSelector": {"s": "x"}}}, "nodeSelector key=s: 'x' and '3'"),
    ],
)
def test_a_template_with_another_value_fits_nothing(template: Obj, what: str) -> None:
    with pytest.raises(PodSetInfoError, match=f"^conflict for {what}$"):
        placed(template, FULL)


def test_the_values_at_creation_are_those_of_the_workload() -> None:
    template = {
        "metadata": {"labels": {"l": "1"}, "annotations": {"n": "2"}},
        "spec": {"nodeSelector": {"s": "3"}, "tolerations": [TAINT], "schedulingGates": [{"name": "g"}]},
    }
    pod_sets = [{"name": "main", "count": 4, "template": template}, {"name": "bare"}]
    first, second = original_infos({"spec": {"podSets": pod_sets}})
    assert first == PodSetInfo("main", 4, FULL.labels, FULL.annotations, FULL.node_selector, (TAINT,), ("g",))
    assert second == PodSetInfo("bare", 1)


def test_unions_and_lists() -> None:
    assert union("x", None, {"a": "1"}, {"a": "1", "b": "2"}) == {"a": "1", "b": "2"}
    assert distinct([1, 2], None, [2, 3]) == [1, 2, 3]
