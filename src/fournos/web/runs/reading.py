"""Reads the parts of a job's page concurrently: none waits for another one, and each has a time-out."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any, Final

from fournos.api.kinds import TASK_RUN
from fournos.api.phase import HOLDING
from fournos.engine.kube.kinds import EVENT
from fournos.engine.kube.resource import Resource
from fournos.history.records import Document
from fournos.insight.children import Children, readable_children, selector
from fournos.insight.dispatch import is_dispatched
from fournos.insight.tasks import Task
from fournos.insight.values import phase_of
from fournos.web.live.following import Watched
from fournos.web.routes import Call
from fournos.web.runs.events import Event, live_events, recorded_events
from fournos.web.runs.parts import PagePart, part
from fournos.web.runs.spans import live_tasks, recorded_tasks
from fournos.web.runs.subject import JobSubject

if TYPE_CHECKING:
    from fournos.history.api.trends import Trends
    from fournos.history.artifacts.rules import Artifact
    from fournos.history.records import Detail
    from fournos.history.results.models import ResultRecord

_FRESH: Final = timedelta(seconds=10)
"""For so long an open tab shows the same parts of the history, unless the job itself changes."""
_KEPT: Final = "parts"


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
    results: PagePart[Sequence[ResultRecord]]
    trends: PagePart[Trends]
    """Of its KPIs, if it has results."""
    artifacts: PagePart[Sequence[Artifact]]
    provenance: PagePart[Mapping[str, Any]]


@dataclass(frozen=True, slots=True)
class _KeptParts:
    """The parts as a live stream has read them."""

    version: str
    """The resourceVersion of the job."""
    changes: int
    """`PageWatches.changes`."""
    at: datetime
    parts: Parts


async def parts(call: Call, about: JobSubject) -> Parts:
    """Reads all parts; an open tab keeps those that have not changed for a while."""
    version = str(about.raw["metadata"].get("resourceVersion"))
    changes = call.following.changes if call.following else 0
    earlier: _KeptParts | None = call.kept.get(_KEPT)
    if earlier and earlier.version == version and call.now - earlier.at < _FRESH:
        if earlier.changes == changes:
            return earlier.parts
        read = replace(earlier.parts, **await _current(call, about))
        call.kept[_KEPT] = replace(earlier, changes=changes, parts=read)
        return read
    read = await (_live(call, about) if about.live else _gone(call, about))
    call.kept[_KEPT] = _KeptParts(version, changes, call.now, read)
    return read


async def follow(call: Call, about: JobSubject) -> None:
    """Has an open tab of a job that runs watch the job's TaskRuns, if the person may.

    Those of a dispatched job are on its worker.
    """
    if call.following is None:
        return
    runs = about.live and phase_of(about.raw) in HOLDING and not is_dispatched(about.raw)
    watched = runs and await call.viewer.rights.may("watch", TASK_RUN, about.namespace)
    tasks = Watched(TASK_RUN, about.namespace, selector(about.raw))
    call.following.want(call.viewer.client.api, [tasks] if watched else [])


async def _live(call: Call, about: JobSubject) -> Parts:
    current, stored = await asyncio.gather(_current(call, about), _stored(call, about))
    return Parts(**current, **stored)


async def _current(call: Call, about: JobSubject) -> dict[str, Any]:
    """The parts that change while the job runs."""
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
