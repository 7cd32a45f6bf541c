"""Pieces of a page: what an open tab is sent after a change."""

from __future__ import annotations

from collections.abc import Mapping

import pytest
from jinja2 import Environment

from fournos.web.live.pieces import ROOT, ROW_SIZE, Piece, Pieces, RenderedRows, changed

TABLE = """{% call live("rows", "tbody") %}{% for name, text in rows.items() %}
{%- call live("row-" ~ name, "tr") %}<td>{{ text }}</td>{% endcall %}
{%- endfor %}{% endcall %}<p>{{ sum }}</p>"""


def render(rows: Mapping[str, str], sum: str = "") -> Mapping[str, Piece]:
    live = Pieces("table", RenderedRows())
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
    live = Pieces("table", RenderedRows())
    live("a", caller=lambda: "")
    with pytest.raises(ValueError, match="two pieces"):
        live("a", caller=lambda: "")


# --- rows that are kept ---------------------------------------------------------------------------


def test_a_row_is_rendered_again_when_what_it_shows_is_another() -> None:
    rows, rendered = RenderedRows(), []

    def row(of: object, *, id: str = "row", template: str = "table") -> Piece:
        def content() -> str:
            rendered.append(of)
            return f"<td>{of}</td>"

        live = Pieces(template, rows)
        live(ROOT, "main", caller=lambda: live(id, "tr", of=of, caller=content))
        assert live.found[ROOT].inner == (id,)
        return live.found[id]

    first = row(("ann", 1))
    assert row(("ann", 1)) is first
    assert rendered == [("ann", 1)]
    assert row(("ann", 2)).html == "<tr id=\"row\"><td>('ann', 2)</td></tr>"
    row(("ann", 1), id="other")
    row(("ann", 1), template="another")
    assert rendered == [("ann", 1), ("ann", 2), ("ann", 1), ("ann", 1)]


def test_few_and_small_rows_are_kept() -> None:
    rows, rendered = RenderedRows(most=2), []

    def row(id: str, size: int = 1) -> None:
        def content() -> str:
            rendered.append(id)
            return "x" * size

        Pieces("table", rows)(id, "tr", of="same", caller=content)

    for id in ("a", "b", "a", "c", "a", "b"):
        row(id)
    assert rendered == ["a", "b", "c", "b"], "b was shown the longest ago when c came"
    for _ in range(2):
        row("large", ROW_SIZE)
    assert rendered[4:] == ["large", "large"]


def test_a_row_that_is_kept_has_no_pieces_in_it() -> None:
    live = Pieces("table", RenderedRows())
    with pytest.raises(ValueError, match="has pieces in it"):
        live("row", "tr", of="x", caller=lambda: live("cell", "td", caller=lambda: ""))


def test_one_id_twice_is_refused_for_rows_that_are_kept() -> None:
    live = Pieces("table", RenderedRows())
    live("row", of="x", caller=lambda: "")
    with pytest.raises(ValueError, match="two pieces"):
        live("row", of="x", caller=lambda: "")
