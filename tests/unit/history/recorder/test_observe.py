"""What the caches of the recorder keep, and the objects of runs in them."""

from __future__ import annotations

from typing import Any, cast

from fournos.api.kinds import FOURNOS_JOB, PIPELINE_RUN
from fournos.engine.kube.resource import EVENT, NAMESPACE, Resource
from fournos.engine.kube.store import Store
from fournos.engine.runtime.controller import Caches
from fournos.engine.runtime.manager import Manager
from fournos.history.recorder.controller import LiveObjects
from fournos.history.recorder.observe import forget_events, watches
from fournos.history.settings import HistorySettings
from tests.history import CLUSTER, a_run


class FilledCaches:
    """The caches of the recorder of FournosJobs."""

    def __init__(self) -> None:
        self._stores: dict[Resource, Store] = {
            watch.resource: Store(project=watch.project, indexes=watch.indexes)
            for watch in watches(HistorySettings(), FOURNOS_JOB)
        }
        self.caches = Caches(self._stores)

    def fill(self, resource: Resource, objects: list[Any]) -> None:
        """Stores a list of this type, as its reflector does."""
        store = self._stores[resource]
        versioned = [{**obj, "metadata": {"resourceVersion": "1", **obj["metadata"]}} for obj in objects]
        store.replace([store.slim(obj) for obj in versioned], "1")


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


JOB = {"metadata": {"namespace": "bench", "name": "job-1", "uid": "uid-1"}}


class Managed:
    """A manager with one job in its caches."""

    def caches(self, controller: str) -> Caches:
        assert controller == "history-fournosjobs"
        stores: dict[Any, Store] = {FOURNOS_JOB: Store(), NAMESPACE: Store()}
        stores[FOURNOS_JOB].replace([JOB], "1")
        stores[NAMESPACE].replace([{"metadata": {"name": "kube-system", "uid": CLUSTER}}], "1")
        return Caches(stores)


def test_a_run_is_found_by_its_uid() -> None:
    shown = LiveObjects([FOURNOS_JOB])
    assert (shown.cluster(), shown.find(a_run(1))) == ("", None)
    shown.started(cast(Manager, Managed()))
    assert shown.cluster() == CLUSTER
    assert shown.find(a_run(1)) == (FOURNOS_JOB, JOB)
    assert shown.find(a_run(2)) is None, "it does not exist"
    assert shown.find(a_run(2, name="job-1")) is None, "another one has its name"
    assert shown.find(a_run(1, kind="AppWrapper")) is None, "a kind that is not recorded"
