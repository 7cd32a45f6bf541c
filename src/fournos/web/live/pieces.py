"""The pieces of a page: each has an id, so that only those that changed are sent to an open tab.

In a template, `{% call live("job-" ~ job.uid, "tr") %}<td>…</td>{% endcall %}` renders one.  Pieces may stand
in pieces.  A piece whose own markup is unchanged, the pieces in it left out, is not sent again.
"""

from __future__ import annotations

import hashlib
import secrets
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Final

from markupsafe import Markup, escape

ROOT = "main"
"""The id of the piece that holds all others."""
CSRF: Final = secrets.token_hex(24)
"""Stands in pieces for the token of a form, which is of one session while pieces are of many.

No object can hold it: it is made anew by each process and leaves none.
"""


@dataclass(frozen=True, slots=True)
class Piece:
    html: str
    """The element with everything in it."""
    frame: str
    """The element with a mark in place of each piece in it."""
    inner: tuple[str, ...]
    """The ids of the pieces directly in it."""


def digest(pieces: Mapping[str, Piece]) -> str:
    """Returns the identity of a rendered page, the same in all replicas."""
    return hashlib.sha256(pieces[ROOT].html.replace(CSRF, "").encode()).hexdigest()[:16]


class Pieces:
    """Collects the pieces while a template is rendered; it is the template's `live`."""

    def __init__(self) -> None:
        self.found: dict[str, Piece] = {}
        self._open: list[list[str]] = []

    def __call__(self, id: str, tag: str = "div", *, caller: Callable[[], str], **attributes: str) -> Markup:
        """Renders one piece.  `attributes`: class_ for class, hyphens as underscores.

        Raises ValueError if the page has another piece with this id.
        """
        self._open.append([])
        content = str(caller())
        inner = self._open.pop()
        if id in self.found:
            raise ValueError(f"two pieces of the page have the id {id}")
        given = "".join(
            f' {name.rstrip("_").replace("_", "-")}="{escape(value)}"' for name, value in attributes.items()
        )
        start, end = f'<{tag} id="{escape(id)}"{given}>', f"</{tag}>"
        frame = content
        for one in inner:
            frame = frame.replace(self.found[one].html, f"\0{one}\0", 1)
        self.found[id] = Piece(f"{start}{content}{end}", f"{start}{frame}{end}", tuple(inner))
        if self._open:
            self._open[-1].append(id)
        return Markup(self.found[id].html)  # noqa: S704 - the content was rendered by the template


def changed(old: Mapping[str, Piece], new: Mapping[str, Piece], at: str = ROOT) -> Iterator[tuple[str, str]]:
    """Yields id and element of each piece to replace; a replaced piece brings the pieces in it."""
    before, now = old.get(at), new[at]
    if before is None or before.frame != now.frame:
        yield at, now.html
        return
    for one in now.inner:
        yield from changed(old, new, one)
