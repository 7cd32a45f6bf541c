"""What a job's page shows besides the job: read side by side, each with its own time-out."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterable, Mapping, Sequence
from contextlib import aclosing
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any, Final, cast

from fournos.api.kinds import Resource
from fournos.client.errors import FournosError
from fournos.client.jobs import AsyncJob
from fournos.client.logs import LogLine
from fournos.history.logs.stored import FailingLine, first_failed
from fournos.history.records import Document
from fournos.insight.children import Children, Task, readable_children
from fournos.insight.errors import KubeError
from fournos.insight.failure import Category, Failure, failure
from fournos.insight.source import EVENT
from fournos.insight.starting import read_events
from fournos.insight.values import Obj, is_terminal, moment, one_line, phase_of
from fournos.web.pages.logs import plain
from fournos.web.runs.subject import JobSubject, PagePart, part
from fournos.web.runs.timeline import live_tasks, recorded_tasks
from fournos.web.site import Call

if TYPE_CHECKING:
    from fournos.history.api.comparisons import Trends
    from fournos.history.artifacts import Artifact
    from fournos.history.records import Detail
    from fournos.history.results.models import Test


@dataclass(frozen=True, slots=True)
class Event:
    at: str
    """RFC 3339; "" if it is not known."""
    type: str
    reason: str
    about: str
    note: str
    count: int


def live_events(objs: Iterable[Obj]) -> list[Event]:
    """Events of the API events.k8s.io/v1, the newest first."""
    return recorded_events(map(_as_recorded, objs))


def _as_recorded(event: Obj) -> dict[str, Any]:
    """Returns the entry that the document of the history has for the event."""
    series, about = event.get("series") or {}, event.get("regarding") or {}
    at = series.get("lastObservedTime") or event.get("eventTime") or event.get("deprecatedLastTimestamp")
    return {
        **event,
        "kind": about.get("kind"),
        "name": about.get("name"),
        "at": at or event["metadata"].get("creationTimestamp"),
        "count": series.get("count") or event.get("deprecatedCount"),
    }


def recorded_events(document: Any) -> list[Event]:
    """The document of the history, the newest first."""
    rows = [
        Event(
            _time(event.get("at")),
            str(event.get("type") or ""),
            str(event.get("reason") or ""),
            f"{event.get('kind')} {event.get('name')}",
            one_line(event.get("note")),
            int(event.get("count") or 1),
        )
        for event in document or ()
    ]
    return sorted(rows, key=lambda event: event.at, reverse=True)


def _time(text: Any) -> str:
    return str(text) if moment(text) else ""


# --- the parts ------------------------------------------------------------------------------------


_FRESH: Final = 10.0
"""Seconds for which a page shows the same parts of the history, unless the job itself changes."""


@dataclass(frozen=True, slots=True)
class Parts:
    """What a job's page shows besides the job."""

    starting: tuple[Obj, ...]
    """Events about pods that have not started."""
    children: PagePart[Children]
    forbidden: Sequence[Resource]
    """Kinds of dependents that the person may not read."""
    tasks: PagePart[Mapping[str, Sequence[Task]]]
    """By PipelineRun."""
    events: PagePart[Sequence[Event]]
    recorded: PagePart[Detail]
    """The job in the history."""
    results: PagePart[Sequence[Test]]
    trends: PagePart[Trends]
    """Of its KPIs, if it has results."""
    artifacts: PagePart[Sequence[Artifact]]
    provenance: PagePart[Mapping[str, Any]]


async def parts(call: Call, about: JobSubject) -> Parts:
    """Reads all parts."""
    if not about.live:
        return await _gone(call, about)
    current, stored = await asyncio.gather(_current(call, about), _stored(call, about))
    return Parts(**current, **stored)


async def _current(call: Call, about: JobSubject) -> dict[str, Any]:
    """The parts that change while the job runs."""
    key = ("current", call.viewer.key, about.uid, phase_of(about.raw))
    return await call.site.memo.get(
        key, _FRESH if is_terminal(about.raw) else 0.0, partial(_read_current, call, about)
    )


