"""Shows a handle, or a list of handles, in notebooks and terminals.  All values are untrusted and escaped."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from html import escape
from typing import TYPE_CHECKING, Final, Protocol

from fournos.api.phase import Phase

if TYPE_CHECKING:
    from rich.text import Text

_OF_STYLE: Final = {"green": "green", "bold red": "red", "magenta": "purple", "bold blue": "blue"}
_COLOURS: Final = {
    "Ready": "green",  # of MiniClusters
    **{phase.value: _OF_STYLE.get(phase.traits.style, "inherit") for phase in Phase},
}
_MANY: Final = 100
"""Lists show this number of rows."""


class Displayed(Protocol):
    """What is displayed of a view."""

    @property
    def name(self) -> str:
        """The name of the object."""

    def _state(self) -> str:
        """The state in one or a few words."""

    def _shown(self) -> list[tuple[str, str]]:
        """Label and text of each fact."""

    def _link(self) -> str:
        """The address of a page about the object; "" if there is none."""


def html(view: Displayed) -> str:
    """HTML of one object: its name, its state and a table of its facts."""
    rows = [_row(name, escape(text)) for name, text in view._shown()]
    url = view._link()
    if url.startswith(("https://", "http://")):
        rows.append(_row("Run", f'<a href="{escape(url)}" rel="noopener noreferrer">{escape(url)}</a>'))
    head = f"<b>{escape(view.name)}</b> {_state(view._state())}"
    return f"<div>{head}<table>{''.join(rows)}</table></div>"


def _row(name: str, cell: str) -> str:
    return f"<tr><th>{name}</th><td>{cell}</td></tr>"


def _state(text: str) -> str:
    return f'<span style="color:{_COLOURS.get(text, "inherit")}">{escape(text)}</span>'


def html_table(views: Sequence[Displayed]) -> str:
    """HTML of a list: one row an object, with its state and its facts; at most 100 rows."""
    shown = [(view, dict(view._shown())) for view in views[:_MANY]]
    titles = list(dict.fromkeys(title for _, facts in shown for title in facts))
    head = "".join(f"<th>{title}</th>" for title in ("Name", "State", *titles))
    body = "".join(_line(view, facts, titles) for view, facts in shown)
    more = len(views) - len(shown)
    rest = f"<p>and {more} more</p>" if more > 0 else ""
    return f"<div><table><tr>{head}</tr>{body}</table>{rest}</div>"


def _line(view: Displayed, facts: dict[str, str], titles: Iterable[str]) -> str:
    cells = [escape(view.name), _state(view._state()), *(escape(facts.get(title, "")) for title in titles)]
    return f"<tr>{''.join(f'<td>{cell}</td>' for cell in cells)}</tr>"


def text(view: Displayed) -> Text:
    """The same for terminals, by rich.  Control characters are escaped."""
    from rich.text import Text

    from fournos.engine.api.values import escaped_line

    lines = [Text.assemble((escaped_line(view.name), "bold"), "  ", escaped_line(view._state()))]
    lines += [Text.assemble((f"  {name:<10} ", "dim"), escaped_line(value)) for name, value in view._shown()]
    return Text("\n").join(lines)
