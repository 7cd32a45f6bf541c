"""The queue: who waits, in order, each with its reason; the quota, and what of it is short."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from fournos.insight import queue_board
from fournos.jobs.kinds import FOURNOS_JOB
from fournos.web.errors import PageError
from fournos.web.routes import Call, Page

ROWS: Final = 100
"""The entries on one page."""


async def gather(call: Call) -> Mapping[str, Any]:
    source, namespace = call.viewer.source, call.site.jobs_namespace
    ways = await queue_board.ways(source, namespace)
    name = call.query.get("queue") or next(iter(ways), "")
    if name and name not in ways:
        raise PageError(404, "Not here", f"No LocalQueue that you may read leads to {name}.")
    first = _number(call.query.get("from", ""))
    found = await queue_board.read(source, ways[name], call.now, first=first, most=ROWS) if name else None
    return {
        "names": tuple(ways),
        "name": name,
        "board": found,
        "first": first,
        "rows": ROWS,
        "job_kind": FOURNOS_JOB.kind,
    }


def _number(text: str) -> int:
    """The place of the first shown entry; 1 for anything that is no place."""
    return max(1, int(text)) if text.isascii() and text.isdecimal() and len(text) < 9 else 1


PAGE: Final = Page(
    name="queue",
    title="Queue",
    path="/queue",
    gather=gather,
    watched=queue_board.KINDS,
    command="fournos queue",
)
