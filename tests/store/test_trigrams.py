"""The index of trigrams finds what a comparison with all names finds, and has no more than these names."""

from __future__ import annotations

import random
import sqlite3
from dataclasses import replace
from pathlib import Path

import pytest
from sqlalchemy import text

from fournos.history.blobs import DirectoryBlobs
from fournos.history.records import Query, Record, Run
from fournos.history.store import HistoryStore, query_plan, trigrams
from fournos.history.store.backup import backup, restore
from fournos.history.store.database import _engine, _parsed
from fournos.history.store.pages import page_statement
from fournos.history.store.query_plan import QueryPlan
from fournos.history.store.retention import erase
from tests.history import a_run, at, ended, everything
from tests.store.test_filters import all_pages, bound
from tests.store.test_retention import on_disk

PIECES = (
    *("llama", "lla", "Llama-70B", "ama", "granite", "straße", "STRASSE", "ΣΑΣ", "σας", "İstanbul", "ﬁne"),
    *("100%", "a_b", "\\", "/", '"', "'", "*", "^", ":", "(", ")", "{", "-", " ", "\n", "~", "\0", "\ufffd"),
    *(
        "AND",
        "OR",
        "NOT",
        "NEAR(",
        "search:",
        "rowid",
        "\ufffe",
        "\uffff",
        "\U0001f9c0",
        "e\u0301",
        "日本語",
        "\ud800",
    ),
    *("000", "0001", "aaa", "aaaa"),
)
"""What names and texts are made of: case, escapes, operators of a search, and what no database stores."""


def words(source: random.Random, most: int) -> str:
    return "".join(source.choice(PIECES) for _ in range(source.randint(1, most)))


def ask(source: random.Random, names: list[str]) -> Query:
    """Returns a query for a part of a name, or for a text that perhaps no name has."""
    asked = words(source, 3)
    if source.random() < 0.6:
        name = source.choice(names)
        start = source.randrange(len(name))
        asked = name[start : start + source.randint(1, 12)]
        asked = source.choice((asked, asked.upper(), asked.lower()))
    filters = {"owners": (source.choice("abc"),)} if source.random() < 0.4 else {}
    return everything(text=asked, limit=source.choice((3, 50)), **filters)


async def filled(store: HistoryStore, source: random.Random) -> list[str]:
    """Records runs, gives some of them another name, and deletes some; returns the names."""
    made = [named(source, number) for number in range(60)]
    for run in made:
        await store.record(Record(run))
    for run in made[:30]:
        again = replace(run, display_name=words(source, 5), resource_version=run.resource_version + 1)
        await store.record(Record(again))
    await erase(store, DirectoryBlobs(Path("/nonexistent")), [run.identity for run in made[20:35]], at(0))
    return [name for run in made for name in (run.name, run.display_name)]


def named(source: random.Random, number: int) -> Run:
    shown, owner = words(source, 5), source.choice("abc")
    return ended(a_run(number, display_name=shown, owner=owner, submitted_at=at(source.randrange(50))))


async def require_sound(store: HistoryStore) -> None:
    """Has SQLite compare its index with the names."""
    if store.database.dialect == "sqlite":
        async with store.writing() as connection:
            check = "INSERT INTO runs_trigrams (runs_trigrams, rank) VALUES ('integrity-check', 1)"
            await connection.execute(text(check))


