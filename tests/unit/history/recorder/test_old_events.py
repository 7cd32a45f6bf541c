"""Events of what is gone leave the recorder's cache, an hour before Kubernetes deletes them."""

from __future__ import annotations

from typing import Any

from fournos.api.kinds import FOURNOS_JOB, PIPELINE_RUN
from fournos.engine.kube.resource import EVENT
from fournos.history.recorder.observe import forget_events
from tests.unit.history.recorder.filled_caches import FilledCaches


def named(name: str, **meta: Any) -> dict[str, Any]:
    return {"metadata": {"namespace": "jobs", "name": name, "uid": f"uid-{name}", **meta}}


def event(name: str, kind: str, about: str) -> dict[str, Any]:
    return {**named(name), "regarding": {"kind": kind, "name": about, "uid": f"uid-{about}"}, "reason": "R"}


def left(*events: dict[str, Any], jobs: Any = (), runs: Any = ()) -> set[str]:
    """Returns the names of the Events that are left after a sweep."""
    recorder = FilledCaches()
    recorder.fill(EVENT, list(events))
    recorder.fill(FOURNOS_JOB, list(jobs))
    recorder.fill(PIPELINE_RUN, list(runs))
    forget_events(recorder.caches, {each.kind: each for each in (FOURNOS_JOB, PIPELINE_RUN)})
    return {obj["metadata"]["name"] for obj in recorder.caches[EVENT]}


def test_events_go_when_their_object_is_gone() -> None:
    events = event("a", "FournosJob", "live"), event("b", "FournosJob", "gone")
    assert left(*events, jobs=[named("live")]) == {"a"}


def test_a_name_that_is_used_again_keeps_only_the_events_of_the_new_object() -> None:
    events = event("a", "FournosJob", "first"), event("b", "FournosJob", "second")
    assert left(*events, jobs=[named("job", uid="uid-second")]) == {"b"}


def test_events_of_the_runs_of_a_job_go_with_the_runs() -> None:
    assert left(event("a", "PipelineRun", "run"), event("b", "PipelineRun", "gone"), runs=[named("run")]) == {
        "a"
    }


def test_events_of_kinds_that_are_not_recorded_go_and_those_of_another_recorder_stay() -> None:
    assert left(event("a", "Workload", "w"), event("b", "Pod", "p"), event("c", "AppWrapper", "w")) == {"c"}
