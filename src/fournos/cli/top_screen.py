"""What `fournos top` shows: its state, what each key changes, and the lines of the screen.  Pure."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any, Final

from rich.text import Text

from fournos.cli.formatting import phase_text
from fournos.cli.output import table
from fournos.insight.overview import ClusterLine, GpuCounts, JobLine, Overview, waiting_text
from fournos.insight.values import count, since

_ORDERS: Final[dict[str, Callable[[JobLine], Any]]] = {
    "time": lambda one: 0,  # the order of the overview itself: by age, and by place in the queue
    "owner": lambda one: one.owner,
    "cluster": lambda one: one.cluster,
    "GPUs": lambda one: -one.gpus,
    "name": lambda one: one.name,
}
ORDERS: Final = tuple(_ORDERS)
HELP: Final = "q quit   s sort   r reverse   / filter   Esc no filter   up, down, PgUp, PgDn scroll"
_BAR: Final = 10
"""The columns of the bar of a cluster's GPUs."""


@dataclass(frozen=True, slots=True)
class Screen:
    """The state that keys change."""

    order: str = ORDERS[0]
    reverse: bool = False
    filter: str = ""
    typing: bool = False
    """True while the user types the filter."""
    offset: int = 0
    """The number of body lines above the screen."""


def press(screen: Screen, key: str, *, page: int) -> Screen | None:
    """Returns the state after a key, None to quit.  `page` is the number of body lines on the screen."""
    if key == "interrupt":
        return None
    if screen.typing:
        return _type(screen, key)
    match key:
        case "q" | "Q":
            return None
        case "s":
            following = ORDERS[(ORDERS.index(screen.order) + 1) % len(ORDERS)]
            return replace(screen, order=following, offset=0)
        case "r":
            return replace(screen, reverse=not screen.reverse, offset=0)
        case "/":
            return replace(screen, typing=True, offset=0)
        case "escape":
            return replace(screen, filter="", offset=0)
    moves = {"up": -1, "k": -1, "down": 1, "j": 1, "page up": -page, "page down": page}
    return replace(screen, offset=max(0, screen.offset + moves.get(key, 0)))


def _type(screen: Screen, key: str) -> Screen:
    match key:
        case "enter":
            return replace(screen, typing=False)
        case "escape":
            return replace(screen, typing=False, filter="")
        case "backspace":
            return replace(screen, filter=screen.filter[:-1])
    return replace(screen, filter=screen.filter + key) if len(key) == 1 else screen


def lines(
    overview: Overview, screen: Screen, now: datetime, *, width: int, height: int, watch_error: str = ""
) -> list[Text]:
    """Returns exactly `height` lines: a title, a part of the body, and the help or the filter."""
    shown = chosen(overview, screen)
    inner = body(shown, now, width=width)
    room = max(1, height - 2)
    first = min(screen.offset, max(0, len(inner) - room))
    part = inner[first : first + room]
    part += [Text()] * (room - len(part))
    title, foot = _title(overview, screen, now), _foot(screen, watch_error, len(inner) - first - room)
    for line in (title, foot):
        line.truncate(width, overflow="ellipsis")
    return [title, *part, foot][:height]


def furthest(found: Overview, screen: Screen, now: datetime, *, width: int, height: int) -> int:
    """The largest useful offset."""
    return max(0, len(body(chosen(found, screen), now, width=width)) - max(1, height - 2))


def _title(overview: Overview, screen: Screen, now: datetime) -> Text:
    used = sum(gpus.used for one in overview.clusters for gpus in one.gpus)
    total = sum(gpus.total for one in overview.clusters for gpus in one.gpus)
    order = f"by {screen.order}{', reversed' if screen.reverse else ''}"
    facts = [
        now.strftime("%H:%M:%SZ"),
        count(len(overview.clusters), "cluster"),
        f"{used} of {count(total, 'GPU')} in use",
        f"{len(overview.running)} running",
        waiting_text(len(overview.waiting), sum(job.held for job in overview.waiting)),
        order,
    ]
    return Text.assemble(("fournos top", "bold"), "  ", "  ".join(facts))


