"""Every filter, alone and with others: the right runs, by an index."""

from __future__ import annotations

import random
import re
from collections.abc import AsyncIterator
from dataclasses import replace
from typing import Any

import pytest
from sqlalchemy import text

from fournos.history.records import Page, Query, Record, Run
from fournos.history.store import HistoryStore, query_plan
from fournos.history.store.index_scans import QueryFilters
from fournos.history.store.query_plan import Planner, QueryPlan
from fournos.history.store.schema import runs
from fournos.history.store.search import page_statement
from fournos.history.store.text import folded
from tests.history import a_run, at, everything

NUMBER = 300
CHOICES: dict[str, tuple[str, ...]] = {
    "kind": ("FournosJob", "AppWrapper"),
    "phase": ("Succeeded", "Failed", "Running"),
    "owner": ("alice", "bob", "carol", ""),
    "target": ("cluster-a", "cluster-b", ""),
    "pipeline": ("bench", "smoke"),
    "fingerprint": ("f1", "f2", "f3", "f4"),
    "namespace_uid": ("n1", "n2", "n3"),
}
FIELDS = {
    "kinds": "kind",
    "phases": "phase",
    "owners": "owner",
    "targets": "target",
    "pipelines": "pipeline",
    "fingerprints": "fingerprint",
    "namespaces": "namespace_uid",
}
"""The filter of a Query → the field of a Run."""


def make(source: random.Random) -> list[Run]:
    made = []
    for number in range(NUMBER):
        fields: dict[str, Any] = {name: source.choice(values) for name, values in CHOICES.items()}
        labels = {name: source.choice("xyz") for name in ("team", "size") if source.random() < 0.7}
        title = source.choice(("Llama 70B", "Straße", "100 %_done", ""))
        run = a_run(
            number, submitted_at=at(source.randrange(100)), labels=labels, display_name=title, **fields
        )
        made.append(replace(run, name=source.choice((f"job-{number}", "again"))))
    return made


def ask(source: random.Random) -> Query:
    asked: dict[str, Any] = {}
    for filter_, field in FIELDS.items():
        if source.random() < 0.25:
            asked[filter_] = tuple(source.sample(CHOICES[field], source.randint(1, 2)))
    if source.random() < 0.3:
        asked["labels"] = {
            name: source.choice("xyz") for name in source.sample(("team", "size"), source.randint(1, 2))
        }
    if source.random() < 0.3:
        asked["text"] = source.choice(("LLAMA", "strasse", "%_", "job-1", "job-29", "nowhere", "again", "no"))
    if source.random() < 0.2:
        asked["name"] = "again"
    if source.random() < 0.1:
        asked["uid"] = f"uid-{source.randrange(NUMBER)}"
    if source.random() < 0.2:
        asked["namespace"] = source.choice(("bench", "nowhere"))
    if source.random() < 0.3:
        asked["since"] = at(source.randrange(60))
    if source.random() < 0.3:
        asked["until"] = at(source.randrange(40, 100))
    return Query(**{"namespaces": None, **asked}, limit=source.choice((11, 50)))


def matches(run: Run, query: Query) -> bool:
    wanted = {field: getattr(query, filter_) for filter_, field in FIELDS.items()}
    return (
        all(getattr(run, field) in values for field, values in wanted.items() if values)
        and (not query.name or run.name == query.name)
        and query.uid in ("", run.identity.uid)
        and query.namespace in ("", run.identity.namespace)
        and query.labels.items() <= run.labels.items()
        and query.text.casefold() in f"{run.name}\n{run.display_name}".casefold()
        and (query.since is None or run.submitted_at >= query.since)
        and (query.until is None or run.submitted_at < query.until)
    )


async def all_pages(store: HistoryStore, query: Query) -> list[Run]:
    found: list[Run] = []
    while True:
        page = await store.find(query)
        found += page.runs
        if not page.cursor:
            return found
        query = replace(query, cursor=page.cursor)


@pytest.fixture
async def filled(store: HistoryStore) -> AsyncIterator[tuple[HistoryStore, list[Run]]]:
    made = make(random.Random(1))
    for run in made:
        await store.record(Record(run))
    yield store, made


def bound(monkeypatch: pytest.MonkeyPatch, tested: int, compared: int) -> None:
    """Lets a page test and compare no more entries than these."""
    monkeypatch.setattr(query_plan, "MAX_LOOKUPS", dict.fromkeys(query_plan.MAX_LOOKUPS, tested))
    monkeypatch.setattr(query_plan, "MAX_COMPARED", dict.fromkeys(query_plan.MAX_COMPARED, compared))


