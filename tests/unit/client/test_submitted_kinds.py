"""Handles of AppWrappers and MiniClusters: submission, components, brokers, scaling, logs."""

from __future__ import annotations

from pathlib import Path

import pytest
import yaml

from fournos.api.kinds import APPWRAPPER, MINICLUSTER
from fournos.client import (
    AsyncClient,
    EndedError,
    FournosError,
    LogLine,
    ManifestError,
    MissingError,
    NoLogError,
    ObjectFailed,
    WaitTimeout,
)
from fournos.engine.kube.resource import POD, Key
from fournos.systems.miniclusters.names import COMPLETION_INDEX_LABEL, MINICLUSTER_LABEL
from tests.unit.client.kinds import FLUX, POD_MANIFEST, condition, settled, started, status
from tests.unit.client.world import NS, Api

# --- AppWrappers -------------------------------------------------------------------------------------


async def test_resources_are_wrapped_and_waited_for(client: AsyncClient, api: Api, tmp_path: Path) -> None:
    wrapper = await client.submit_appwrapper([POD_MANIFEST])
    assert (wrapper.name, wrapper.namespace, wrapper.queue_name, wrapper.phase) == ("one", NS, "team", "New")
    assert wrapper.raw["spec"]["suspend"] is True
    assert wrapper.raw["spec"]["components"][0]["template"]["kind"] == "Pod"
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
    status(api, APPWRAPPER, "whole", phase="Failed", conditions=[unhealthy])
    with pytest.raises(ObjectFailed, match="whole failed: InsufficientPodsReady: 1 of 2 pods") as end:
        await wrapper.wait()
    assert end.value.handle is wrapper
    assert "fournos explain appwrapper/whole" in end.value.fix
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


def broker(api: Api, rank: int, *lines: str) -> None:
    name = f"flux-{rank}"
    labels = {MINICLUSTER_LABEL: "flux", COMPLETION_INDEX_LABEL: str(rank)}
    spec = {"containers": [{"name": "flux"}]}
    api.server.create(
        POD, {"kind": "Pod", "metadata": {"name": name, "namespace": NS, "labels": labels}, "spec": spec}
    )
    status(api, POD, name, containerStatuses=[{"name": "flux", "state": {"running": {}}}])
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
