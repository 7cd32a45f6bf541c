"""The table of kinds, and the settings that choose of it."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml
from pydantic import ValidationError

from fournos.engine.api.conditions import Condition, condition, is_true
from fournos.engine.kube.resource import Resource, owner_reference, uid_of
from fournos.engine.queueing.kinds import WORKLOAD
from fournos.systems.frameworks.kinds import BUILT_IN, Framework, TableError, load
from fournos.systems.frameworks.part import framework_controllers
from fournos.systems.frameworks.queued import queued
from fournos.systems.frameworks.settings import FrameworkSettings
from tests.unit.systems.frameworks.actors import (
    FOO,
    FOO_ROW,
    NS,
    RUN,
    ended,
    flavor,
    foo,
    get,
    pipeline_run,
    submitted,
    tekton_refuses,
)
from tests.unit.systems.frameworks.test_lifecycle import endless, preempting, scenario
from tests.world.harness import DISTURBED, Scenario, run
from tests.world.kueue import Kueue
from tests.world.server import Server
from tests.world.status import set_conditions


def written(tmp_path: Path, *rows: Any) -> str:
    file = tmp_path / "frameworks.yaml"
    file.write_text(yaml.safe_dump({"frameworks": list(rows)}))
    return str(file)


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        (
            "PipelineRun.tekton.dev",
            "'tekton' is not an API version; write the version, as PipelineRun.v1.tekton.dev",
        ),
        ("pipelinerun.v1.tekton.dev", "kinds start with a capital, as Pipelinerun"),
        ("PipelineRun", "'' is not an API version, as PipelineRun.v1.example.com"),
        ("PipelineRun.v1", "'' is not an API group"),
        ("PipelineRun.v1.tekton", "'tekton' is not an API group"),
        ("Pipeline-Run.v1.tekton.dev", "'Pipeline-Run' is not a kind"),
    ],
)
def test_wrong_names_are_refused_with_the_reason_and_the_fix(name: str, expected: str) -> None:
    with pytest.raises(ValidationError, match=r"is not a Kind\.version\.group") as caught:
        Framework.model_validate({**FOO_ROW, "name": name})
    assert expected in str(caught.value)


def test_without_a_file_there_is_pipelinerun() -> None:
    assert load("") == BUILT_IN
    (one,) = FrameworkSettings().frameworks()
    assert (str(one.resource), one.default_requests) == (
        "pipelineruns.tekton.dev",
        {"tekton.dev/pipelineruns": 1},
    )


def test_a_file_adds_and_replaces(tmp_path: Path) -> None:
    own = {
        "name": "PipelineRun.v1beta1.tekton.dev",
        "hold": {"path": "spec.x"},
        "finished": [{"condition": "C"}],
    }
    found = load(written(tmp_path, FOO_ROW, own))
    assert [one.name for one in found] == ["PipelineRun.v1beta1.tekton.dev", "Foo.v1.example.com"]


@pytest.mark.parametrize(
    ("row", "expected"),
    [
        ({}, "frameworks[0].name: Field required"),
        ({**FOO_ROW, "name": "Foo.example.com"}, "frameworks[0].name: 'Foo.example.com' is not a Kind"),
        ({**FOO_ROW, "sort": 1}, "frameworks[0].sort: Extra inputs are not permitted"),
        ({**FOO_ROW, "hold": {"path": "spec..x"}}, "frameworks[0].hold.path: 'spec..x' is not a path"),
        ({**FOO_ROW, "hold": {"path": "spec.x", "onlyAtCreation": True}}, "needs stop"),
        ({**FOO_ROW, "finished": [{}]}, "needs either condition or path"),
        ({**FOO_ROW, "finished": [{"path": "status.x"}]}, "what at status.x means the end?"),
        ({**FOO_ROW, "requests": {"default": {"cpu": "much"}}}, "'much' is not a quantity"),
    ],
)
def test_a_wrong_row_is_reported_with_its_place(tmp_path: Path, row: Any, expected: str) -> None:
    with pytest.raises(TableError) as caught:
        load(written(tmp_path, row))
    assert expected in str(caught.value)


def test_a_kind_stands_in_a_file_once(tmp_path: Path) -> None:
    with pytest.raises(TableError, match="stands there twice"):
        load(written(tmp_path, FOO_ROW, FOO_ROW))


def test_settings_refuse_what_cannot_be_used(tmp_path: Path) -> None:
    with pytest.raises(ValidationError, match="cannot be read"):
        FrameworkSettings(file=str(tmp_path / "none.yaml"))


def with_condition(type_: str, status: str) -> dict[str, Any]:
    return {"conditions": [{"type": type_, "status": status}]}


COMPLETE, FAILED = {"condition": "Complete", "means": "succeeded"}, {"condition": "Failed", "means": "failed"}
PHASE = {"path": "status.phase", "succeeded": ["Done"], "failed": ["Bad"]}


@pytest.mark.parametrize(
    ("rules", "status", "wanted"),
    [
        ([FAILED, COMPLETE], with_condition("Complete", "True"), True),
        ([FAILED, COMPLETE], with_condition("Failed", "True"), False),
        ([FAILED, COMPLETE], with_condition("Failed", "False"), None),
        ([{"condition": "Succeeded"}], with_condition("Succeeded", "False"), False),
        ([{"condition": "Succeeded"}], with_condition("Succeeded", "Unknown"), None),
        ([PHASE], {"phase": "Done"}, True),
        ([PHASE], {"phase": "Bad"}, False),
        ([PHASE], {}, None),
    ],
)
def test_the_end_is_seen(rules: Any, status: Any, wanted: bool | None) -> None:
    kind = Framework.model_validate({**FOO_ROW, "finished": rules})
    found = queued(kind, {**foo(), "status": status}).finished()
    assert (found.succeeded if found else None) == wanted


# --- settings ------------------------------------------------------------------------------------------
# Each variable of the kinds that are queued by configuration has its effect.

PREFIX = "FOURNOS_FRAMEWORKS_"


@pytest.fixture
def file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = tmp_path / "frameworks.yaml"
    file.write_text(yaml.safe_dump({"frameworks": [FOO_ROW]}))
    monkeypatch.setenv(f"{PREFIX}FILE", str(file))


def watched() -> set[str]:
    return {str(controller.watches[0].resource) for controller in framework_controllers(FrameworkSettings())}


@pytest.mark.usefixtures("file")
def test_the_file_adds_a_kind(monkeypatch: pytest.MonkeyPatch) -> None:
    assert watched() == {str(RUN), str(FOO)}
    monkeypatch.setenv(f"{PREFIX}FILE", "")
    assert watched() == {str(RUN)}


# --- managed by others ---------------------------------------------------------------------------------
# Queued objects in company: on other clusters, inside other jobs, beside Kueue's pod integration.

REQUEST = {"tekton.dev/pipelineruns": "1"}
WRAPPER = Resource("workload.codeflare.dev", "v1beta2", "AppWrapper", "appwrappers")


def dispatched(name: str = "far") -> dict[str, Any]:
    one = pipeline_run(name)
    one["spec"]["managedBy"] = "kueue.x-k8s.io/multikueue"
    return one


def comes_back(server: Server) -> None:
    """Mirrors the worker's status, as MultiKueue does."""
    body = Condition("Succeeded", "True", "Done", "over there")
    set_conditions(server, RUN, get(server, "far"), body, startTime="2030-01-01T00:00:00Z")


