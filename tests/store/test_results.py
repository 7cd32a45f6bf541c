"""Results in the store: by run and by series, and what people decided on them."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from typing import Any

from sqlalchemy import select, text

from fournos.history.records import ALL_RUNS, NO_RUNS, Record, Run, Scope
from fournos.history.results.models import Kpi, Received, Test
from fournos.history.store import HistoryStore
from fournos.history.store.results import Results
from fournos.history.store.schema import kpi_values
from fournos.history.store.verdicts import Verdicts
from tests.history import CLUSTER, NAMESPACE_UID, a_run, at, ended

PRINT = "f00d"


def kpi(value: float = 12.5, kpi_id: str = "throughput", **more: Any) -> Kpi:
    return Kpi(**{"kpi_id": kpi_id, "value": value, "unit": "tokens/s", "higher_is_better": True, **more})


def curve(*points: tuple[float, float]) -> Kpi:
    return Kpi(kpi_id="scaling", values=points, x_unit="users", y_unit="tokens/s", higher_is_better=True)


def record(*kpis: Kpi, **more: Any) -> Test:
    return Test(**{"labels": {"model_name": "llama"}, "kpis": kpis, **more})


FULL = record(
    kpi(name="Throughput", help="of output"),
    kpi(0.0, "errors", higher_is_better=None, unit=""),
    curve((1.0, 10.0), (8.0, 60.5)),
    run_id="r1",
    timestamp=at(5),
    kpi_labels={"platform": "CKS"},
    message="fine",
    metadata={"mlflow": {"run": "x"}},
)


async def a_run_with(store: HistoryStore, number: int, *records: Test, **fields: Any) -> Run:
    run = ended(a_run(number, fingerprint=PRINT, **fields))
    await store.record(Record(run))
    pushed = max([at(number), *(one.timestamp for one in records if one.timestamp)])
    await Results(store).put(run.identity, records, pushed)
    return run


async def test_records_come_back_as_they_were_pushed(store: HistoryStore) -> None:
    failed = record(success=False, message="no GPU", labels={"model_name": "granite"})
    run = await a_run_with(store, 0, FULL, failed)
    assert await Results(store).of(run.identity) == (FULL, failed)
    assert await Results(store).of(a_run(7).identity) == ()


async def test_pushing_again_changes_nothing(store: HistoryStore) -> None:
    run = await a_run_with(store, 0, FULL)
    results = Results(store)
    assert await results.put(run.identity, [FULL, FULL], at(99)) == Received(unchanged=1)
    assert await results.of(run.identity) == (FULL,)
    other = FULL.model_copy(update={"kpis": (kpi(99),)})
    assert await results.put(run.identity, [other], at(99)) == Received(replaced=1)
    assert await results.of(run.identity) == (other,)
    both = [other, FULL]
    assert await results.put(run.identity, both, at(99)) == Received(replaced=1), "the last one counts"
    assert await results.of(run.identity) == (FULL,)
    assert len(await store.rows(select(kpi_values))) == len(FULL.kpis), "old values stayed"


async def test_a_run_that_is_not_there(store: HistoryStore) -> None:
    assert await Results(store).put(a_run(1).identity, [FULL], at(0)) is None
    assert not await Verdicts(store).pin(a_run(1).identity, by="me", reason="x", now=at(0))


async def test_a_run_has_a_limit(store: HistoryStore) -> None:
    run = await a_run_with(store, 0)
    many = [record(labels={"n": str(number)}) for number in range(7)]
    results = Results(store, max_tests=5)
    assert await results.put(run.identity, many, at(0)) == Received(added=5, refused=2)
    again = many[0].model_copy(update={"message": "other"})
    assert await results.put(run.identity, [again], at(0)) == Received(replaced=1)


async def test_a_series_holds_what_is_comparable(store: HistoryStore) -> None:
    for number in range(4):
        await a_run_with(store, number, record(kpi(100.0 + number), timestamp=at(number)))
    await a_run_with(store, 10, record(kpi(1.0), labels={"model_name": "granite"}))
    await a_run_with(store, 11, record(kpi(1.0, unit="tokens/ms")))
    await a_run_with(store, 12, record(kpi(1.0), success=False))
    failed = await a_run_with(store, 13, record(kpi(1.0)))
    await store.record(Record(replace(failed, phase="Failed", resource_version=900)))
    other = ended(a_run(14, fingerprint="beef"))
    await store.record(Record(other))
    await Results(store).put(other.identity, [record(kpi(1.0))], at(14))

    found = await Results(store).series(PRINT, ALL_RUNS, kpi_id="throughput")
    by_size = sorted(found, key=lambda one: len(one.points))
    assert [len(one.points) for one in by_size] == [1, 1, 4]
    main = by_size[-1]
    assert [point.value for point in main.points] == [100, 101, 102, 103]
    assert main.points[0].run == a_run(0).identity.text
    assert (main.unit, main.higher_is_better, main.labels) == ("tokens/s", True, {"model_name": "llama"})
    newest = await Results(store).series(PRINT, ALL_RUNS, kpi_id="throughput", newest=2)
    assert [point.value for one in newest for point in one.points if len(one.points) == 2] == [102, 103]


async def test_what_an_evicted_attempt_pushed_is_no_point(store: HistoryStore) -> None:
    """Of the tests that the last attempt did not repeat; of those it did, the later record replaces it."""
    partial = record(kpi(1.0), labels={"model_name": "granite"}, timestamp=at(10))
    whole = record(kpi(7.0), timestamp=at(40))
    run = await a_run_with(store, 0, partial, whole, attempts=2, started_at=at(5), running_at=at(30))
    results = Results(store)
    (one,) = await results.series(PRINT, ALL_RUNS)
    assert [point.value for point in one.points] == [7.0]
    assert [value for values in (await results.earlier(PRINT, ALL_RUNS)).values() for value in values] == [
        7.0
    ]
    assert await results.of(run.identity) == (partial, whole), "it is kept for people"
    assert await results.of(run.identity, last_attempt=True) == (whole,)
    await Verdicts(store).pin(run.identity, by="me", reason="", now=at(50))
    pinned, values = await Verdicts(store).pinned_values(run.namespace_uid, PRINT)
    assert pinned is not None and list(values.values()) == [7.0]
    await store.record(Record(replace(run, attempts=1, resource_version=901)))
    assert len(await results.series(PRINT, ALL_RUNS)) == 2, "of a single attempt the times do not count"


async def test_repeats_in_a_run_are_one_point(store: HistoryStore) -> None:
    tests = [record(kpi(float(value)), run_id=str(value), timestamp=at(value)) for value in (1, 5, 9)]
    await a_run_with(store, 0, *tests)
    ((point,),) = [one.points for one in await Results(store).series(PRINT, ALL_RUNS)]
    assert (point.value, point.at) == (5, at(9))


async def test_other_namespaces_are_not_read(store: HistoryStore) -> None:
    await a_run_with(store, 0, FULL)
    await a_run_with(store, 1, FULL, namespace_uid="secret")
    results, verdicts = Results(store), Verdicts(store)
    assert [
        len(one.points) for one in await results.series(PRINT, Scope((NAMESPACE_UID,)), kpi_id="errors")
    ] == [1]
    assert [len(one.points) for one in await results.series(PRINT, ALL_RUNS, kpi_id="errors")] == [2]
    assert await results.series(PRINT, NO_RUNS) == []
    assert {len(kpis) for kpis in (await results.earlier(PRINT, Scope((NAMESPACE_UID,)))).values()} == {1}
    await verdicts.pin(a_run(1).identity, by="me", reason="x", now=at(0))
    assert await verdicts.baseline(NAMESPACE_UID, PRINT) is None


async def test_a_series_is_read_by_its_index(store: HistoryStore) -> None:
    if store.database.dialect != "sqlite":
        return
    await a_run_with(store, 0, FULL)
    query = "SELECT value FROM kpi_values WHERE series = 'x' ORDER BY at DESC, test_id DESC"
    plan = await store.rows(text(f"EXPLAIN QUERY PLAN {query}"))
    assert "COVERING INDEX kpi_values_series" in str(plan)


async def test_times_without_a_timestamp_are_those_of_the_push(store: HistoryStore) -> None:
    await a_run_with(store, 0)
    later = at(0) + timedelta(days=3)
    await Results(store).put(a_run(0).identity, [record(kpi())], later)
    (one,) = await Results(store).series(PRINT, ALL_RUNS)
    assert one.points[0].at == later
    assert one.points[0].run.startswith(f"{CLUSTER}/")


async def test_results_come_with_the_record_of_their_run(store: HistoryStore) -> None:
    """In its transaction: a recorder that is killed after it never has to bring them again."""
    run = ended(a_run(1, fingerprint=PRINT))
    assert await store.record(Record(run, results=(FULL,)))
    assert await Results(store).of(run.identity) == (FULL,)
    (one,) = await Results(store).series(PRINT, ALL_RUNS, kpi_id="throughput")
    assert [point.value for point in one.points] == [12.5]
    other = record(kpi(3.0), labels={"model_name": "granite"})
    await Results(store).put(run.identity, [other], at(1))
    assert await store.record(Record(replace(run, resource_version=999), results=(FULL,)))
    assert await Results(store).of(run.identity) == (FULL, other), "what a task pushed stays"
    older = Record(replace(run, resource_version=1), results=(record(kpi(9.0), labels={"a": "b"}),))
    assert not await store.record(older)
    assert await Results(store).of(run.identity) == (FULL, other)