async def _read_current(call: Call, about: JobSubject) -> dict[str, Any]:
    api = call.viewer.client.api
    listing = api.list(EVENT, namespace=about.namespace, fields=f"regarding.uid={about.uid}")
    owned, events = await asyncio.gather(part(readable_children(api, about.raw)), part(listing))
    return {
        "starting": await read_events(api, owned.value[0]) if owned.value else (),
        "children": owned.map(lambda readable: readable[0]),
        "forbidden": owned.value[1] if owned.value else (),
        "tasks": owned.map(lambda readable: live_tasks(readable[0])),
        "events": events.map(lambda event_list: live_events(event_list.items)),
    }


async def _gone(call: Call, about: JobSubject) -> Parts:
    tasks, events, stored = await asyncio.gather(
        part(_document(call, about, Document.TASKS)),
        part(_document(call, about, Document.EVENTS)),
        _stored(call, about),
    )
    return Parts(
        starting=(),
        children=PagePart(Children()),
        forbidden=(),
        tasks=tasks.map(recorded_tasks),
        events=events.map(recorded_events),
        **stored,
    )


async def _stored(call: Call, about: JobSubject) -> dict[str, Any]:
    """The parts that only the history has."""
    version = str(about.raw["metadata"].get("resourceVersion"))
    key = ("stored", call.viewer.key, about.uid, version)
    return await call.site.memo.get(key, _FRESH, partial(_read_stored, call, about))


async def _read_stored(call: Call, about: JobSubject) -> dict[str, Any]:
    history, where = call.viewer.client.history, about.namespace
    recorded, results, artifacts, provenance = await asyncio.gather(
        part(history.run(about.uid, namespace=where)),
        part(history.results(about.uid, namespace=where)),
        part(history.artifacts(about.uid, namespace=where)),
        part(_document(call, about, Document.PROVENANCE)),
    )
    trends: PagePart[Trends] = PagePart()
    if results.value:
        trends = await part(history.trends(about.uid, namespace=where))
    return {
        "recorded": recorded,
        "results": results,
        "trends": trends,
        "artifacts": artifacts,
        "provenance": provenance,
    }


async def _document(call: Call, about: JobSubject, document: Document) -> Any:
    history = call.viewer.client.history
    run = about.run or (await history.run(about.uid, namespace=about.namespace)).run
    return await history.document(run, document)


# --- why it failed --------------------------------------------------------------------------------


_TAIL: Final = 300
"""The last lines of each container that are searched where the history has no log."""
_FRESH_LINE: Final = 30.0
"""Seconds after which a page looks for the line again."""
_WAITED: Final = 1.0
"""Seconds that the page waits for a log; a later line is in its next rendering."""


def failed(job: Obj, parts: Parts) -> Failure | None:
    """The first error of a job that failed; None for any other job."""
    if phase_of(job) != "Failed":
        return None
    run = parts.recorded.value.run if parts.recorded.value else None
    if run and run.failure in set(Category) and not (parts.children.value and parts.children.value.runs):
        # What the recorder found while the dependents existed.
        return Failure(Category(run.failure), one_line(run.message))
    return failure(job, parts.children.value) if parts.children.value is not None else None


async def error_line(call: Call, about: JobSubject, first: Failure | None) -> str:
    """The line of the log that shows why a benchmark failed; "" for other failures, or if it has none."""
    if first is None or first.category is not Category.BENCHMARK:
        return ""
    version = str(about.raw["metadata"].get("resourceVersion"))
    key = ("first error", call.viewer.key, about.uid, version)
    read = call.site.memo.get(key, _FRESH_LINE, partial(_read, call, about, first.task))
    return plain((await part(read, patience=_WAITED)).value or "")


async def _read(call: Call, about: JobSubject, task: str) -> str:
    """Raises FournosError and KubeError."""
    history = call.viewer.client.history
    try:
        stored = first_failed(await history.stored_logs(about.uid, task=task, namespace=about.namespace))
        if stored is not None:
            return stored.failing_text
    except (FournosError, KubeError):
        pass  # the pods may still have it
    failing, number = FailingLine(), 0
    lines = AsyncJob(call.viewer.client, about.raw).logs(task=task or None, tail=_TAIL)
    async with aclosing(cast(Any, lines)) as found:
        async for line in cast(AsyncIterator[LogLine], found):
            if not line.notice:
                number += 1
                failing.feed(number, line.text)
    return failing.found[1] if failing.found else ""