def mirrors_status(server: Server) -> None:
    """Mirrors the end of the run, as MultiKueue does."""
    (workload,) = server.list(WORKLOAD)
    finished = Condition("Finished", "True", "Succeeded", "over there")
    set_conditions(server, WORKLOAD, workload, finished)


def is_stopped_there(server: Server) -> None:
    stopped = Condition("Succeeded", "False", "Cancelled", "stopped there")
    set_conditions(server, RUN, get(server, "far"), stopped, startTime="2030-01-01T00:00:00Z")


def on_manager(server: Server) -> None:
    submitted(dispatched())(server)


def container() -> dict[str, Any]:
    return {"name": "main", "image": "main", "resources": {"requests": REQUEST}}


def on_worker(server: Server) -> None:
    """MultiKueue makes the Workload, and the copy once it is admitted."""
    server.refusals.append(tekton_refuses)
    flavor(server)
    template = {"spec": {"containers": [container()], "restartPolicy": "Never"}}
    workload = {
        "metadata": {"name": "before", "namespace": NS, "labels": {"kueue.x-k8s.io/multikueue-origin": "m"}},
        "spec": {"queueName": "lq", "podSets": [{"name": "main", "count": 1, "template": template}]},
    }
    server.create(WORKLOAD, workload)
    copy = pipeline_run("copy")
    copy["metadata"]["labels"]["kueue.x-k8s.io/prebuilt-workload-name"] = "before"
    server.create(RUN, copy)


