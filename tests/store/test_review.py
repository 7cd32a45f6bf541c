"""The results of runs judged by earlier ones, and the regular look at all of them."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any

import pytest

from fournos.engine.runtime.metrics import RUNTIME, Metrics
from fournos.history import metrics as table
from fournos.history.recorder.database import DatabaseArchive
from fournos.history.records import Document, Identity, Record
from fournos.history.regressions.series import Finding
from fournos.history.results.read import read_file
from fournos.history.store import HistoryStore
from fournos.history.store.results import Results
from fournos.history.store.verdicts import (
    Verdicts,
    review_in_its_namespace,
    standings,
    suspects_regression,
    watch_results,
)
from fournos.systems.jobs.names import CONFIRMS_LABEL
from tests.history import a_run, at, ended
from tests.waiting import until

FILE = "tests: [{{labels: {{m: x}}, kpis: [{{kpi_id: t, value: {}, unit: s, higher_is_better: {}}}]}}]"


async def measured(
    store: HistoryStore, number: int, value: float | None, *, better: str = "true", **fields: Any
) -> Identity:
    """A run that has ended, with this value if any."""
    uid = fields.pop("uid", f"uid-{number}")
    found = {"identity": Identity("here", "bench", uid), "fingerprint": "f", "labels": {}, **fields}
    run = ended(a_run(number, **found), **({"phase": fields["phase"]} if "phase" in fields else {}))
    await store.record(Record(run))
    if value is not None:
        records = read_file(FILE.format(value, better).encode(), "r.yaml").tests
        await Results(store).put(run.identity, records, at(number))
    return run.identity


async def findings(store: HistoryStore, identity: Identity) -> Sequence[Finding]:
    """Those of the series of a run."""
    run = await store.get(identity)
    assert run is not None
    return (await review_in_its_namespace(store, run)).report.findings


async def history(store: HistoryStore, **fields: Any) -> None:
    for number in range(12):
        await measured(store, number, 100 + number % 3, **fields)


async def test_a_drop_is_suspected_and_noise_is_not(store: HistoryStore) -> None:
    await history(store)
    assert not await suspects_regression(store, await measured(store, 20, 101))
    assert await suspects_regression(store, await measured(store, 21, 60))


async def test_what_is_not_compared(store: HistoryStore) -> None:
    await history(store)
    other = await measured(store, 30, 60, namespace_uid="another")
    assert not await suspects_regression(store, other), "another namespace has a history of its own"
    rerun = await measured(store, 31, 60, labels={CONFIRMS_LABEL: "uid-1"})
    assert not await suspects_regression(store, rerun)
    assert not await suspects_regression(store, await measured(store, 32, 60, phase="Failed"))
    assert not await suspects_regression(store, await measured(store, 33, None)), "it has no results"
    assert not await suspects_regression(store, await measured(store, 34, 60, fingerprint=""))
    assert not await suspects_regression(store, Identity("here", "bench", "unknown"))


async def test_the_pinned_baseline_counts(store: HistoryStore) -> None:
    first = await measured(store, 0, 130)
    assert await Verdicts(store).pin(first, by="me", reason="good", now=at(1))
    for number in range(1, 14):
        found = await measured(store, number, 100 + number % 3)
    assert not await suspects_regression(store, found), "a slow change begins with an earlier run"


async def test_the_recorders_archive_compares(url: str) -> None:
    archive = DatabaseArchive(url)
    try:
        assert not await archive.suspected(Identity("here", "bench", "unknown"))
    finally:
        await archive.close()


SUSPECTED = ("Regression", "Suspected")


async def groups(store: HistoryStore) -> dict[str, list[Any]]:
    found = await standings(store, at(60), cluster="here")
    return {namespace: [one.groups for one in each] for namespace, each in found.items()}


async def test_each_namespace_is_judged_by_its_own_runs(store: HistoryStore) -> None:
    await history(store)
    await measured(store, 20, 60)
    assert await groups(store) == {"bench": [(SUSPECTED,)]}
    assert await standings(store, at(60 + 86400 * 100), cluster="here") == {}, "a benchmark that is over"


@pytest.mark.parametrize(("image", "state"), [("sha256:aaaa", "Confirmed"), ("sha256:bbbb", "Suspected")])
async def test_a_rerun_with_another_image_confirms_nothing(
    store: HistoryStore, image: str, state: str
) -> None:
    await history(store)
    bad = await measured(store, 20, 60)
    reruns = [
        await measured(store, number, 61, uid=uid, labels={CONFIRMS_LABEL: bad.uid})
        for number, uid in ((21, "r1"), (22, "r2"), (23, "r3"))
    ]
    for run, found in ((bad, "sha256:aaaa"), *((one, image) for one in reruns)):
        row = await store.get(run)
        assert row is not None
        provenance = {"images": {"run/main": {"imageID": f"registry.test/bench@{found}"}}}
        await store.record(Record(row, documents={Document.PROVENANCE: provenance}))
    assert await groups(store) == {"bench": [(("Regression", state),)]}
    (finding,) = await findings(store, bad)
    assert ("run/main aaaa -> bbbb" in finding.uncounted) is (state == "Suspected")


async def test_the_metrics_are_set_by_the_leader(store: HistoryStore) -> None:
    await history(store)
    await measured(store, 20, 60)
    metrics, clock = Metrics((*RUNTIME, *table.METRICS)), type("Clock", (), {"now": lambda self: at(60)})()
    opened: asyncio.Future[HistoryStore] = asyncio.get_running_loop().create_future()

    async def leader() -> HistoryStore:
        return await opened

    task = asyncio.create_task(watch_results(leader, metrics, clock, cluster=lambda: "here", interval=0.01))
    await asyncio.sleep(0)
    assert b"fournos_history_changes{" not in metrics.render(), "a standby judges nothing"
    opened.set_result(store)
    await until(lambda: b"fournos_history_changes{" in metrics.render(), "no metrics")
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)
    assert metrics.value("fournos_history_changes", "bench", *SUSPECTED) == 1
