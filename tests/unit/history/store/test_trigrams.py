"""The trigrams that an index is asked for come from all over a text, and are ones that it has."""

from __future__ import annotations

from itertools import pairwise

import pytest

from fournos.history.store import trigrams


@pytest.mark.parametrize(
    ("words", "dialect", "wanted"),
    [
        ("ab", "sqlite", ()),
        ("ABC", "sqlite", ("abc",)),
        ("a-b\n", "sqlite", ("a-b", "-b\n")),
        ("aaaaa", "sqlite", ("aaa",)),
        ("a-b-c", "postgresql", ()),
        ("ab-Cde1", "postgresql", ("cde", "de1")),
        ("straßé1", "postgresql", ("str", "tra", "ras", "ass")),
    ],
)
def test_of_a_text(words: str, dialect: str, wanted: tuple[str, ...]) -> None:
    assert trigrams.of(words, dialect) == wanted


@pytest.mark.parametrize("length", range(11, 60))
def test_of_a_long_text_there_are_eight(length: int) -> None:
    text = "".join(map(chr, range(0x4E00, 0x4E00 + length)))
    found = trigrams.of(text, "sqlite")
    assert len(found) == 8
    assert (found[0], found[-1]) == (text[:3], text[-3:])
    starts = [text.index(each) for each in found]
    steps = {after - before for before, after in pairwise(starts)}
    assert max(steps) - min(steps) <= 1


def test_the_rarest_lead() -> None:
    asked = ("abc", "bcd", "cde", "def", "efg", "fgh")
    assert trigrams.rare(asked, (5, trigrams.RARE, 0, 7, 1, 3)) == ("cde", "efg", "fgh", "abc")
