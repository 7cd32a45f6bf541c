"""Runs compared over the API, on both databases, as the command prints it."""

from __future__ import annotations

from collections.abc import AsyncIterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest

from fournos.client import history_requests
from fournos.client.errors import FournosError, MissingError, NotAllowedError
from fournos.client.history import AsyncHistory
from fournos.engine.kube.auth import FixedIdentity, Proof
from fournos.engine.kube.client import Client
from fournos.engine.kube.credentials import Credentials
from fournos.history.api import comparisons
from fournos.history.api import results as api_values
from fournos.history.artifacts import ArtifactLimits
from fournos.history.blobs import open_blobs
from fournos.history.compare.comparison import KpiVerdict
from fournos.history.compare.formats import FORMATS
from fournos.history.fingerprint import fingerprint
from fournos.history.records import Document, Identity, Record
from fournos.history.results.read import read_file
from fournos.history.store import HistoryStore, results
from fournos.history.store.results import Results
from tests.history import a_run, at, ended, everything
from tests.store.served import served
from tests.unit.history.api.service import Reviews

FILE = """\
tests:
  - labels: {{model: llama, image_tag: v1}}
    kpis: [{{kpi_id: tput, value: {}, unit: tok/s, higher_is_better: true}}]
"""


@dataclass
class Stage:
    store: HistoryStore
    history: AsyncHistory

    async def run(
        self,
        number: int,
        value: float,
        *,
        gpus: int = 1,
        driver: str = "550",
        where: str = "class-a",
        metadata: Any = None,
    ) -> None:
        """A job of this throughput."""
        spec = {"pipeline": "p", "hardware": {"gpuType": "a100", "gpuCount": gpus}}
        what = fingerprint(spec, None, where)
        run = a_run(
            number,
            identity=Identity("here", "perf", f"00000000-0000-0000-0000-{number:012d}"),
            namespace_uid="uid-perf",
            fingerprint=what.id,
            target="cluster-1",
        )
        documents = {
            Document.OBJECT: {"metadata": metadata or {}, "spec": spec},
            Document.PROVENANCE: {"fingerprint": what.as_data(), "engine": {"driver": driver}},
        }
        await self.store.record(Record(ended(run), documents=documents))
        records = read_file(FILE.format(value).encode(), "r.yaml").tests
        assert await Results(self.store).put(run.identity, records, at(number)) is not None


@pytest.fixture
def reviews() -> Reviews:
    found = Reviews()
    for resource in ("runs/results", "runs/documents"):
        found.may("ann", "get", resource=resource)
    return found


@pytest.fixture
async def stage(store: HistoryStore, tmp_path: Path, reviews: Reviews) -> AsyncIterator[Stage]:
    blobs = open_blobs(str(tmp_path / "blobs"))
    async with served(store, blobs, reviews, ArtifactLimits()) as client:
        url = str(client.make_url("")).rstrip("/")
        async with Client(Credentials(url, FixedIdentity(Proof(token="t-ann")))) as connection:
            yield Stage(store, AsyncHistory(connection, "perf"))


async def test_a_drop_beyond_noise_is_worse_and_its_driver_is_shown(stage: Stage) -> None:
    for number in range(12):
        await stage.run(number, 100 + number % 3)
    await stage.run(20, 101)
    await stage.run(21, 70, driver="560")
    found = await stage.history.compare("job-20", "job-21")
    assert found.comparable and found.regressed
    (row,) = found.rows
    assert [cell.verdict for cell in row.cells] == [KpiVerdict.REFERENCE, KpiVerdict.WORSE]
    assert ("engine.driver", ("550", "560")) in [(one.path, one.values) for one in found.differences]
    for form in FORMATS.values():
        assert "tput" in form(found)
    assert not (await stage.history.compare("job-20", "job-11")).regressed


async def test_differences_take_the_right_to_documents(stage: Stage, reviews: Reviews) -> None:
    reviews.rights.discard(("ann", "get", "runs/documents", "perf"))
    for number in range(12):
        await stage.run(number, 100 + number % 3)
    await stage.run(21, 70, driver="560")
    await stage.run(22, 70, gpus=8)
    found = await stage.history.compare("job-1", "job-21")
    assert found.withheld and found.differences == () and found.regressed
    found = await stage.history.compare("job-1", "job-22")
    assert (found.comparable, found.differences) == (False, ()), "arguments and configuration are of the spec"
    for name, form in FORMATS.items():
        assert name == "csv" or "Nothing differs" not in form(found)


async def test_a_run_that_does_not_exist(stage: Stage) -> None:
    await stage.run(1, 100)
    with pytest.raises(MissingError, match="job-9"):
        await stage.history.compare("job-1", "job-9")


