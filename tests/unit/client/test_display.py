"""What notebooks show of a handle, and data frames of many."""

from __future__ import annotations

import asyncio
import sys
from typing import Any

import pytest

from fournos.api.kinds import APPWRAPPER, FOURNOS_CLUSTER
from fournos.client import AsyncClient, Client, FournosError, Handles
from fournos.client.views import View
from fournos.engine.kube.resource import Key, Resource
from fournos.engine.queueing.kinds import LOCAL_QUEUE
from tests.unit.client.kinds import FLUX, POD_MANIFEST, condition, run, status
from tests.unit.client.world import NS, SPEC, Api

BAD = "<script>x</script>\x1b[2J"


async def every_handle(client: AsyncClient, api: Api) -> list[View]:
    """One handle of each kind, with hostile texts where others write them."""
    job = await client.submit(SPEC, name="job")
    api.set("job", "Running", cluster="cluster-1", message=BAD)
    wrapper = await client.submit_appwrapper([POD_MANIFEST])
    status(api, APPWRAPPER, "one", phase="Failed", conditions=[condition("Unhealthy", message=BAD)])
    flux = await client.submit_minicluster(FLUX)
    status(api, flux._resource, "flux", phase="Ready", ready=2, message=BAD)
    made: list[tuple[Resource, str, dict[str, Any]]] = [
        (LOCAL_QUEUE, NS, {"clusterQueue": BAD}),
        (FOURNOS_CLUSTER, "hearth", {"owner": BAD}),
    ]
    for resource, namespace, spec in made:
        api.server.create(resource, {"metadata": {"name": "x", "namespace": namespace}, "spec": spec})
    body = {"status": {"locked": True, "gpuSummary": "2x L40S"}}
    api.server.patch(FOURNOS_CLUSTER, Key("hearth", "x"), body, subresource="status")
    run(api, "run", condition("Succeeded", "False", "Failed", BAD), status="PipelineRunPending")
    for handle in (job, wrapper, flux):
        await handle.refresh()
    others = [
        await client.clusters(),
        await client.queues(),
        await client.objects("PipelineRun"),
    ]
    return [job, wrapper, flux, *(one for found in others for one in found)]


async def test_each_handle_is_shown_and_escaped(
    client: AsyncClient, api: Api, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("HEARTH_NAMESPACE", raising=False)
    handles = await every_handle(client, api)
    assert len({type(one) for one in handles}) == 6
    for one in handles:
        html = one._repr_html_()
        assert "<script>" not in html, one
        assert f"<b>{one.name}</b>" in html and "<td>created</td>" in html
    html = {type(one).__name__: one._repr_html_() for one in handles}
    assert "cluster-1" in html["AsyncJob"] and "a100" in html["AsyncJob"]
    assert "<td>size</td><td>2</td>" in html["AsyncMiniCluster"]
    assert "2x L40S" in html["AsyncCluster"]
    table = Handles(handles)._repr_html_()
    assert table.count("<tr>") == 7
    assert "<script>" not in table


async def test_a_long_list_shows_its_beginning(client: AsyncClient) -> None:
    jobs = await client.submit_matrix(SPEC, {"env.N": [str(number) for number in range(101)]})
    assert "and 1 more" in jobs._repr_html_()
    assert jobs._repr_html_().count("<tr>") == 101


async def test_a_matrix_as_a_data_frame(client: AsyncClient, api: Api) -> None:
    import pandas

    jobs = await client.submit_matrix(SPEC, {"env.N": ["a", "b"], "hardware.gpuCount": [1, 8]})
    times = {"pending": "2030-01-01T00:00:00Z", "running": "2030-01-01T00:01:00Z"}
    for job in jobs:
        api.set(
            job.name,
            "Succeeded",
            cluster="c1",
            phaseTimes={**times, "finished": "2030-01-01T00:03:00Z"},
        )
    await asyncio.gather(*(job.settle() for job in jobs))
    frame = jobs.to_frame("metadata.labels.team", "status.cluster")
    assert list(frame["env.N"]) == ["a", "a", "b", "b"]
    assert list(frame["hardware.gpuCount"]) == [1, 8, 1, 8]
    assert list(frame["status.cluster"]) == ["c1"] * 4
    assert frame["metadata.labels.team"].isna().all()
    assert set(frame["phase"]) == {"Succeeded"}
    assert frame["running_for"].mean() == pandas.Timedelta(minutes=2)
    assert (frame["finished"] - frame["started"] == frame["running_for"]).all()
    assert frame["started"].dt.tz is not None
    assert frame.groupby("gpu_count")["name"].count().to_dict() == {1: 2, 8: 2}
    assert list((await client.jobs()).to_frame()["uid"].sort_values()) == sorted(job.uid for job in jobs)


async def test_every_kind_has_a_data_frame(
    client: AsyncClient, api: Api, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("HEARTH_NAMESPACE", raising=False)
    for one in await every_handle(client, api):
        frame = Handles([one]).to_frame()
        assert frame.loc[0, "name"] == one.name
        assert frame.loc[0, "phase"] == one.phase
        assert len(frame.columns) > 5


def test_the_synchronous_lists_have_it_too(api: Api) -> None:
    with Client(api=api, namespace=NS) as client:
        jobs = client.submit_matrix(SPEC, {"env.N": ["a", "b"]})
        assert list(jobs.to_frame()["env.N"]) == ["a", "b"]
        assert "<table>" in client.jobs()._repr_html_()
        assert "env.N" not in client.jobs().to_frame()


def test_without_pandas_the_fix_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pandas", None)
    with pytest.raises(FournosError, match="pandas is not installed") as refusal:
        Handles().to_frame()
    assert refusal.value.fix == "pip install pandas"
