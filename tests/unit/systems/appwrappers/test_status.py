"""The status of an AppWrapper, read by its types."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

from fournos.engine.api.conditions import Condition
from fournos.systems.appwrappers.kinds import PodSetSpec
from fournos.systems.appwrappers.status import StatusDraft, component_status, phase_of

NOW = datetime(2030, 1, 1, tzinfo=UTC)
EARLIER = {"lastTransitionTime": "2029-12-31T23:59:00Z", "reason": "R", "message": ""}


def draft(**status: Any) -> StatusDraft:
    return StatusDraft({"metadata": {"name": "aw"}, "status": status}, NOW)


def test_an_empty_status() -> None:
    found = draft()
    assert (found.phase, found.resets, found.components, found.component(0)) == ("", 0, (), None)
    assert found.since("Unhealthy") == NOW
    assert phase_of({"metadata": {}}) == phase_of({"metadata": {}, "status": {}}) == ""


def test_when_the_latest_of_several_conditions_changed() -> None:
    found = draft(conditions=[{"type": "PodsReady", "status": "False", **EARLIER}])
    assert found.since("PodsReady") == NOW - timedelta(minutes=1)
    found.condition("Unhealthy", "True", "R")
    assert found.since("PodsReady", "Unhealthy") == NOW
    assert found.found("Missing") is None and not found.is_false("Missing")


def test_components() -> None:
    found = draft().fill_components([(PodSetSpec("template", 2, {"a": "b"}),), ()])
    found.amend_component(1, name="second")
    found.component_condition(1, Condition("Finished", "True", "Succeeded", ""))
    first, second = found.components
    assert [(one.path, one.replicas, one.annotations) for one in first.pod_sets] == [
        ("template", 2, {"a": "b"})
    ]
    assert (first.name, second.name) == ("", "second")
    assert second.is_true("Finished") and not first.is_true("Finished")
    assert first.condition("Finished") is None
    assert found.component(1) == second and found.component(2) is None
    assert found.count_reset().count_reset().resets == 2


def test_one_component_is_read_without_the_others() -> None:
    """What another writer has spoiled in one entry hides no other."""
    good = {"name": "b", "kind": "Job", "apiVersion": "batch/v1", "podSets": []}
    found = component_status({"componentStatus": [{"name": 1}, good]}, 1)
    assert found is not None and found.name == "b"
