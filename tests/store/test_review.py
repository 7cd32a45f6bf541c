"""Whether the results of an ended run are worth reruns, on both databases."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from fournos.history.recorder.database import DatabaseArchive
from fournos.history.records import Identity, Record
from fournos.history.regressions.series import Finding
from fournos.history.results.read import read_file
from fournos.history.store import HistoryStore
from fournos.history.store.results import Results
from fournos.history.store.verdicts import Verdicts, review_in_its_namespace, suspects_regression
from fournos.systems.jobs.names import CONFIRMS_LABEL
from tests.history import a_run, at, ended

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


async def test_an_improvement_is_not_run_again(store: HistoryStore) -> None:
    await history(store, better="false")
    assert not await suspects_regression(store, await measured(store, 20, 60, better="false"))
    assert await suspects_regression(store, await measured(store, 21, 160, better="false"))


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
