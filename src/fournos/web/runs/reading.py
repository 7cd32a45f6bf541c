"""Reads the parts of a job's page concurrently: none waits for another one, and each has a time-out."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any, Final

from fournos.engine.kube.resource import EVENT, Resource
from fournos.history.records import Document
from fournos.insight.children import Children, readable_children
from fournos.insight.tasks import Task
from fournos.insight.values import is_terminal, phase_of
from fournos.web.routes import Call
from fournos.web.runs.events import Event, live_events, recorded_events
from fournos.web.runs.parts import PagePart, part
from fournos.web.runs.spans import live_tasks, recorded_tasks
from fournos.web.runs.subject import JobSubject

if TYPE_CHECKING:
    from fournos.history.api.trends import Trends
    from fournos.history.artifacts.rules import Artifact
    from fournos.history.records import Detail
    from fournos.history.results.models import Test

_FRESH: Final = 10.0
"""Seconds for which a page shows the same parts of the history, unless the job itself changes."""


@dataclass(frozen=True, slots=True)
class Parts:
    """What a job's page shows besides the job."""

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