def _foot(screen: Screen, watch_error: str, below: int) -> Text:
    if screen.typing:
        return Text(f"filter: {screen.filter}_   Enter keeps it, Esc drops it", style="bold")
    if watch_error:
        return Text(f"Connection lost, trying again: {watch_error}", style="yellow")
    filtered = f"filter: {screen.filter}   " if screen.filter else ""
    more = f"{below} more below   " if below > 0 else ""
    return Text(f"{filtered}{more}{HELP}", style="dim")


def chosen(overview: Overview, screen: Screen) -> Overview:
    """Filters and sorts the overview."""
    text = screen.filter.lower()

    def picked(rows: Iterable[JobLine]) -> tuple[JobLine, ...]:
        shown_rows = [row for row in rows if not text or text in _words(row)]
        shown_rows.sort(key=_ORDERS[screen.order])
        return tuple(reversed(shown_rows)) if screen.reverse else tuple(shown_rows)

    clusters = [
        cluster
        for cluster in overview.clusters
        if not text
        or text in f"{cluster.name} {cluster.owner}".lower()
        or any(text in _words(job) for job in overview.running if job.cluster == cluster.name)
    ]
    return Overview(tuple(clusters), picked(overview.running), picked(overview.waiting))


def _words(one: JobLine) -> str:
    return f"{one.namespace}/{one.name} {one.owner} {one.cluster} {one.phase}".lower()


def body(overview: Overview, now: datetime, *, width: int | None) -> list[Text]:
    """Returns the three tables: clusters, running jobs, waiting jobs."""
    result: list[Text] = []
    for title, rows in (
        ("Clusters", _clusters(overview.clusters, width)),
        ("Running", _running(overview.running, now, width)),
        ("Waiting", _waiting(overview.waiting, now, width)),
    ):
        result += [Text(title, style="bold"), *(rows or [Text("  none", style="dim")]), Text()]
    return result[:-1]


def _clusters(found: Sequence[ClusterLine], width: int | None) -> list[Text]:
    rows = [(f"  {one.name}", one.state, one.owner or "-", str(one.jobs), _gpus(one.gpus)) for one in found]
    return table(("  NAME", "STATE", "LOCKED FOR", "JOBS", "GPUS USED"), rows, width=width) if rows else []


def _gpus(gpus: Sequence[GpuCounts]) -> Text:
    result = Text()
    for gpu in gpus:
        filled = min(_BAR, -(-_BAR * gpu.used // gpu.total)) if gpu.total else _BAR * bool(gpu.used)
        style = "red" if gpu.used >= gpu.total else "green"
        result.append(f"{gpu.type} {gpu.used}/{gpu.total} ")
        result.append("#" * filled, style=style)
        result.append(f"{'.' * (_BAR - filled)}  ")
    result.rstrip()
    return result if gpus else Text("-")


def _running(jobs: Sequence[JobLine], now: datetime, width: int | None) -> list[Text]:
    rows = [
        (
            f"  {job.namespace}/{job.name}",
            phase_text(job.phase),
            job.owner or "-",
            job.cluster or "-",
            job.hardware,
            since(job.since, now),
        )
        for job in jobs
    ]
    header = ("  JOB", "PHASE", "OWNER", "CLUSTER", "GPUS", "FOR")
    return table(header, rows, width=width) if rows else []


def _waiting(jobs: Sequence[JobLine], now: datetime, width: int | None) -> list[Text]:
    rows = [
        (
            f"  {job.namespace}/{job.name}",
            phase_text(job.phase),
            job.owner or "-",
            str(job.place or "-"),
            job.hardware,
            since(job.since, now),
            job.reason or "-",
        )
        for job in jobs
    ]
    header = ("  JOB", "PHASE", "OWNER", "PLACE", "GPUS", "FOR", "WHY")
    return table(header, rows, width=width, spare=("GPUS", "OWNER", "PHASE")) if rows else []
