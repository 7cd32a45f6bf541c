"""Handles of other kinds than jobs: what all of them share, configured kinds, any other kind."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest
import yaml

from fournos.api.kinds import APPWRAPPER, MINICLUSTER, PIPELINE_RUN
from fournos.client import (
    AsyncClient,
    ConflictError,
    DeletedError,
    EndedError,
    FournosError,
    NotInstalledError,
    ObjectFailed,
    WaitTimeout,
)
from fournos.engine.kube.resource import Key, Resource
from fournos.engine.queueing.kinds import WORKLOAD
from fournos.systems.frameworks.kinds import PIPELINE_RUN as PIPELINE_RUNS
from tests.unit.client.kinds import FLUX, POD_MANIFEST, condition, run, settled, started, status
from tests.unit.client.world import NS, Api


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
    with pytest.raises(FournosError, match="Runing is not a phase") as refusal:
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


async def test_a_kind_that_is_not_served(client: AsyncClient, api: Api) -> None:
    api.server.unserved |= {MINICLUSTER, APPWRAPPER, WORKLOAD}
    for call in (client.miniclusters(), client.appwrapper("x"), client.submit_minicluster(FLUX)):
        with pytest.raises(NotInstalledError) as refusal:
            await call
        assert refusal.value.fix


# --- any configured kind -------------------------------------------------------------------------------


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
    with pytest.raises(FournosError, match="Widget is not a kind that is queued") as refusal:
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