@pytest.mark.parametrize("entries", [2_000, 9], ids=["few runs", "many runs"])
async def test_it_finds_what_a_comparison_with_all_names_finds(
    store: HistoryStore, entries: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    bound(monkeypatch, entries, 2 * entries)
    source = random.Random(3)
    names = await filled(store, source)
    without = HistoryStore(store.database)
    without.search = replace(store.search, has_trigrams=False)
    await require_sound(store)
    found, led = 0, 0
    for _ in range(60):
        query = ask(source, names)
        wanted = await all_pages(without, query)
        assert await all_pages(store, query) == wanted, query
        found += bool(wanted)
        led += await leading(store, query) == "trigrams"
    assert found > 20, "most queries find nothing: they test little"
    assert led > 10, "most queries compare names: they test little"


async def leading(store: HistoryStore, query: Query) -> str:
    found = await store.database.read(lambda each: store.search.plan(each, query))
    return found.leading


async def test_a_text_that_fills_a_page_at_once_is_compared(store: HistoryStore) -> None:
    for number in range(10):
        await store.record(Record(a_run(number)))
    assert await leading(store, everything(text="job", limit=9)) == "text"
    assert await leading(store, everything(text="job", limit=10)) == "trigrams"


async def test_a_text_that_many_have_is_compared(
    store: HistoryStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(query_plan, "MAX_WITH_TRIGRAMS", 5)
    for number in range(10):
        await store.record(Record(a_run(number, name=f"odd-{number}" if number % 2 else f"even-{number}")))
    for number in (1, 3):
        await store.record(Record(replace(a_run(number, name="seldom"), resource_version=101)))
    assert await leading(store, everything(text="even")) == "text"
    assert await leading(store, everything(text="odd")) == "trigrams"


async def test_trigrams_that_many_have_lead_where_few_have_all_of_them(
    store: HistoryStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(query_plan, "MAX_WITH_TRIGRAMS", 5)
    for number in range(14):
        name = "abcxyz" if number < 2 else "abc" if number % 2 else "xyz"
        await store.record(Record(a_run(number, name=name)))
    assert await leading(store, everything(text="abcxyz")) == "trigrams"
    assert [run.name for run in (await store.find(everything(text="abcxyz"))).runs] == ["abcxyz"] * 2


async def test_a_text_that_no_name_has_costs_a_page_no_more_where_all_have_its_trigrams(
    store: HistoryStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    bound(monkeypatch, 4, 6)
    for number in range(9):
        await store.record(Record(a_run(number, name="abcd-bcda-cdab-dabc", submitted_at=at(number))))
    query = everything(text="abcdabcd")
    page = await store.find(query)
    assert (page.runs, page.searched_until) == ((), at(2)), "the newest seven of nine"
    assert await all_pages(store, query) == []
    await store.record(Record(replace(a_run(0, name="abcdabcd-xyz"), resource_version=101)))
    assert [run.name for run in await all_pages(store, query)] == ["abcdabcd-xyz"]


async def test_the_index_is_asked_for_what_few_names_have(
    store: HistoryStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(trigrams, "RARE", 3)
    for number in range(4):
        await store.record(Record(a_run(number, name=f"common{'xyz' if number < 2 else ''}")))
    found = await store.database.read(lambda each: store.search.plan(each, everything(text="MONXYZ")))
    assert found == QueryPlan("trigrams", rare=("nxy", "onx", "xyz"))


@pytest.mark.parametrize("other", [{}, {"owners": ("a",)}], ids=["alone", "with an owner"])
async def test_a_page_is_read_by_the_index(store: HistoryStore, other: dict[str, tuple[str, ...]]) -> None:
    dialect = store.database.dialect
    await store.record(Record(a_run(1)))
    cursor = (await store.find(everything(limit=1))).cursor
    for query in (everything(text="seldom", **other), everything(text="seldom", cursor=cursor, **other)):
        statement = page_statement(query, dialect, QueryPlan("trigrams", rare=("sel", "dom")))
        async with store.reading() as connection:
            if dialect == "postgresql":
                await connection.execute(text("SET LOCAL enable_seqscan = off"))
                await connection.execute(text("SET LOCAL enable_indexonlyscan = off"))
            sql = statement.compile(dialect=connection.dialect, compile_kwargs={"literal_binds": True})
            explain = "EXPLAIN QUERY PLAN" if dialect == "sqlite" else "EXPLAIN"
            asked = f"{explain} {sql}".replace(":", r"\:").replace("%%", "%").replace("LIMIT ?", "LIMIT -1")
            plan = await connection.execute(text(asked))
            steps = "\n".join(row[-1] for row in plan)
        if dialect == "sqlite":
            assert "SCAN runs_trigrams VIRTUAL TABLE" in steps
            assert "SEARCH runs USING INTEGER PRIMARY KEY" in steps
            assert "SCAN runs USING" not in steps
        else:
            assert "Bitmap Index Scan on runs_trigrams" in steps


@pytest.mark.parametrize("url", ["sqlite"], indirect=True)
async def test_nothing_of_a_deleted_name_stays_in_sqlites_files(store: HistoryStore, tmp_path: Path) -> None:
    rare = "☃☄☇"
    for number in range(5):
        await store.record(Record(ended(a_run(number))))
    await store.record(Record(ended(a_run(7, display_name=f"a{rare}b"))))
    await store.record(Record(ended(a_run(8, display_name=f"c{rare}d"))))
    assert len((await store.find(everything(text=rare))).runs) == 2
    assert on_disk(tmp_path, rare.encode())
    await erase(store, DirectoryBlobs(tmp_path), [a_run(7).identity, a_run(8).identity], at(0))
    assert not on_disk(tmp_path, rare[:2].encode()) and not on_disk(tmp_path, rare[1:].encode())
    await require_sound(store)


async def test_a_restored_history_has_the_index(store: HistoryStore, tmp_path: Path) -> None:
    await store.record(Record(a_run(1)))
    await backup(store.database, tmp_path / "backup.db")
    async with await HistoryStore.open(f"sqlite:///{tmp_path / 'other.db'}") as restored:
        await restore(restored.database, tmp_path / "backup.db")
        await require_sound(restored)
        assert (await restored.find(everything(text="JOB-1"))).runs == (a_run(1),)


@pytest.mark.parametrize("empty_url", ["sqlite"], indirect=True)
async def test_without_fts5_all_names_are_compared(empty_url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    with monkeypatch.context() as old:
        old.setattr(sqlite3, "sqlite_version_info", (3, 33, 0))
        await (await HistoryStore.open(empty_url)).close()
    await require_plain(empty_url)


@pytest.mark.parametrize("empty_url", ["postgresql"], indirect=True)
async def test_without_the_right_to_an_extension_all_names_are_compared(empty_url: str) -> None:
    engine = _engine(_parsed(empty_url), 30)
    async with engine.begin() as connection:
        await connection.execute(text("CREATE ROLE limited LOGIN"))
        await connection.execute(text("GRANT ALL ON SCHEMA public TO limited"))
    await engine.dispose()
    await require_plain(empty_url.replace("//fournos@", "//limited@"))


async def require_plain(url: str) -> None:
    async with await HistoryStore.open(url) as store:
        assert not store.search.has_trigrams
        await store.record(Record(a_run(1)))
        assert (await store.find(everything(text="JOB-1"))).runs == (a_run(1),)
        await erase(store, DirectoryBlobs(Path("/nonexistent")), [a_run(1).identity], at(0))
        assert (await store.find(everything(text="JOB-1"))).runs == ()
