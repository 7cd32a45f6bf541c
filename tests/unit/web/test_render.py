"""Filters of templates."""

from __future__ import annotations

import re

import pytest

from fournos.web.render import LONGEST_CELL, words


@pytest.mark.parametrize(
    ("value", "shown"),
    [
        ("ann", "ann"),
        ("", "–"),
        ("ann-lee@example.org", "ann-<wbr>lee@<wbr>example.<wbr>org"),
        ("team/a--b", "team/<wbr>a--<wbr>b"),
        ("<b>-&", "&lt;b&gt;-<wbr>&amp;"),
    ],
)
def test_a_name_breaks_after_its_punctuation(value: str, shown: str) -> None:
    assert re.sub(r"</?span[^>]*>", "", words(value)) == shown


def test_only_parts_that_fit_a_column_keep_together() -> None:
    assert words("ann-lee").startswith('<span class="words">')
    assert words("a-" + "x" * 25) == "a-<wbr>" + "x" * 25


def test_a_name_is_cut_as_each_text_of_a_row() -> None:
    assert len(words("ab-" * LONGEST_CELL).striptags()) == LONGEST_CELL
