"""Handles of other kinds than jobs: AppWrappers, MiniClusters, dispatched jobs, queues, configured kinds."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest
import yaml

from fournos.api import appwrapper, minicluster
from fournos.client import (
    AsyncClient,
    ConflictError,
    DeletedError,
    EndedError,
    FournosError,
    LogLine,
    ManifestError,
    MissingError,
    NoLogError,
    NotInstalledError,
    ObjectFailed,
    WaitTimeout,
)
from fournos.client.kinds import APPWRAPPER, MINICLUSTER
from fournos.frameworks.kinds import PIPELINE_RUN as PIPELINE_RUNS
from fournos.jobs.kinds import PIPELINE_RUN
from fournos.kube.kinds import POD
from fournos.kube.resource import Key, Resource
from fournos.miniclusters.names import COMPLETION_INDEX_LABEL, MINICLUSTER_LABEL
from fournos.multikueue.kinds import MULTIKUEUE_CONFIG
from fournos.queueing.kinds import ADMISSION_CHECK, CLUSTER_QUEUE, LOCAL_QUEUE, WORKLOAD
from fournos.queueing.workload import QUEUE_NAME_LABEL
from tests.unit.client.world import NS, Api

POD_MANIFEST: dict[str, Any] = {
    "apiVersion": "v1",
    "kind": "Pod",
    "metadata": {"name": "one", "labels": {QUEUE_NAME_LABEL: "team"}},
    "spec": {"containers": [{"name": "c", "image": "i", "resources": {"requests": {"cpu": "1"}}}]},
}
FLUX: dict[str, Any] = {
    "apiVersion": MINICLUSTER.api_version,
    "kind": "MiniCluster",
    "metadata": {"name": "flux"},
    "spec": {"size": 2, "containers": [{"image": "i", "command": "true"}]},
}


def status(api: Api, resource: Resource, name: str, **fields: Any) -> None:
    api.server.patch(resource, Key(NS, name), {"status": fields}, subresource="status")


def condition(type_: str, status: str = "True", reason: str = "R", message: str = "") -> dict[str, Any]:
    when = "2030-01-01T00:00:00Z"
    return {
        "type": type_,
        "status": status,
        "reason": reason,
        "message": message,
        "lastTransitionTime": when,
    }


async def started(call: Any) -> asyncio.Task[Any]:
    task = asyncio.ensure_future(call)
    await settled()
    assert not task.done(), task
    return task


async def settled() -> None:
    for _ in range(100):
        await asyncio.sleep(0)


def test_the_resource_types_are_those_of_the_definitions() -> None:
    for resource, made in ((APPWRAPPER, appwrapper.DEFINITION), (MINICLUSTER, minicluster.DEFINITION)):
        assert resource == Resource(made.group, made.version, made.kind, made.plural)


# --- AppWrappers -------------------------------------------------------------------------------------


async def test_resources_are_wrapped_and_waited_for(client: AsyncClient, api: Api, tmp_path: Path) -> None:
    wrapper = await client.submit_appwrapper([POD_MANIFEST])
    assert (wrapper.name, wrapper.namespace, wrapper.queue_name, wrapper.phase) == ("one", NS, "team", "New")
    assert wrapper.raw["spec"]["suspend"] is True
    assert wrapper.spec.components[0].template["kind"] == "Pod"
    waiting = await started(wrapper.wait())
    status(api, APPWRAPPER, "one", phase="Running", conditions=[condition("PodsReady", message="1 runs")])
    await settled()
    assert (waiting.done(), wrapper.phase, wrapper.message) == (False, "Running", "1 runs")
    status(api, APPWRAPPER, "one", phase="Succeeded")
    await waiting
    assert wrapper.succeeded and api.open[APPWRAPPER] == 0

    file = tmp_path / "two.yaml"
    file.write_text(yaml.safe_dump({**POD_MANIFEST, "metadata": {"name": "x"}}))
    two = await client.submit_appwrapper(file, name="two", queue="other")
    assert (two.name, two.queue_name) == ("two", "other")
    assert [one.name for one in await client.appwrappers()] == ["one", "two"]
    assert [one.name for one in await client.appwrappers(phase="succeeded")] == ["one"]
    assert (await client.appwrapper("two")).uid == two.uid
    await two.delete()
    with pytest.raises(MissingError) as missing:
        await client.appwrapper("onee")
    assert missing.value.fix == "did you mean one?"


async def test_an_appwrapper_that_fails_says_why(client: AsyncClient, api: Api) -> None:
    ready = {**POD_MANIFEST, "metadata": {"name": "one"}}
    own = await client.submit_appwrapper([ready], name="aw")
    again = {field: own.raw[field] for field in ("apiVersion", "kind", "spec")}
    wrapper = await client.submit_appwrapper({**again, "metadata": {"name": "whole"}})
    unhealthy = condition("Unhealthy", reason="InsufficientPodsReady", message="1 of 2 pods")
    status(api, APPWRAPPER, "whole", phase="Failed", resettingCount=3, conditions=[unhealthy])
    with pytest.raises(ObjectFailed, match="whole failed: InsufficientPodsReady: 1 of 2 pods") as end:
        await wrapper.wait()
    assert (end.value.handle, wrapper.resets) == (wrapper, 3)
    assert "fournos appwrapper explain whole" in end.value.fix
    await wrapper.settle()
    assert (await wrapper.explain()).verdict.startswith("whole")
    for resources, options, text in (
        ([], {}, "no resource to wrap"),
        ([{**ready, "metadata": {}}], {}, "no name to take"),
        ({**again, "metadata": {"name": "x"}}, {"name": "y"}, "its own name"),
        ([{**ready, "spec": {"suspend": True}}], {}, "suspend"),
        ({**again, "metadata": {"name": "x"}, "spec": {"components": 1}}, {}, "would be refused"),
    ):
        with pytest.raises(ManifestError, match=text):
            await client.submit_appwrapper(resources, **options)  # type: ignore[arg-type]


async def test_the_components_of_an_appwrapper(client: AsyncClient, api: Api) -> None:
    wrapper = await client.submit_appwrapper(
        [{**POD_MANIFEST, "metadata": {"generateName": "p-"}}], name="aw"
    )
    assert [(one.kind, one.name, one.state) for one in await wrapper.components()] == [
        ("Pod", "(generated)", "not made")
    ]
    owner = {"kind": "AppWrapper", "name": "aw", "uid": wrapper.uid, "controller": True}
    meta = {"name": "p-1", "namespace": NS, "ownerReferences": [owner]}
    labels = {"workload.codeflare.dev/appwrapper": "aw"}
    notes = {"workload.codeflare.dev.appwrapper/component": "0"}
    api.server.create(POD, {"kind": "Pod", "metadata": {**meta, "labels": labels, "annotations": notes}})
    status(api, POD, "p-1", phase="Running", conditions=[condition("Ready")])
    made = {"name": "p-1", "podSets": [], "conditions": [condition("ResourcesDeployed")]}
    status(api, APPWRAPPER, "aw", phase="Running", componentStatus=[made])
    (component,) = await wrapper.components()
    assert (component.name, component.state, component.pods and component.pods.running) == ("p-1", "there", 1)
    api.server.delete(POD, Key(NS, "p-1"))
    assert [(one.state, one.pods) for one in await wrapper.components()] == [("gone", None)]


# --- what all handles share ----------------------------------------------------------------------------


async def test_a_phase_and_a_condition_are_waited_for(client: AsyncClient, api: Api) -> None:
    wrapper = await client.submit_appwrapper([POD_MANIFEST])
    waits = [
        await started(wrapper.wait(until))
        for until in ("Running", "condition=PodsReady", "condition=Unhealthy=False")
    ]
    status(api, APPWRAPPER, "one", phase="Running")
    await settled()
    assert [task.done() for task in waits] == [True, False, False]
    found = [condition("PodsReady"), condition("Unhealthy", "False")]
    status(api, APPWRAPPER, "one", phase="Running", conditions=found)
    await asyncio.gather(*waits)
    with pytest.raises(WaitTimeout, match=r"one has not reached condition=X within 0\.01 s: it is Running"):
        await wrapper.wait("condition=X", timeout=0.01)
    status(api, APPWRAPPER, "one", phase="Succeeded")
    with pytest.raises(EndedError, match="one has ended without condition=X"):
        await wrapper.wait("condition=X")
    with pytest.raises(FournosError, match="Runing is no phase") as refusal:
        await wrapper.wait("Runing")
    assert "Running" in refusal.value.fix
    assert +api.open == {}


async def test_events_of_any_handle(client: AsyncClient, api: Api) -> None:
    wrapper = await client.submit_appwrapper([POD_MANIFEST])
    events: list[tuple[str | None, str]] = []

    async def watch() -> None:
        async for event in wrapper.watch():
            events.append((event.before, event.phase))

    task = await started(watch())
    for phase in ("Suspended", "Suspended", "Running", "Failed"):
        status(api, APPWRAPPER, "one", phase=phase)
        await settled()
    await task
    assert events == [(None, "New"), ("New", "Suspended"), ("Suspended", "Running"), ("Running", "Failed")]


async def test_a_handle_of_any_kind_keeps_to_its_uid(client: AsyncClient, api: Api) -> None:
    flux = await client.submit_minicluster(FLUX)
    waiting = await started(flux.wait())
    api.server.delete(MINICLUSTER, Key(NS, "flux"))
    other = await client.submit_minicluster(FLUX)
    with pytest.raises(DeletedError, match=r"MiniCluster flux \(uid-1\) was deleted") as gone:
        await waiting
    assert "miniclusters()" in gone.value.fix
    for call in (flux.refresh(), flux.delete(), flux.scale(1), flux.wait()):
        with pytest.raises(DeletedError):
            await call
    flux.refresh = _nothing  # type: ignore[method-assign]
    with pytest.raises(ConflictError):  # the server refuses the write where the handle has not seen the other
        await flux.scale(7, timeout=0)
    await other.refresh()
    assert other.size == 2


async def _nothing() -> None: ...


async def test_a_hundred_handles_cost_one_watch(client: AsyncClient, api: Api) -> None:
    handles = [
        await client.submit_minicluster({**FLUX, "metadata": {"name": f"m-{number}"}})
        for number in range(100)
    ]
    waits = [asyncio.ensure_future(one.settle()) for one in handles]
    await settled()
    assert (api.open[MINICLUSTER], api.calls["watch"]) == (1, 1)
    for one in handles:
        status(api, MINICLUSTER, one.name, phase="Finished", exitCode=0)
    await asyncio.gather(*waits)


async def test_a_kind_that_is_not_served(client: AsyncClient, api: Api) -> None:
    api.server.unserved |= {MINICLUSTER, APPWRAPPER, WORKLOAD}
    for call in (client.miniclusters(), client.appwrapper("x"), client.submit_minicluster(FLUX)):
        with pytest.raises(NotInstalledError) as refusal:
            await call
        assert refusal.value.fix


# --- MiniClusters --------------------------------------------------------------------------------------


async def test_a_minicluster_from_its_submission_to_its_end(client: AsyncClient, api: Api) -> None:
    flux = await client.submit_minicluster(FLUX)
    assert (flux.phase, flux.size, flux.ready, flux.exit_code, flux.ended) == ("Waiting", 2, 0, None, False)
    ready = await started(flux.wait("Ready"))
    status(api, MINICLUSTER, "flux", phase="Ready", ready=2, maximumSize=2)
    await ready
    status(api, MINICLUSTER, "flux", phase="Finished", exitCode=3, message="the command failed")
    with pytest.raises(ObjectFailed, match="flux failed: the command failed"):
        await flux.wait()
    assert [one.exit_code for one in await client.miniclusters(phase="finished")] == [3]
    status(api, MINICLUSTER, "flux", phase="Finished", exitCode=0)
    await (await client.minicluster("flux")).wait()
    for wrong, text in (
        ({**FLUX, "kind": "Pod"}, "holds Pod"),
        ({**FLUX, "metadata": {}}, "write a name"),
        ({**FLUX, "spec": {**FLUX["spec"], "size": 0}}, "would be refused"),
    ):
        with pytest.raises(ManifestError, match=text):
            await client.submit_minicluster(wrong)


async def test_scaling_waits_for_the_brokers(client: AsyncClient, api: Api) -> None:
    flux = await client.submit_minicluster({**FLUX, "spec": {**FLUX["spec"], "maxSize": 4}})
    status(api, MINICLUSTER, "flux", phase="Ready", ready=2, maximumSize=4)
    scaling = await started(flux.scale(3))
    assert api.server.get(MINICLUSTER, Key(NS, "flux"))["spec"]["size"] == 3
    status(api, MINICLUSTER, "flux", phase="Ready", ready=3)
    await scaling
    await flux.scale(2, timeout=0)
    with pytest.raises(WaitTimeout, match="not all of 4 brokers are up"):
        await flux.scale(4, timeout=0.01)
    with pytest.raises(FournosError, match="began with 4 hosts"):
        await flux.scale(5)
    with pytest.raises(FournosError, match="0 pods"):
        await flux.scale(0)
    status(api, MINICLUSTER, "flux", phase="Finished")
    with pytest.raises(EndedError, match="flux has finished"):
        await flux.scale(1)


def broker(api: Api, rank: int, *lines: str, state: str = "running") -> None:
    name = f"flux-{rank}"
    labels = {MINICLUSTER_LABEL: "flux", COMPLETION_INDEX_LABEL: str(rank)}
    spec = {"containers": [{"name": "flux"}]}
    api.server.create(
        POD, {"kind": "Pod", "metadata": {"name": name, "namespace": NS, "labels": labels}, "spec": spec}
    )
    status(api, POD, name, containerStatuses=[{"name": "flux", "state": {state: {}}}])
    api.server.logs[Key(NS, name)] = list(lines)


async def test_logs_of_a_broker_wait_for_its_pod(client: AsyncClient, api: Api) -> None:
    flux = await client.submit_minicluster(FLUX)
    with pytest.raises(NoLogError, match="flux has no pod of rank 0: it is Waiting"):
        [line async for line in flux.logs()]
    lines: list[LogLine] = []

    async def follow() -> None:
        lines.extend([line async for line in flux.logs(follow=True, rank=1)])

    following = await started(follow())
    broker(api, 0, "lead")
    broker(api, 1, "a", "b")
    status(api, MINICLUSTER, "flux", phase="Running")
    await following
    assert [(line.source, line.text) for line in lines] == [("rank 1", "a"), ("rank 1", "b")]
    assert [line.text async for line in flux.logs(tail=1)] == ["lead"]
    status(api, MINICLUSTER, "flux", phase="Finished")
    with pytest.raises(NoLogError, match="no pod of rank 7"):
        [line async for line in flux.logs(follow=True, rank=7)]
    del api.server.logs[Key(NS, "flux-0")]
    assert [line.notice async for line in flux.logs()] == [True]  # its pod is gone
    assert +api.open == {}


# --- dispatched jobs, queues ---------------------------------------------------------------------------


def dispatched(api: Api) -> None:
    parameters = {"name": "config"}
    check = {"controllerName": "kueue.x-k8s.io/multikueue", "parameters": parameters}
    api.server.create(ADMISSION_CHECK, {"metadata": {"name": "mk"}, "spec": check})
    api.server.create(MULTIKUEUE_CONFIG, {"metadata": {"name": "config"}, "spec": {"clusters": ["w1", "w2"]}})
    owner = {"kind": "PipelineRun", "name": "run", "uid": "r", "controller": True}
    meta = {"name": "pipelinerun-run", "namespace": NS, "ownerReferences": [owner]}
    api.server.create(WORKLOAD, {"metadata": meta, "spec": {"queueName": "team"}})
    api.server.create(WORKLOAD, {"metadata": {"name": "here", "namespace": NS}, "spec": {}})
    at(api)


def at(api: Api, state: str = "Pending", message: str = "", **fields: Any) -> None:
    entry = {"name": "mk", "state": state, "message": message}
    status(api, WORKLOAD, "pipelinerun-run", admissionChecks=[entry], **fields)


async def test_where_a_dispatched_job_runs(client: AsyncClient, api: Api) -> None:
    dispatched(api)
    assert [one.job for one in await client.dispatched()] == ["PipelineRun/run"]
    where = await client.dispatch("run")
    assert (where.phase, where.worker, where.remote_name, where.adapter) == ("Queued", None, None, "Kueue's")
    running = await started(where.wait("Running"))
    quota = condition("QuotaReserved")
    at(api, nominatedClusterNames=["w1", "w2"], conditions=[quota])
    await settled()
    assert (where.phase, running.done()) == ("Pending", False)
    at(api, "Ready", "on w2", nominatedClusterNames=None, clusterName="w2", conditions=[quota])
    await running
    assert (where.worker, where.remote_name, where.message) == ("w2", f"{NS}/run", "on w2")
    told = await where.explain()
    assert told.verdict == "PipelineRun/run is Running."
    assert "Worker: w2" in told.because
    end = condition("Finished", reason="Failed", message="exit 1")
    at(api, "Ready", clusterName="w2", conditions=[quota, end])
    with pytest.raises(ObjectFailed, match="exit 1"):
        await where.wait()
    with pytest.raises(MissingError, match="no queued job nobody"):
        await client.dispatch("nobody")
    with pytest.raises(FournosError, match="does not go to a worker"):
        await client.dispatch("here")


async def test_queues_and_what_waits_in_them(client: AsyncClient, api: Api) -> None:
    meta = {"name": "team", "namespace": NS}
    api.server.create(LOCAL_QUEUE, {"metadata": meta, "spec": {"clusterQueue": "cq"}})
    status(
        api, LOCAL_QUEUE, "team", pendingWorkloads=1, admittedWorkloads=2, conditions=[condition("Active")]
    )
    api.server.create(CLUSTER_QUEUE, {"metadata": {"name": "cq"}, "spec": {}})
    path = "clusterqueues/cq/pendingworkloads"
    visibility = ("visibility.kueue.x-k8s.io", "v1beta2", "PendingWorkload", path)
    api.server.unserved.add(Resource(*visibility, namespaced=False))
    dispatched(api)
    (queue,) = await client.queues()
    assert (queue.name, queue.cluster_queue, queue.pending, queue.admitted) == ("team", "cq", 1, 2)
    assert queue.phase == "Active"
    (entry,) = await queue.waiting()
    assert (entry.place, entry.kind, entry.name) == (1, "PipelineRun", "run")
    with pytest.raises(FournosError, match="a queue has no end to wait for"):
        await queue.wait()
    await queue.wait("condition=Active", timeout=1)


# --- any configured kind -------------------------------------------------------------------------------


def run(api: Api, name: str, *conditions: Any, **spec: Any) -> None:
    meta = {"name": name, "namespace": NS, "labels": {QUEUE_NAME_LABEL: "team"}}
    api.server.create(PIPELINE_RUN, {"metadata": meta, "spec": spec})
    status(api, PIPELINE_RUN, name, conditions=list(conditions))


async def test_an_object_of_a_configured_kind(client: AsyncClient, api: Api) -> None:
    run(api, "one", status="PipelineRunPending")
    for kind in ("PipelineRun", "pipelineruns.tekton.dev", PIPELINE_RUNS.name):
        assert [found.name for found in await client.objects(kind)] == ["one"]
    one = await client.object("pipelinerun", "one")
    assert (one.kind, one.phase, one.queue_name, repr(one)) == (
        "PipelineRun",
        "Waiting",
        "team",
        "<AsyncObject bench/one Waiting>",
    )
    assert (await one.explain()).verdict.startswith("one ")
    waiting = await started(one.wait())
    status(api, PIPELINE_RUN, "one", conditions=[condition("Succeeded", "False", "Failed", "a task failed")])
    with pytest.raises(ObjectFailed, match="one failed: a task failed"):
        await waiting
    await one.refresh()
    assert (one.phase, one.kind) == ("Failed", "PipelineRun")
    await one.delete()
    with pytest.raises(DeletedError, match="PipelineRun one"):
        await one.refresh()
    with pytest.raises(FournosError, match="widget") as refusal:
        await client.object("widget", "one")
    assert "known: " in refusal.value.fix


async def test_an_object_of_any_other_kind(
    client: AsyncClient, api: Api, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    widget = Resource("example.com", "v1", "Widget", "widgets")
    api.server.create(widget, {"metadata": {"name": "w", "namespace": NS}, "spec": {}})
    found = await client.object("Widget.v1.example.com", "w")
    waiting = await started(found.wait("condition=Ready"))
    status(api, widget, "w", phase="Fine", conditions=[condition("Ready")])
    await waiting
    assert (found.phase, found.ended) == ("Fine", False)
    with pytest.raises(FournosError, match="a Widget has no end to wait for"):
        await found.wait()
    with pytest.raises(FournosError, match="Widget is no kind that is queued") as refusal:
        await found.explain()
    assert "FOURNOS_FRAMEWORKS_FILE" in refusal.value.fix
    table = tmp_path / "kinds.yaml"
    row = {
        "name": "Widget.v1.example.com",
        "hold": {"path": "spec.suspend"},
        "finished": [{"path": "status.phase", "succeeded": ["Fine"]}],
    }
    table.write_text(yaml.safe_dump({"frameworks": [row]}))
    monkeypatch.setenv("FOURNOS_FRAMEWORKS_FILE", str(table))
    await (await client.object("widget", "w")).wait()
    table.write_text("frameworks: 1")
    with pytest.raises(FournosError, match="no list of frameworks"):
        await client.objects("widget")