def in_wrapper(*, queued: bool) -> Callable[[Server], None]:
    """A run that an AppWrapper has made; with a queue the wrapper has its Workload."""

    def setup(server: Server) -> None:
        server.refusals.append(tekton_refuses)
        flavor(server)
        wrapper = server.create(WRAPPER, {"metadata": {"name": "aw", "namespace": NS}, "spec": {}})
        owner = owner_reference(WRAPPER, wrapper)
        if queued:
            labels = {"kueue.x-k8s.io/job-uid": uid_of(wrapper)}
            named = {"annotations": {"fournos.dev/component": "tekton.dev/v1/PipelineRun/run"}}
            template = {"metadata": named, "spec": {"containers": [container()]}}
            pod_set = {"name": "aw-0", "count": 1, "template": template}
            meta = {"name": "aw", "namespace": NS, "ownerReferences": [owner], "labels": labels}
            server.create(WORKLOAD, {"metadata": meta, "spec": {"queueName": "lq", "podSets": [pod_set]}})
        one = pipeline_run()
        one["metadata"]["ownerReferences"] = [owner]
        server.create(RUN, one)

    return setup


STORIES: dict[str, Scenario] = {
    "on the manager": scenario(on_manager, script=[comes_back, mirrors_status]),
    "stopped on the worker": scenario(on_manager, script=[is_stopped_there]),
    "evicted on the manager": scenario(
        on_manager, kueue=lambda: Kueue(evict={"far": "Preempted"}, when_ready=False)
    ),
    "on the worker": scenario(on_worker),
    "evicted on the worker": scenario(on_worker, kueue=preempting("copy"), world=endless("copy")),
    "inside a queued AppWrapper": scenario(in_wrapper(queued=True)),
    "inside one without a queue": scenario(in_wrapper(queued=False)),
}


@pytest.mark.parametrize("disturbed", DISTURBED)
@pytest.mark.parametrize("story", STORIES)
async def test_survives(story: str, disturbed: str) -> None:
    assert await DISTURBED[disturbed](STORIES[story]) > 0


async def test_on_the_manager_it_has_its_workload_and_is_left_alone() -> None:
    server = (await run(STORIES["on the manager"])).server
    (workload,) = server.list(WORKLOAD)
    found = condition(workload, "Finished")
    assert found is not None and (found["reason"], found["message"]) == ("Succeeded", "over there")
    assert "finalizers" not in workload["metadata"]
    wanted = dispatched()
    assert get(server, "far")["spec"] == wanted["spec"]
    assert get(server, "far")["metadata"]["annotations"] == wanted["metadata"]["annotations"]


async def test_what_was_stopped_on_a_worker_is_not_over() -> None:
    server = (await run(STORIES["stopped on the worker"])).server
    (workload,) = server.list(WORKLOAD)
    assert is_true(workload, "Admitted") and not is_true(workload, "Finished")


async def test_evicted_on_the_manager_it_gives_its_place_back_and_waits_again() -> None:
    server = (await run(STORIES["evicted on the manager"])).server
    (workload,) = server.list(WORKLOAD)
    assert is_true(workload, "Admitted")  # a second time
    assert (condition(workload, "Requeued") or {})["reason"] == "Preempted"
    assert get(server, "far")["spec"] == dispatched()["spec"]


async def test_on_the_worker_it_takes_the_workload_that_was_made_for_it() -> None:
    server = (await run(STORIES["on the worker"])).server
    (workload,) = server.list(WORKLOAD)
    assert workload["metadata"]["name"] == "before"
    assert workload["metadata"]["ownerReferences"][0]["controller"] is True
    assert ended(server, "copy") == ("True", "Done")
    assert (condition(workload, "Finished") or {})["reason"] == "Succeeded"


async def test_evicted_on_the_worker_it_ends_and_its_workload_goes_back() -> None:
    server = (await run(STORIES["evicted on the worker"])).server
    assert [one["metadata"]["name"] for one in server.list(RUN)] == ["copy"]
    assert ended(server, "copy") == ("False", "Cancelled")
    (workload,) = server.list(WORKLOAD)
    assert (condition(workload, "Evicted") or {})["reason"] == "Preempted"
    assert not is_true(workload, "QuotaReserved") and not is_true(workload, "Finished")
    assert workload["spec"]["active"] is False


async def test_inside_a_queued_job_it_runs_on_its_quota() -> None:
    server = (await run(STORIES["inside a queued AppWrapper"])).server
    assert [one["metadata"]["name"] for one in server.list(WORKLOAD)] == ["aw"]
    assert ended(server) == ("True", "Done")
    alone = (await run(STORIES["inside one without a queue"])).server
    (own,) = alone.list(WORKLOAD)
    assert is_true(own, "Finished") and own["metadata"]["name"].startswith("pipelinerun-run-")
