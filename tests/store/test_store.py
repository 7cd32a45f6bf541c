"""What the store takes in comes out again, the same from both databases."""

from __future__ import annotations

from dataclasses import replace

import pytest

from fournos.history.records import Document, Ending, Identity, Query, Record
from fournos.history.store import HistoryStore, StoreQueryError
from tests.history import CLUSTER, NAMESPACE_UID, a_run, at, ended, everything

FULL = a_run(
    7,
    message="the run waits",
    owner="alice",
    display_name="Llama on eight GPUs",
    target="cluster-a",
    pipeline="bench",
    project="llm",
    gpu_type="h200",
    gpu_count=8,
    attempts=2,
    queued_at=at(8),
    admitted_at=at(9.25),
    started_at=at(10),
    running_at=at(10),
    ended_at=at(70),
    ending=Ending.OBSERVED,
    failure="Quota",
    fingerprint="f00d",
    labels={"team": "a", "app.kubernetes.io/name": "x"},
)


async def names(store: HistoryStore, query: Query) -> list[str]:
    return [run.name for run in (await store.find(query)).runs]


async def test_a_run_comes_back_as_it_was_recorded(store: HistoryStore) -> None:
    assert await store.record(Record(FULL))
    assert await store.get(FULL.identity) == FULL
    assert (await store.find(everything())).runs == (FULL,)


async def test_a_run_that_is_not_there(store: HistoryStore) -> None:
    missing = Identity(CLUSTER, "bench", "no-such-uid")
    assert await store.get(missing) is None
    assert await store.document(missing, Document.OBJECT) is None
    assert not await store.keep(missing, True, by="alice", reason="", now=at(0))


async def test_the_same_uid_is_one_row_and_the_newer_state_stays(store: HistoryStore) -> None:
    first = a_run(labels={"a": "1", "b": "2"})
    newer = ended(first, labels={"b": "3"})
    assert await store.record(Record(first))
    assert await store.record(Record(newer))
    assert not await store.record(Record(first)), "an older state arrived late"
    assert await store.record(Record(newer)), "the same state again is not a loss"
    assert (await store.find(everything())).runs == (newer,)


async def test_the_same_name_and_uid_elsewhere_are_other_runs(store: HistoryStore) -> None:
    one = a_run()
    others = [
        replace(one, identity=Identity("another", "bench", one.identity.uid)),
        replace(one, identity=Identity(CLUSTER, "other", one.identity.uid)),
        replace(one, identity=Identity(CLUSTER, "bench", "created-again")),
    ]
    for run in (one, *others):
        await store.record(Record(run))
    assert {run.identity for run in (await store.find(everything(name=one.name))).runs} == {
        one.identity,
        *(run.identity for run in others),
    }


async def test_documents_are_replaced_by_name(store: HistoryStore) -> None:
    first = {Document.OBJECT: {"spec": {"owner": "alice"}}, Document.EVENTS: [{"reason": "Admitted"}]}
    await store.record(Record(a_run(), documents=first))
    await store.record(Record(a_run(), documents={Document.EVENTS: []}))
    assert await store.document(a_run().identity, Document.OBJECT) == first[Document.OBJECT]
    assert await store.document(a_run().identity, Document.EVENTS) == []
    assert await store.document(a_run().identity, Document.TASKS) is None


async def test_no_secret_is_stored(store: HistoryStore) -> None:
    secret = "hunter2hunter2"
    spec = {
        "args": {"password": secret, "model": "llama"},
        "env": [{"name": "API_TOKEN", "value": secret}, {"name": "MODE", "value": "fast"}],
        "command": ["run", f"--api-key={secret}"],
    }
    run = a_run(message=f"login failed, password: {secret}", waited_for_text=f"token={secret}")
    await store.record(Record(run, {Document.OBJECT: spec}))
    stored = await store.get(run.identity)
    document = await store.document(run.identity, Document.OBJECT)
    assert stored is not None
    assert secret not in f"{stored} {document}"
    assert document["args"]["model"] == "llama"
    assert document["env"][1] == {"name": "MODE", "value": "fast"}


