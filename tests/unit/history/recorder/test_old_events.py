"""Events of what is gone leave the recorder's cache, an hour before Kubernetes deletes them."""

from __future__ import annotations

from typing import Any

from fournos.api.kinds import FOURNOS_JOB, PIPELINE_RUN
from fournos.engine.kube.resource import EVENT
from fournos.history.recorder.old_events import BEHIND, OldEvents
from tests.unit.history.recorder.filled_caches import FilledCaches


def named(name: str, **meta: Any) -> dict[str, Any]:
    return {"metadata": {"namespace": "jobs", "name": name, "uid": f"uid-{name}", **meta}}


def event(name: str, kind: str, about: str) -> dict[str, Any]:
    return {**named(name), "regarding": {"kind": kind, "name": about, "uid": f"uid-{about}"}, "reason": "R"}


class Recorder(FilledCaches):
    def __init__(self, *events: dict[str, Any]) -> None:
        super().__init__()
        own = {each.kind: each for each in (FOURNOS_JOB, PIPELINE_RUN)}
        self._old_events = OldEvents(own, self.monotonic)
        self.fill(EVENT, list(events))

    def sweep(self, now: float) -> set[str]:
        """Returns the names of the Events that are left."""
        self.now = now
        self._old_events.forget(self.caches)
        return {obj["metadata"]["name"] for obj in self.caches[EVENT]}


def test_events_go_when_their_object_has_been_gone_for_long() -> None:
    recorder = Recorder(event("a", "FournosJob", "live"), event("b", "FournosJob", "gone"))
    recorder.fill(FOURNOS_JOB, [named("live")])
    assert recorder.sweep(0) == {"a", "b"}
    assert recorder.sweep(BEHIND - 1) == {"a", "b"}
    assert recorder.sweep(BEHIND) == {"a"}
    assert recorder.sweep(3 * BEHIND) == {"a"}


def test_an_event_that_comes_before_its_object_stays() -> None:
    recorder = Recorder(event("a", "FournosJob", "late"))
    assert recorder.sweep(0) == {"a"}
    recorder.fill(FOURNOS_JOB, [named("late")])
    assert recorder.sweep(60) == {"a"}
    recorder.fill(FOURNOS_JOB, [])
    # Its object is gone again: the time begins anew.
    assert recorder.sweep(BEHIND) == {"a"}
    assert recorder.sweep(2 * BEHIND) == set()


def test_a_name_that_is_used_again_keeps_only_the_events_of_the_new_object() -> None:
    recorder = Recorder(event("a", "FournosJob", "first"), event("b", "FournosJob", "second"))
    recorder.fill(FOURNOS_JOB, [named("job", uid="uid-second")])
    recorder.sweep(0)
    assert recorder.sweep(BEHIND) == {"b"}


def test_events_of_the_runs_of_a_job_go_with_the_runs() -> None:
    recorder = Recorder(event("a", "PipelineRun", "run"), event("b", "PipelineRun", "gone"))
    recorder.fill(PIPELINE_RUN, [named("run")])
    recorder.sweep(0)
    assert recorder.sweep(BEHIND) == {"a"}


def test_events_of_kinds_that_are_not_recorded_go_at_once() -> None:
    recorder = Recorder(event("a", "Workload", "w"), event("b", "Pod", "p"), event("c", "FournosJob", "j"))
    assert recorder.sweep(0) == {"c"}


def test_those_of_a_kind_with_a_recorder_of_its_own_stay() -> None:
    recorder = Recorder(event("a", "AppWrapper", "w"))
    recorder.sweep(0)
    assert recorder.sweep(2 * BEHIND) == {"a"}