async def test_a_trend_tells_of_a_drop_and_of_too_little_history(stage: Stage) -> None:
    for number in range(12):
        await stage.run(number, 100 + number % 3)
    found = await stage.history.trends("job-3")
    assert [len(one.points) for one in found.series] == [12]
    assert not found.regressed and not found.summary
    frame = found.to_frame()
    assert list(frame["job"])[:2] == ["job-0", "job-1"] and set(frame["version"]) == {"image_tag=v1"}
    assert list(frame["value"])[:3] == [100, 101, 102] and set(frame["test.model"]) == {"llama"}
    assert len(found.versions) == 12 and set(found.versions.values()) == {"image_tag=v1"}
    await stage.run(20, 60)
    found = await stage.history.trends("job-3", kpi="tput", runs=50)
    assert found.regressed
    (line,) = found.summary
    assert line.startswith("Regression suspected: tput (model=llama) -4")
    assert (await stage.history.trends("job-3", kpi="other")).series == ()
    await stage.run(30, 10, gpus=8)
    found = await stage.history.trends("job-30")
    assert not found.regressed
    assert [str(one) for one in found.report.short] == ["not judged yet: 0 of 10 runs"]


async def test_of_many_series_the_first_are_judged_and_that_is_said(
    stage: Stage, monkeypatch: pytest.MonkeyPatch
) -> None:
    for module in (comparisons, results):
        monkeypatch.setattr(module, "MAX_SERIES", 1)
    await stage.run(1, 100)
    assert (await stage.history.trends("job-1")).summary == (
        "Only 1 series are judged, the first by their names: name a KPI",
    )


async def test_kpis_as_a_data_frame(stage: Stage, reviews: Reviews) -> None:
    reviews.may("ann", "get")
    reviews.may("ann", "list", resource="results")
    await stage.run(1, 100.5)
    await stage.run(2, 90, gpus=8)
    frame = await stage.history.kpis(by=["hardware.gpuCount"], phase="Succeeded")
    assert list(frame["job"]) == ["job-2", "job-1"]
    assert list(frame["hardware.gpuCount"]) == [8, 1]
    assert list(frame["value"]) == [90, 100.5] and set(frame["unit"]) == {"tok/s"}
    assert set(frame["test.model"]) == {"llama"} and set(frame["kpi"]) == {"tput"}
    assert frame["submitted"].dt.tz is not None
    results = (await stage.history.results("job-2")).to_frame()
    assert [*results["value"], *results["test.image_tag"], *results["success"]] == [90, "v1", True]
    values = [run async for run in stage.history.values(kpis=["tput"], by=["hardware", "params.model"])]
    assert [run.fields["hardware"]["gpuCount"] for run in values] == [8, 1]
    assert values[0].fields["params.model"] is None
    ((test, kpi),) = values[0].values
    assert (kpi.kpi_id, kpi.value, kpi.unit, kpi.higher_is_better) == ("tput", 90, "tok/s", True)
    assert test.all_labels == {"model": "llama", "image_tag": "v1"}
    assert [run.values async for run in stage.history.values(kpis=["other"])] == [(), ()]
    assert (await stage.history.kpis(owner="nobody")).empty


async def test_fields_of_jobs_need_the_right_to_documents(stage: Stage, reviews: Reviews) -> None:
    reviews.may("ann", "list", resource="results")
    reviews.rights.discard(("ann", "get", "runs/documents", "perf"))
    await stage.run(1, 90)
    with pytest.raises(NotAllowedError, match="runs/documents"):
        await stage.history.kpis(by=["hardware"])
    assert list((await stage.history.kpis(limit=1))["value"]) == [90]


async def test_values_are_read_in_pages_and_bounded(
    stage: Stage, reviews: Reviews, monkeypatch: pytest.MonkeyPatch
) -> None:
    reviews.may("ann", "list", resource="results")
    for number in range(5):
        await stage.run(number, number)
    monkeypatch.setattr(history_requests, "_VALUES", 2)
    values = [run.values[0][1].value async for run in stage.history.values(limit=None)]
    assert values == [4, 3, 2, 1, 0], "the newest first"
    assert len([run async for run in stage.history.values(limit=3)]) == 3
    monkeypatch.setattr(api_values, "MOST", 1)
    with pytest.raises(FournosError, match="more than 1 values: name KPIs, or a smaller limit"):
        await stage.history.kpis(limit=2)


async def test_what_an_earlier_attempt_measured_is_no_value_of_the_run(stage: Stage) -> None:
    await stage.run(1, 100)
    (run,) = (await stage.store.find(everything())).runs
    results = Results(stage.store)
    ((identity, (test,)),) = (await results.values_of([run.identity], most=5) or {}).items()
    assert (identity, [kpi.value for kpi in test.kpis]) == (run.identity, [100])
    again = replace(run, attempts=2, running_at=at(500), resource_version=run.resource_version + 1)
    assert await stage.store.record(Record(again))
    assert await results.values_of([run.identity], most=5) == {}