@pytest.mark.parametrize("bad", ["a\x00b", "a\ud800b", "a\udfffb"])
async def test_text_that_no_database_takes_is_marked(store: HistoryStore, bad: str) -> None:
    run = a_run(name=bad, owner=bad, message=bad, labels={bad: bad}, display_name=bad, waited_for_text=bad)
    assert await store.record(Record(run, {Document.OBJECT: {bad: [bad]}}))
    stored = await store.get(run.identity)
    assert stored is not None
    assert (stored.name, stored.owner, stored.message) == ("a\ufffdb",) * 3
    assert stored.labels == {"a\ufffdb": "a\ufffdb"}
    assert await store.document(run.identity, Document.OBJECT) == {"a\ufffdb": ["a\ufffdb"]}
    assert await names(store, everything(name=bad, owners=(bad,), labels={bad: bad}, text=bad)) == [
        "a\ufffdb"
    ]


async def test_text_of_any_length(store: HistoryStore) -> None:
    long = "ü" * 100_000
    run = a_run(owner=long, display_name=long, message=long)
    assert await store.record(Record(run))
    assert await names(store, everything(owners=(long,))) == [run.name]


async def test_open_runs_are_those_whose_end_is_not_known(store: HistoryStore) -> None:
    runs = [a_run(number) for number in range(4)]
    runs[1] = ended(runs[1])
    runs[2] = replace(runs[2], kind="AppWrapper")
    runs[3] = replace(runs[3], identity=Identity("another", "bench", "uid-3"))
    for run in runs:
        await store.record(Record(run))
    assert [one async for one in store.open_runs(CLUSTER, "FournosJob")] == [runs[0]]


async def test_iterations_go_beyond_one_batch(store: HistoryStore, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("fournos.history.store.runs._BATCH", 2)
    for number in range(5):
        await store.record(Record(a_run(number)))
    opened = [one.name async for one in store.open_runs(CLUSTER, "FournosJob")]
    assert sorted(opened) == ["job-0", "job-1", "job-2", "job-3", "job-4"]


async def test_pages_hold_every_run_once_newest_first(store: HistoryStore) -> None:
    # Some are submitted in the same second.
    for number in range(25):
        await store.record(Record(a_run(number, submitted_at=at(number // 3))))
    seen: list[str] = []
    cursor = ""
    while True:
        page = await store.find(everything(limit=10, cursor=cursor))
        seen += [run.name for run in page.runs]
        if not (cursor := page.cursor):
            break
    assert len(seen) == len(set(seen)) == 25
    assert seen[0] == "job-24"


async def test_a_page_that_is_exactly_full_is_the_last(store: HistoryStore) -> None:
    for number in range(3):
        await store.record(Record(a_run(number)))
    assert (await store.find(everything(limit=3))).cursor == ""
    assert (await store.find(everything(limit=2))).cursor != ""


async def test_a_run_submitted_meanwhile_moves_no_page(store: HistoryStore) -> None:
    for number in range(4):
        await store.record(Record(a_run(number)))
    first = await store.find(everything(limit=2))
    await store.record(Record(a_run(99)))
    assert await names(store, everything(limit=2, cursor=first.cursor)) == ["job-1", "job-0"]


async def test_who_may_read_no_namespace_sees_nothing(store: HistoryStore) -> None:
    await store.record(Record(a_run()))
    assert await names(store, Query()) == []
    assert await names(store, Query(namespaces=("another",))) == []
    assert await names(store, Query(namespaces=(NAMESPACE_UID, "another"))) == ["job-0"]
    assert await names(store, Query(namespaces=(NAMESPACE_UID,))) == ["job-0"]
    assert await names(store, Query(namespaces=tuple(f"other-{n}" for n in range(1000)))) == []


@pytest.mark.parametrize(
    ("query", "words"),
    [
        (everything(limit=0), "limit: 0 is not between 1 and 500"),
        (everything(limit=501), "limit: 501"),
        (everything(cursor="none of ours"), "cursor"),
        (everything(cursor="MS4yLjM"), "cursor"),
        (everything(cursor="OTk5OTk5OTk5OTk5OTk5OTk5OTk5OTk5OTk5OS4x"), "cursor"),
        (everything(since=at(0).replace(tzinfo=None)), "no time zone"),
    ],
)
async def test_a_query_that_is_not_valid(store: HistoryStore, query: Query, words: str) -> None:
    with pytest.raises(StoreQueryError, match=words):
        await store.find(query)