@pytest.mark.parametrize("entries", [2_000, 7], ids=["few runs", "many runs"])
async def test_any_query_finds_what_matches(
    filled: tuple[HistoryStore, list[Run]], entries: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    bound(monkeypatch, entries, 2 * entries)
    store, made = filled
    source = random.Random(2)
    found_some = 0
    for _ in range(60):
        query = ask(source)
        found = await all_pages(store, query)
        # Runs of the same second are in the order of their first record.
        wanted = sorted(
            (run for run in made if matches(run, query)),
            key=lambda run: (run.submitted_at, made.index(run)),
            reverse=True,
        )
        assert found == wanted, query
        found_some += bool(found)
    assert found_some > 20, "most queries find nothing: they test little"


PIECES = (
    *("llama", "lla", "Llama-70B", "straße", "STRASSE", "ΣΑΣ", "σας", "İstanbul", "ﬁne", "日本語", "e\u0301"),
    *("100%", "a_b", "\\", "/", '"', "'", "*", "^", ":", "(", "{", "-", " ", "\n", "\0", "\ufffd", "\ud800"),
)
"""What names and texts are made of: case, escapes, and what no database stores."""


async def test_a_text_is_found_whatever_its_characters(store: HistoryStore) -> None:
    source = random.Random(3)
    made = [
        a_run(number, display_name="".join(source.choices(PIECES, k=4)), submitted_at=at(number))
        for number in range(40)
    ]
    for run in made:
        await store.record(Record(run))
    for _ in range(60):
        name = source.choice(made).display_name
        start = source.randrange(len(name))
        asked = name[start : start + source.randint(1, 8)]
        asked = source.choice((asked, asked.upper(), asked.lower()))
        wanted = [run.name for run in made if folded(asked) in folded(run.name, run.display_name)]
        shown = [run.name for run in await all_pages(store, everything(text=asked))]
        assert shown == wanted[::-1], asked


@pytest.mark.parametrize(
    ("filters", "wanted"),
    [
        ({}, QueryPlan("time")),
        ({"pipelines": ("common",)}, QueryPlan("pipelines")),
        ({"name": "job-1", "pipelines": ("common",)}, QueryPlan("name")),
        # The one with the fewest runs, which are searched to the end.
        ({"pipelines": ("rare",), "labels": {"team": "a"}}, QueryPlan("pipelines")),
        ({"pipelines": ("common",), "labels": {"team": "b"}}, QueryPlan("labels")),
        ({"pipelines": ("common",), "owners": ("y", "z")}, QueryPlan("owners")),
        ({"pipelines": ("rare",), "text": "job"}, QueryPlan("pipelines")),
        ({"pipelines": ("common",), "kinds": ("FournosJob",), "since": at(5)}, QueryPlan("pipelines")),
        # The one whose first five reach furthest back: runs 0, 1, 2, 4 and 5 are of the cluster.
        ({"kinds": ("FournosJob",), "targets": ("most",)}, QueryPlan("targets", at(0))),
        ({"kinds": ("FournosJob",), "text": "job"}, QueryPlan("text", at(0))),
        ({"text": "job"}, QueryPlan("text", at(0))),
        ({"text": "SELDOM"}, QueryPlan("text", at(0))),
        ({"text": "job", "since": at(3)}, QueryPlan("text")),
        ({"namespaces": tuple(map(str, range(17)))}, QueryPlan("time", at(1))),
        # Of two lists each is read as far as the one that ends first: x has 6, 3 and 0, y 4 and 1.
        ({"owners": ("x", "y"), "kinds": ("FournosJob",)}, QueryPlan("owners", at(0))),
    ],
    ids=str,
)
async def test_a_page_reaches_as_far_as_few_entries_do(
    store: HistoryStore, filters: dict[str, Any], wanted: QueryPlan, monkeypatch: pytest.MonkeyPatch
) -> None:
    bound(monkeypatch, 5, 6)
    for number in range(7):
        rare = number == 6
        fields = {"pipeline": "rare" if rare else "common", "owner": "xyz"[number % 3]}
        target = "" if number == 3 else "most"
        labels = {"team": "b" if rare else "a"}
        shown = "seldom" if rare else "often"
        run = a_run(
            number, **fields, target=target, labels=labels, display_name=shown, submitted_at=at(number)
        )
        await store.record(Record(run))
    query = Query(**{"namespaces": None, **filters})
    found = await store.database.read(lambda connection: store.search.plan(connection, query))
    assert found == wanted


async def test_a_page_without_enough_says_how_far_it_has_searched(
    store: HistoryStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    bound(monkeypatch, 10, 10)
    for number in range(25):
        phase = "Running" if number >= 12 else "Failed"
        await store.record(Record(a_run(number, submitted_at=at(number), owner="a", phase=phase)))
    wanted = everything(text="job-2", limit=5)
    first = await store.find(wanted)
    assert [run.name for run in first.runs] == [f"job-{number}" for number in (24, 23, 22, 21, 20)]
    assert first.cursor and first.searched_until is None, "it has all runs that it was asked for"
    nothing = everything(text="no")
    page = await store.find(nothing)
    assert (page.runs, page.searched_until) == ((), at(14))
    page = await store.find(replace(nothing, cursor=page.cursor))
    assert (page.runs, page.searched_until) == ((), at(3))
    assert await store.find(replace(nothing, cursor=page.cursor)) == Page(())
    two = everything(owners=("a",), phases=("Failed",))
    page = await store.find(two)
    assert [run.name for run in page.runs] == [f"job-{number}" for number in range(11, 0, -1)]
    assert page.searched_until == at(1)
    page = await store.find(replace(two, cursor=page.cursor))
    assert [run.name for run in page.runs] == ["job-0"]
    assert (page.cursor, page.searched_until) == ("", None)


async def test_the_newest_of_a_query_is_found_beyond_a_page(
    store: HistoryStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    bound(monkeypatch, 3, 3)
    for number in range(20):
        await store.record(Record(a_run(number, submitted_at=at(number))))
    detail = await store.detail(everything(text="job-0"))
    assert detail is not None and detail.run.name == "job-0"
    assert await store.detail(everything(text="no")) is None


MANY = tuple(map(str, range(500)))
PLANS: dict[str, tuple[Query, str, tuple[str, ...]]] = {
    "nothing": (everything(), "runs_time", ()),
    "time": (everything(since=at(1), until=at(2)), "runs_time", ()),
    "owner": (everything(owners=("a",)), "runs_owner", ()),
    "owners": (everything(owners=("a", "b")), "runs_owner", ()),
    "phase": (everything(phases=("a",)), "runs_phase", ()),
    "target": (everything(targets=("a",)), "runs_target", ()),
    "pipeline": (everything(pipelines=("a",)), "runs_pipeline", ()),
    "fingerprint": (everything(fingerprints=("a",)), "runs_fingerprint", ()),
    "kind": (everything(kinds=("a",)), "runs_kind", ()),
    "namespace": (Query(namespaces=("a",)), "runs_namespace_uid", ()),
    "cluster": (everything(in_cluster="a"), "runs_cluster", ()),
    "cluster and owner": (everything(in_cluster="a", owners=("b",)), "runs_owner", ("runs_cluster",)),
    "name": (everything(name="a"), "runs_name", ()),
    "uid": (everything(uid="a", name="b"), "runs_uid", ("runs_name",)),
    "namespace's name": (everything(namespace="a"), "runs_namespace", ()),
    "label": (everything(labels={"a": "b"}), "labels_value", ()),
    "labels": (everything(labels={"a": "b", "c": "d"}), "labels_value", ("labels_value",)),
    "text": (everything(text="a"), "runs_text", ()),
    "label and phase": (everything(labels={"a": "b"}, phases=("c",)), "labels_value", ("runs_phase",)),
    "owner and text": (everything(owners=("a",), text="b"), "runs_owner", ("runs_text",)),
    "phases and owner": (everything(phases=("a", "b"), owners=("c",)), "runs_owner", ("runs_phase",)),
    "owner, phase and label": (
        everything(owners=("a",), phases=("b",), labels={"a": "b"}),
        "labels_value",
        ("runs_owner", "runs_phase"),
    ),
    "many namespaces": (Query(namespaces=MANY), "runs_time", ()),
    "many namespaces, one owner": (Query(namespaces=MANY, owners=("a",)), "runs_owner", ()),
}
"""A query, the index of the filter that leads, and those of the others."""
LEADING: dict[str, tuple[Query, str, tuple[str, ...]]] = {
    "text": (everything(owners=("a",), text="b"), "runs_text", ("runs_owner",)),
    "phases": (everything(labels={"a": "b"}, phases=("c",)), "runs_phase", ("labels_value",)),
}
"""The same of filters that lead where the first one leaves more runs."""


PLANNED = [*((one, "") for one in PLANS.values()), *((one, name) for name, one in LEADING.items())]


async def plan(store: HistoryStore, query: Query, leading: str) -> list[str]:
    """Returns the steps by which the database reads a page; `leading` "": the first filter that can lead."""
    dialect = store.database.dialect
    first = [leading, *QueryFilters(query, dialect).leading(), "text" if query.text else "time"]
    led = Planner(query, dialect).without_counts() or QueryPlan(next(filter(None, first)))
    statement = page_statement(query, dialect, led)
    explain = "EXPLAIN QUERY PLAN" if dialect == "sqlite" else "EXPLAIN"
    async with store.reading() as connection:
        if dialect == "postgresql":
            # Tables as small as these are read whole for the rows of a page.
            await connection.execute(text("SET LOCAL enable_seqscan = off"))
        sql = statement.compile(dialect=connection.dialect, compile_kwargs={"literal_binds": True})
        explained = await connection.execute(text(f"{explain} {sql}".replace(":", r"\:").replace("%%", "%")))
        return [row[-1] for row in explained]


@pytest.mark.parametrize("continued", [False, True], ids=["first page", "next page"])
@pytest.mark.parametrize(
    ("planned", "leading"), PLANNED, ids=[*PLANS, *(f"{name} leads" for name in LEADING)]
)
@pytest.mark.parametrize("url", ["sqlite"], indirect=True)
async def test_sqlite_reads_a_page_by_its_index(
    store: HistoryStore, planned: tuple[Query, str, tuple[str, ...]], leading: str, continued: bool
) -> None:
    query, index, others = planned
    if continued:
        for number in range(2):
            await store.record(Record(a_run(number)))
        query = replace(query, cursor=(await store.find(everything(limit=1))).cursor)
    require_sqlite(await plan(store, query, leading), index, others)


@pytest.mark.parametrize("url", ["postgresql"], indirect=True)
async def test_postgresql_reads_pages_by_their_indexes(store: HistoryStore) -> None:
    await store.record(Record(a_run(labels={"a": "b"})))
    columns = [column.name for column in runs.c if column.name not in ("id", "uid", "submitted_at")]
    copies = f"""INSERT INTO runs (uid, submitted_at, {", ".join(columns)})
        SELECT n, submitted_at + n, {", ".join(columns)} FROM runs, generate_series(1, 5000) AS n"""
    async with store.writing() as connection:
        await connection.execute(text(copies))
        await connection.execute(
            text("INSERT INTO labels SELECT id, 'c', 'd', submitted_at FROM runs WHERE id > 1")
        )
    async with store.database.autocommit() as connection:
        await connection.execute(text("VACUUM ANALYZE"))
    cursor = (await store.find(everything(limit=1))).cursor
    for (query, index, others), leading in PLANNED:
        for asked in (query, replace(query, cursor=cursor)):
            require_postgresql(await plan(store, asked, leading), index, others)


def require_sqlite(steps: list[str], index: str, others: tuple[str, ...]) -> None:
    keyed = next((number for number, step in enumerate(steps) if index in step), None)
    assert keyed is not None, steps
    walked = index in ("runs_time", "runs_text")
    assert steps[keyed].startswith("SEARCH") or walked, steps
    # An index in the order of the page is read as far as the page goes; before a sort it is read to its end.
    assert "TEMP B-TREE" not in steps[keyed + 1], steps
    whole = [step for step in steps if re.match(r"SCAN (runs|leading|labels)", step) and index not in step]
    assert whole == [], steps
    for other in others:
        key = "run_id" if other == "labels_value" else "id"
        looked_up = re.compile(rf"SEARCH \w+ USING COVERING INDEX {other} \(.*submitted_at=\? AND {key}>\?")
        assert any(map(looked_up.match, steps)), (other, steps)


def require_postgresql(steps: list[str], index: str, others: tuple[str, ...]) -> None:
    assert not any("Seq Scan" in step for step in steps), steps
    assert any(re.search(rf"Index Only Scan (Backward )?using {index} on", step) for step in steps), steps
    for other in others:
        number = next(
            (n for n, step in enumerate(steps) if f"Index Only Scan using {other} on" in step), None
        )
        assert number is not None, (other, steps)
        # All of the index's columns find the one entry.
        assert "submitted_at = " in steps[number + 1] and "id = " in steps[number + 1], steps
