"""Reads the parts of a job's page side by side; none waits for another one, or for ever."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import TYPE_CHECKING, Any, Final

from fournos.history.records import Document
from fournos.insight.children import Children, readable_children
from fournos.insight.tasks import Task
from fournos.kube.kinds import EVENT
from fournos.kube.resource import Resource
from fournos.web.routes import Call
from fournos.web.runs.events import Event, live_events, recorded_events
from fournos.web.runs.parts import Part, part
from fournos.web.runs.spans import live_tasks, recorded_tasks
from fournos.web.runs.subject import Subject

if TYPE_CHECKING:
    from fournos.history.api.models import RunDetail
    from fournos.history.artifacts.rules import Artifact
    from fournos.history.results.models import ResultRecord

_FRESH: Final = timedelta(seconds=10)
"""For so long an open tab shows the same parts, unless the job itself changes."""
_KEPT: Final = "parts"


@dataclass(frozen=True, slots=True)
class Parts:
    """What a job's page shows besides the job."""

    children: Part[Children]
    forbidden: Sequence[Resource]
    """Kinds of dependents that the person may not read."""
    tasks: Part[Mapping[str, Sequence[Task]]]
    """By PipelineRun."""
    events: Part[Sequence[Event]]
    recorded: Part[RunDetail]
    """The job in the history."""
    results: Part[Sequence[ResultRecord]]
    artifacts: Part[Sequence[Artifact]]
    provenance: Part[Mapping[str, Any]]


async def parts(call: Call, about: Subject) -> Parts:
    """Reads all parts; an open tab keeps those of a job that has not changed for a while."""
    version = about.raw["metadata"].get("resourceVersion")
    kept = call.kept.get(_KEPT)
    if kept and kept[0] == version and call.now - kept[1] < _FRESH:
        found: Parts = kept[2]
        return found
    found = await (_live(call, about) if about.live else _gone(call, about))
    call.kept[_KEPT] = version, call.now, found
    return found


async def _live(call: Call, about: Subject) -> Parts:
    api = call.viewer.client.api
    listing = api.list(EVENT, namespace=about.namespace, fields=f"regarding.uid={about.uid}")
    owned, events, stored = await asyncio.gather(
        part(readable_children(api, about.raw)), part(listing), _stored(call, about)
    )
    return Parts(
        children=owned.map(lambda found: found[0]),
        forbidden=owned.value[1] if owned.value else (),
        tasks=owned.map(lambda found: live_tasks(found[0])),
        events=events.map(lambda found: live_events(found.items)),
        **stored,
    )


async def _gone(call: Call, about: Subject) -> Parts:
    tasks, events, stored = await asyncio.gather(
        part(_document(call, about, Document.TASKS)),
        part(_document(call, about, Document.EVENTS)),
        _stored(call, about),
    )
    return Parts(
        children=Part(Children()),
        forbidden=(),
        tasks=tasks.map(recorded_tasks),
        events=events.map(recorded_events),
        **stored,
    )


async def _stored(call: Call, about: Subject) -> dict[str, Any]:
    """The parts that only the history has."""
    history, where = call.viewer.client.history, about.namespace
    recorded, results, artifacts, provenance = await asyncio.gather(
        part(history.run(about.uid, namespace=where)),
        part(history.results(about.uid, namespace=where)),
        part(history.artifacts(about.uid, namespace=where)),
        part(_document(call, about, Document.PROVENANCE)),
    )
    return {"recorded": recorded, "results": results, "artifacts": artifacts, "provenance": provenance}


async def _document(call: Call, about: Subject, document: Document) -> Any:
    history = call.viewer.client.history
    run = about.run or (await history.run(about.uid, namespace=about.namespace)).run
    return await history.document(run, document)
