"""One object that nothing can be done with takes no other with it: each loop over many, in both databases."""

from __future__ import annotations

import sys
from collections.abc import Awaitable, Callable, Sequence
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import select, update

from fournos.client.history import AsyncHistory
from fournos.engine.runtime.metrics import RUNTIME, Metrics
from fournos.history import metrics as table
from fournos.history.alerts.announce import Announcer
from fournos.history.blobs import Blobs, BlobsUnavailableError, open_blobs
from fournos.history.metrics import SKIPPED
from fournos.history.records import ALL_RUNS, Document, Identity, Record
from fournos.history.regressions.benchmark import BenchmarkState
from fournos.history.regressions.series import Kind
from fournos.history.results.read import read_value
from fournos.history.store import HistoryStore, results
from fournos.history.store.blobs import LogRows
from fournos.history.store.results import Results
from fournos.history.store.retention import erase
from fournos.history.store.schema import blobs, documents, kpi_values, runs, tests
from fournos.history.store.verdicts import OF_EACH, Verdicts, review_in_its_namespace, standings
from tests.history import a_run, at
from tests.store.test_announcements import Clock, Receiver, none
from tests.store.test_benchmarks import EVER, history, reviews
from tests.store.test_review import measured
from tests.unit.history.api.service import Reviews

__all__ = ("history", "reviews")
GOOD, BAD = "bench", "other"


async def benchmark(store: HistoryStore, namespace: str, base: int) -> Identity:
    """Runs whose value falls; returns the newest."""
    for number in range(26):
        value = 60 + number % 3 if number >= 20 else 100 + number % 3
        identity = await measured(
            store,
            base + number,
            value,
            identity=Identity("here", namespace, f"uid-{base + number}"),
            namespace_uid=f"uid-{namespace}",
        )
    return identity


def of(uid: str) -> Any:
    return select(runs.c.id).where(runs.c.uid == uid).scalar_subquery()


async def poison_values(store: HistoryStore) -> None:
    """As numbers were that an earlier version accepted."""
    bad = select(tests.c.id).join(runs).where(runs.c.namespace == BAD)
    huge = update(kpi_values).where(kpi_values.c.test_id.in_(bad)).values(value=sys.float_info.max)
    await store.execute(huge.where(kpi_values.c.test_id % 2 == 0))


async def poison_provenance(store: HistoryStore) -> None:
    stored = await store.get(Identity("here", BAD, "uid-120"))
    assert stored is not None
    await store.record(Record(stored, documents={Document.PROVENANCE: {"images": {}}}))
    broken = update(documents).where(documents.c.run_id == of("uid-120")).values(data=b"no zlib")
    await store.execute(broken)


@pytest.mark.parametrize("poison", [poison_values, poison_provenance])
async def test_others_are_judged_and_announced(
    store: HistoryStore, poison: Callable[[HistoryStore], Awaitable[None]]
) -> None:
    await benchmark(store, BAD, 100)
    await benchmark(store, GOOD, 0)
    await poison(store)
    metrics, receiver = Metrics((*RUNTIME, *table.METRICS)), Receiver()
    announcer = Announcer(Clock(200), none(), receiver)

    def skipped(task: str) -> None:
        metrics.add(SKIPPED, task)

    found = await standings(store, at(200), announcer, cluster="here", skipped=skipped)
    await announcer.announce(store, skipped)
    assert found[GOOD][0].groups == (("Regression", "Confirmed"),)
    assert [sent["fournos"]["run"]["namespace"] for sent in receiver.bodies] == [GOOD]
    task = "judge" if poison is poison_values else "announce"
    assert metrics.value(SKIPPED.name, task) == 1


async def test_a_list_of_benchmarks_says_which_one_cannot_be_judged(
    store: HistoryStore, history: AsyncHistory, reviews: Reviews
) -> None:
    reviews.namespaces |= {name: f"uid-{name}" for name in (GOOD, BAD)}
    reviews.may("ann", "list", namespace=BAD, resource="benchmarks")
    await benchmark(store, GOOD, 0)
    await benchmark(store, BAD, 100)
    await poison_values(store)
    good, bad = await history.benchmarks(everywhere=True, days=EVER)
    assert good.state is BenchmarkState.REGRESSION
    assert (bad.state, bad.kpis) == (BenchmarkState.NOT_JUDGED, ())
    assert "cannot be judged" in bad.silence


