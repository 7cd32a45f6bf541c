"""Pieces of a page: what an open tab is sent after a change."""

from __future__ import annotations

from collections.abc import Mapping

import pytest
from jinja2 import Environment

from fournos.web.live.pieces import ROOT, Piece, Pieces, changed

TABLE = """{% call live("rows", "tbody") %}{% for name, text in rows.items() %}
{%- call live("row-" ~ name, "tr") %}<td>{{ text }}</td>{% endcall %}
{%- endfor %}{% endcall %}<p>{{ sum }}</p>"""


def render(rows: Mapping[str, str], sum: str = "") -> Mapping[str, Piece]:
    live = Pieces()
    template = Environment(autoescape=True).from_string(TABLE)
    live(ROOT, "main", caller=lambda: template.render(live=live, rows=rows, sum=sum))
    return live.found


def test_the_whole_page_holds_all_pieces() -> None:
    assert render({"a": "1"})[ROOT].html == (
        '<main id="main"><tbody id="rows"><tr id="row-a"><td>1</td></tr></tbody><p></p></main>'
    )


@pytest.mark.parametrize(
    ("before", "after", "sent"),
    [
        ({"a": "1", "b": "1"}, {"a": "1", "b": "1"}, []),
        ({"a": "1", "b": "1"}, {"a": "1", "b": "2"}, ["row-b"]),
        ({"a": "1", "b": "1"}, {"a": "1"}, ["rows"]),
        ({"a": "1"}, {"a": "1", "b": "1"}, ["rows"]),
        ({"a": "1", "b": "2"}, {"b": "2", "a": "1"}, ["rows"]),
    ],
    ids=["nothing", "one row", "a row went", "a row came", "another order"],
)
def test_only_what_changed_is_sent(before: dict[str, str], after: dict[str, str], sent: list[str]) -> None:
    assert [at for at, _ in changed(render(before), render(after))] == sent


def test_outside_of_all_inner_pieces_the_page_is_sent() -> None:
    assert [at for at, _ in changed(render({"a": "1"}, "x"), render({"a": "1"}, "y"))] == [ROOT]


def test_two_rows_with_the_same_text_keep_their_places() -> None:
    found = dict(changed(render({"a": "1", "b": "1"}), render({"a": "2", "b": "1"})))
    assert found == {"row-a": '<tr id="row-a"><td>2</td></tr>'}


def test_markup_in_values_and_ids_is_escaped() -> None:
    found = render({'"><script>': "<script>alert(1)</script>"})[ROOT].html
    assert "<script>" not in found


def test_one_id_twice_is_refused() -> None:
    live = Pieces()
    live("a", caller=lambda: "")
    with pytest.raises(ValueError, match="two pieces"):
        live("a", caller=lambda: "")
