"""Filters of templates."""

from __future__ import annotations

import re

import pytest

from fournos.web.pages.all_pages import PAGES
from fournos.web.render import LONGEST_CELL, Assets, Frame, Link, Renderer, words
from fournos.web.site import Page


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


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_every_page_marks_one_entry_of_the_navigation(page: Page) -> None:
    nav = [Link(each.title, each.path) for each in PAGES if each.in_nav]
    frame = Frame(page.title, nav, page.path, under=page.under)
    html = Renderer(Assets()).whole(frame, "")
    assert len(re.findall(r'aria-current="(?:page|true)"', html)) == 1
