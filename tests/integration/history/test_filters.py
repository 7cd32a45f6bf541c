"""Every filter, alone and with others: the right runs, by an index."""

from __future__ import annotations

import random
import re
from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import text

from fournos.history.records import Query, Record, Run
from fournos.history.store import Store, pages, reads
from fournos.history.store.pages import page_statement
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
        asked["text"] = source.choice(("LLAMA", "strasse", "%_", "job-1", "nowhere", "again"))
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


async def all_pages(store: Store, query: Query) -> list[Run]:
    found: list[Run] = []
    while True:
        page = await store.find(query)
        found += page.runs
        if not page.cursor:
            return found
        query = replace(query, cursor=page.cursor)


@pytest.fixture
async def filled(store: Store) -> AsyncIterator[tuple[Store, list[Run]]]:
    made = make(random.Random(1))
    for run in made:
        await store.record(Record(run))
    yield store, made


@pytest.mark.parametrize("probed", [2_000, 40], ids=["few runs", "many runs"])
async def test_any_query_finds_what_matches(
    filled: tuple[Store, list[Run]], probed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pages, "_PROBED", probed)
    monkeypatch.setattr(pages, "_PROBED_WITH_TEXT", probed)
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


@pytest.mark.parametrize(
    ("filters", "leading"),
    [
        ({"pipelines": ("rare",), "labels": {"team": "a"}}, "pipelines"),
        ({"pipelines": ("common",), "labels": {"team": "b"}}, "labels"),
        ({"pipelines": ("common",), "owners": ("y", "z")}, "owners"),
        ({"pipelines": ("rare",), "text": "job"}, "pipelines"),
        ({"pipelines": ("common",), "text": "job"}, "text"),
        ({"pipelines": ("common",), "text": "job", "since": at(5)}, "pipelines"),
        ({"pipelines": ("common",)}, None),
        ({"name": "job-1", "pipelines": ("common",)}, None),
    ],
    ids=str,
)
async def test_the_filter_that_leaves_the_fewest_runs_leads(
    store: Store, filters: dict[str, Any], leading: str | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pages, "_PROBED", 5)
    monkeypatch.setattr(pages, "_PROBED_WITH_TEXT", 5)
    for number in range(7):
        rare = number == 6
        fields = {"pipeline": "rare" if rare else "common", "owner": "xyz"[number % 3]}
        await store.record(Record(a_run(number, **fields, labels={"team": "b" if rare else "a"})))
    query = everything(**filters)
    assert await store.database.read(lambda connection: reads.leading(connection, query)) == leading


PLANS = {
    "nothing": (everything(), "runs_time"),
    "time": (everything(since=at(1), until=at(2)), "runs_time"),
    "owner": (everything(owners=("a",)), "runs_owner"),
    "owners": (everything(owners=("a", "b")), "runs_owner"),
    "phase": (everything(phases=("a",)), "runs_phase"),
    "target": (everything(targets=("a",)), "runs_target"),
    "pipeline": (everything(pipelines=("a",)), "runs_pipeline"),
    "fingerprint": (everything(fingerprints=("a",)), "runs_fingerprint"),
    "kind": (everything(kinds=("a",)), "runs_kind"),
    "namespace": (Query(namespaces=("a",)), "runs_namespace_uid"),
    "name": (everything(name="a"), "runs_name"),
    "uid": (everything(uid="a", name="b"), "runs_uid"),
    "namespace's name": (everything(namespace="a"), "runs_namespace"),
    "label": (everything(labels={"a": "b"}), "labels_value"),
    "text": (everything(text="a"), "runs_text"),
    "label and phase": (everything(labels={"a": "b"}, phases=("c",)), "labels_value"),
    "owner and text": (everything(owners=("a",), text="b"), "runs_owner"),
    "owner and text that leads": (everything(owners=("a",), text="b"), "runs_text", "text"),
    "label and a phase that leads": (everything(labels={"a": "b"}, phases=("c",)), "runs_phase", "phases"),
    "phase and owner": (everything(phases=("a", "b"), owners=("c",)), "runs_owner"),
    "many namespaces": (Query(namespaces=tuple(map(str, range(500)))), "runs_time"),
    "many namespaces, one owner": (
        Query(namespaces=tuple(map(str, range(500))), owners=("a",)),
        "runs_owner",
    ),
}


async def plan(store: Store, query: Query, leading: str | None) -> list[str]:
    statement = page_statement(query, "sqlite", leading)
    assert statement is not None
    async with store.reading() as connection:
        sql = statement.compile(dialect=connection.dialect, compile_kwargs={"literal_binds": True})
        explained = await connection.execute(text(f"EXPLAIN QUERY PLAN {sql}".replace(":", r"\:")))
        return [row.detail for row in explained]


@pytest.mark.parametrize("continued", [False, True], ids=["first page", "next page"])
@pytest.mark.parametrize("planned", PLANS.values(), ids=PLANS.keys())
async def test_sqlite_reads_a_page_by_its_index(
    tmp_path: Path, planned: tuple[Any, ...], continued: bool
) -> None:
    query, index, *leading = planned
    async with await Store.open(f"sqlite:///{tmp_path / 'history.db'}") as store:
        if continued:
            for number in range(2):
                await store.record(Record(a_run(number)))
            query = replace(query, cursor=(await store.find(everything(limit=1))).cursor)
        steps = await plan(store, query, leading[0] if leading else None)
    keyed = next((number for number, step in enumerate(steps) if index in step), None)
    assert keyed is not None, steps
    walked = index in ("runs_time", "runs_text")
    assert steps[keyed].startswith("SEARCH") or walked, steps
    # An index in the order of the page is read as far as the page goes; before a sort it is read to its end.
    assert "TEMP B-TREE" not in steps[keyed + 1], steps
    whole = [step for step in steps if re.match(r"SCAN (runs|leading|labels)", step) and index not in step]
    assert whole == [], steps
