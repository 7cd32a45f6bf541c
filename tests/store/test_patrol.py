"""What changed in the stored results of all namespaces, on both databases."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from fournos.engine.runtime.metrics import RUNTIME, Metrics
from fournos.history import metrics as table
from fournos.history.records import Document, Record
from fournos.history.regressions.review import CONFIRMING, Acknowledgement
from fournos.history.store import HistoryStore
from fournos.history.store.verdicts import Verdicts, standings, watch_results
from fournos.systems.jobs.names import CONFIRMS_LABEL
from tests.history import NAMESPACE_UID, a_run, at
from tests.store.test_review import findings, history, measured
from tests.waiting import until

SUSPECTED = ("Regression", "Suspected")


async def groups(store: HistoryStore) -> dict[str, list[Any]]:
    found = await standings(store, at(60), cluster="here")
    return {namespace: [one.groups for one in each] for namespace, each in found.items()}


async def test_each_namespace_is_judged_by_its_own_runs(store: HistoryStore) -> None:
    await history(store)
    await measured(store, 20, 60)
    assert await groups(store) == {"bench": [(SUSPECTED,)]}
    assert await standings(store, at(60 + 86400 * 100), cluster="here") == {}, "a benchmark that is over"


async def test_reruns_hold_a_suspicion_until_they_have_ended(store: HistoryStore) -> None:
    await history(store)
    bad = await measured(store, 20, 60)
    rerun = a_run(21, identity=type(bad)("here", "bench", "r1"), labels={CONFIRMS_LABEL: bad.uid})
    await store.record(Record(rerun))
    assert await groups(store) == {"bench": [(("Regression", CONFIRMING),)]}
    for number, uid in ((21, "r1"), (22, "r2")):
        await measured(store, number, 61, uid=uid, labels={CONFIRMS_LABEL: bad.uid}, resource_version=500)
    assert await groups(store) == {"bench": [(("Regression", "Confirmed"),)]}


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


async def test_what_is_acknowledged_is_quiet(store: HistoryStore) -> None:
    await history(store)
    bad = await measured(store, 20, 60)
    (finding,) = await findings(store, bad)
    await Verdicts(store).acknowledge(NAMESPACE_UID, Acknowledgement.of(finding, "meant", "me", at(30)))
    assert await groups(store) == {"bench": [()]}


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
