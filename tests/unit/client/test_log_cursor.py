"""Each line of a stored log is read once, although the containers in front of it go on printing."""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import replace

import pytest

from fournos.client.log_cursor import LogCursor
from fournos.history.logs.models import LogPage, LogPart, StoredLine
from tests.history import at


def page(texts: Sequence[Sequence[str]], first: int = 1, limit: int = 1000) -> LogPage:
    """The page of a log whose containers have printed these lines."""
    parts: list[LogPart] = []
    lines: list[StoredLine] = []
    begin = 1
    for index, printed in enumerate(texts):
        count = len(printed)
        parts.append(
            LogPart(1, f"t{index}", "step-s", f"p{index}", begin, count, 9, False, False, at(0), None, None)
        )
        lines += [StoredLine(begin + place, index, "", text) for place, text in enumerate(printed)]
        begin += count
    shown = tuple(line for line in lines if first <= line.line < first + limit)
    return LogPage(tuple(parts), shown, begin - 1, begin, None, False)


def texts_of(cursor: LogCursor, found: LogPage) -> list[str]:
    return [line.text for line in cursor.take(found)]


def test_a_container_in_front_that_goes_on_moves_no_line_twice() -> None:
    cursor = LogCursor()
    assert texts_of(cursor, page([["a0"], ["b0", "b1"]])) == ["a0", "b0", "b1"]
    grown = [["a0", "a1"], ["b0", "b1"]]
    second = page(grown, first=4)
    assert texts_of(cursor, second) == [], "b1 has the number of the next line"
    assert cursor.following(second) == 2
    third = page(grown, first=2)
    assert texts_of(cursor, third) == ["a1"]
    assert cursor.following(third) == 5


def test_a_page_that_begins_behind_lines_that_came_meanwhile_leaves_none_out() -> None:
    cursor = LogCursor()
    assert texts_of(cursor, page([["a0"], ["b0", "b1"]])) == ["a0", "b0", "b1"]
    grown = [[f"a{number}" for number in range(9)], ["b0", "b1"]]
    found = page(grown, first=4)
    assert texts_of(cursor, found) == [], "a1 and a2 come before a3"
    assert texts_of(cursor, page(grown, first=cursor.following(found))) == grown[0][1:]


@pytest.mark.parametrize("seed", range(20))
def test_every_line_comes_once_and_in_the_order_of_its_container(seed: int) -> None:
    chosen = random.Random(seed)
    containers: list[list[str]] = []
    cursor, begin, read = LogCursor(), 1, list[str]()
    for step in range(300):
        if step < 200 and (not containers or chosen.random() < 0.02):
            containers.insert(chosen.randrange(len(containers) + 1), [])
        if step < 200:
            one = chosen.choice(containers)
            one += [f"{id(one)} {len(one) + place}" for place in range(chosen.randrange(4))]
        found = named(containers, page(containers, begin, limit=chosen.randrange(1, 9)))
        read += texts_of(cursor, found)
        begin = cursor.following(found)
    assert begin == sum(map(len, containers)) + 1
    for one in containers:
        assert [text for text in read if text.startswith(f"{id(one)} ")] == one
    assert len(read) == sum(map(len, containers))


def named(containers: Sequence[Sequence[str]], found: LogPage) -> LogPage:
    """The page with containers that keep their names when another one comes before them."""
    pods = [
        replace(part, task="t", pod=str(id(one))) for part, one in zip(found.parts, containers, strict=True)
    ]
    return replace(found, parts=tuple(pods))


@pytest.mark.parametrize(
    ("first", "tail", "expected"),
    [
        (1, None, ["a0", "a1", "b0", "b1", "b2", "b3"]),
        (4, None, ["b1", "b2", "b3"]),
        (6, None, ["b3"]),
        (7, None, []),
        (1, 1, ["a1", "b1", "b2", "b3"]),
        (1, 0, ["b2", "b3"]),
    ],
)
def test_where_it_begins(first: int, tail: int | None, expected: list[str]) -> None:
    cursor = LogCursor(first=first, tail=tail)
    before = page([["a0", "a1"], ["b0", "b1"]], first)
    found = texts_of(cursor, before)
    after = page([["a0", "a1"], ["b0", "b1", "b2", "b3"]], cursor.following(before))
    assert found + texts_of(cursor, after) == expected
