"""The queue: who waits, in order, each with its reason; the quota, and what of it is short."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Mapping, Set
from contextlib import suppress
from functools import partial
from typing import Any, Final

from fournos.api.kinds import FOURNOS_JOB, Resource
from fournos.client.errors import FournosError
from fournos.history.estimates import Typical
from fournos.insight import fleet, queues
from fournos.insight.queues import QueueEntry
from fournos.insight.values import short
from fournos.web.errors import PageError
from fournos.web.site import Call, Page

ROWS: Final = 20
"""The entries on one page."""
_FRESH: Final = 30.0
"""Seconds for which estimates are shown before they are made again."""
_PATIENCE: Final = 1.0
"""Seconds that the page waits for estimates; later ones are in its next rendering."""
_ESTIMATES: Final = Resource("history.fournos.dev", "v1", "Estimate", "estimates")
"""What rules of the history's API name."""
_NAMESPACES: Final = 8
"""Estimates are made for the jobs of one namespace after the other, of at most so many."""


async def gather(call: Call) -> Mapping[str, Any]:
    source, namespace = call.viewer.source, call.site.jobs_namespace
    ways = await queues.ways(source, namespace)
    name = call.query.get("queue") or next(iter(ways), "")
    if name and name not in ways:
        raise PageError(404, "Not here", f"No LocalQueue that you may read leads to {name}.")
    first = _number(call.query.get("from", ""))
    board = await queues.board(source, ways[name], call.now, first=first, most=ROWS) if name else None
    entries = board.entries if board else ()
    return {
        "names": tuple(ways),
        "name": name,
        "board": board,
        "first": first,
        "rows": ROWS,
        "estimates": _starts(entries, await _typical(call, {one.namespace for one in entries})),
        "job_kind": FOURNOS_JOB.kind,
    }


def _starts(
    entries: Iterable[QueueEntry], jobs: Mapping[tuple[str, str], Typical]
) -> dict[tuple[str, str, str], str]:
    """Returns (namespace, kind, name) → when it starts, of those for which the history knows enough."""
    texts: dict[tuple[str, str, str], str] = {}
    for entry in entries:
        job = jobs.get((entry.namespace, entry.name)) if entry.kind == FOURNOS_JOB.kind else None
        if job and entry.place and not entry.kept and (wait := job.starts_in(entry.place)) is not None:
            texts[entry.namespace, entry.kind, entry.name] = f"in about {short(wait)}"
    return texts


async def _typical(call: Call, namespaces: Set[str]) -> dict[tuple[str, str], Typical]:
    """Returns namespace and name → how long the kind of the job takes."""
    jobs: dict[tuple[str, str], Typical] = {}
    rights = await call.viewer.rights.permission_class()
    for namespace in sorted(namespaces)[:_NAMESPACES]:
        # Asked here, so that only persons with this right share what is kept.
        if not await call.viewer.rights.may("list", _ESTIMATES, namespace):
            continue
        ask = partial(call.viewer.client.history.estimates, namespace=namespace)
        with suppress(FournosError, TimeoutError):
            async with asyncio.timeout(_PATIENCE):
                estimates = await call.site.memo.get(("estimates", rights, namespace), _FRESH, ask)
            jobs |= {(one.namespace, one.name): one for one in estimates}
    return jobs


def _number(text: str) -> int:
    """The place of the first shown entry; 1 for anything that is not a place."""
    return max(1, int(text)) if text.isascii() and text.isdecimal() and len(text) < 9 else 1


PAGE: Final = Page(
    name="queue",
    title="Queue",
    path="/queue",
    gather=gather,
    watched=fleet.KINDS,
    command="fournos queue{jobs}",
)