async def test_a_test_that_cannot_be_read_takes_no_other_with_it(store: HistoryStore) -> None:
    first, second = [await measured(store, number, 100.0) for number in (1, 2)]
    broken = update(tests).where(tests.c.run_id == of("uid-1")).values(document=b"no zlib")
    await store.execute(broken)
    results = Results(store)
    found = await results.values_of([first, second], most=100)
    assert found is not None and set(found) == {second}
    assert await results.of(first) == ()


class Stuck(Blobs):
    """Cannot delete one key."""

    def __init__(self, other: Blobs, key: str) -> None:
        super().__init__("x", other._store)
        self.stuck = key

    async def delete(self, keys: Sequence[str]) -> None:
        if self.stuck in keys:
            raise BlobsUnavailableError("not this one")
        await super().delete(keys)


async def test_a_blob_that_cannot_be_deleted_holds_up_no_other(store: HistoryStore, tmp_path: Path) -> None:
    files = open_blobs(str(tmp_path / "blobs"))
    identities = []
    for number in range(3):
        run = a_run(number)
        await store.record(Record(run))
        await LogRows(store).claim_blob(run.identity, f"key-{number}", 1)
        await files.write(f"key-{number}", b"x")
        identities.append(run.identity)
    await erase(store, Stuck(files, "key-0"), identities, at(9))
    assert [row.key for row in await store.rows(select(blobs.c.key))] == ["key-0"]
    assert await files.read("key-2") is None
    await erase(store, files, [], at(9))
    assert await store.rows(select(blobs.c.key)) == []


async def test_more_names_than_a_statement_takes(store: HistoryStore) -> None:
    await store.record(Record(a_run(1)))
    many = [f"c/n/uid-{number}" for number in range(70_000)]
    assert list((await Results(store).names(many)).values()) == ["job-1"]
    assert await store.documents(map(Identity.of, many), Document.OBJECT) == {}  # type: ignore[arg-type]
    assert await Verdicts(store).acknowledged("f", ALL_RUNS) == []


async def test_numbers_that_no_column_has(store: HistoryStore) -> None:
    run = a_run(1, gpu_count=2**80, attempts=-(2**70))
    assert await store.record(Record(run))
    stored = await store.get(run.identity)
    assert stored is not None and (stored.gpu_count, stored.attempts) == (2**31 - 1, 1 - 2**31)


# --- other people's namespaces ------------------------------------------------------------------------


async def test_a_stranger_does_not_turn_a_regression_round(store: HistoryStore) -> None:
    newest = await store.get(await benchmark(store, GOOD, 0))
    assert newest is not None
    await measured(
        store, 900, 1.0, better="false", identity=Identity("here", BAD, "x"), namespace_uid=f"uid-{BAD}"
    )
    report = (await review_in_its_namespace(store, newest)).report
    assert [finding.kind for finding in report.findings] == [Kind.REGRESSION]


async def test_many_benchmarks_of_one_namespace_crowd_no_other_out(store: HistoryStore) -> None:
    await benchmark(store, GOOD, 0)
    for number in range(OF_EACH + 5):
        await measured(
            store,
            1000 + number,
            1.0,
            identity=Identity("here", BAD, f"x-{number}"),
            namespace_uid=f"uid-{BAD}",
            fingerprint=f"f-{number}",
        )
    found = await standings(store, at(2000), cluster="here")
    assert {namespace: len(each) for namespace, each in found.items()} == {GOOD: 1, BAD: OF_EACH}


async def test_many_kpis_of_a_stranger_crowd_no_other_out(
    store: HistoryStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    newest = await store.get(await benchmark(store, GOOD, 0))
    assert newest is not None
    stranger = Identity("here", BAD, "x")
    await measured(store, 900, None, identity=stranger, namespace_uid=f"uid-{BAD}")
    kpis = [{"kpi_id": f"a{number}", "value": 1} for number in range(5)]
    await Results(store).put(stranger, read_value({"kpis": kpis}).tests, at(900))
    monkeypatch.setattr(results, "MAX_SERIES", 5)
    report = (await review_in_its_namespace(store, newest)).report
    assert [finding.kind for finding in report.findings] == [Kind.REGRESSION]


async def test_no_result_is_of_the_future(store: HistoryStore) -> None:
    identity = await measured(store, 1, 1.0)
    stored = (await Results(store).of(identity))[0]
    late = stored.model_copy(update={"timestamp": at(0) + timedelta(days=3650), "run_id": "late"})
    await Results(store).put(identity, [late], at(5))
    times = await store.rows(select(tests.c.at, kpi_values.c.at).join(kpi_values))
    assert max(time for row in times for time in row) == at(5)
