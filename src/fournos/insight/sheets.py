"""Objects of the kinds besides FournosJob: lists of them, and one as facts, tables and an explanation."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import partial
from typing import Final

from fournos.api.kinds import APPWRAPPER, MINICLUSTER
from fournos.engine.kube.errors import ForbiddenError, KubeError, NoSuchResourceError
from fournos.engine.kube.resource import Key, Obj, Resource, key_of
from fournos.engine.queueing.workload import QUEUE_NAME_LABEL
from fournos.insight import appwrappers, dispatch, miniclusters
from fournos.insight.errors import MissingError
from fournos.insight.explanation import Explanation
from fournos.insight.facts import everywhere
from fournos.insight.frameworks import FrameworkFacts, explain, gather, kinds_of, phase
from fournos.insight.quota import WORKLOAD, priority_class, queue_name, workload_state
from fournos.insight.source import Source
from fournos.insight.values import (
    between,
    created,
    name_of,
    one_line,
    phase_of,
    pod_phase,
    spec_of,
    status_of,
)
from fournos.systems.frameworks.kinds import Framework

DISPATCH: Final = "Dispatch"
"""The name of the list of jobs that run on other clusters."""


@dataclass(frozen=True, slots=True)
class SheetLine:
    """An object of a list."""

    namespace: str
    name: str
    phase: str
    queue: str
    created: str
    message: str


@dataclass(frozen=True, slots=True)
class ListedSheets:
    """The objects of a kind, the newest first."""

    kind: str
    lines: tuple[SheetLine, ...]
    problem: str = ""
    """Why they could not be read; "" if they were."""


@dataclass(frozen=True, slots=True)
class Table:
    title: str
    header: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]


@dataclass(frozen=True, slots=True)
class Sheet:
    """One object."""

    kind: str
    namespace: str
    name: str
    phase: str
    facts: tuple[tuple[str, str], ...]
    """Label and text of each fact that is known."""
    tables: tuple[Table, ...]
    """Those with rows."""
    explanation: Explanation | None
    command: str
    """The command that explains the same."""


# --- lists -----------------------------------------------------------------------------------------------


async def listed(source: Source, namespace: str) -> list[ListedSheets]:
    """The lists of all kinds, concurrently; of all namespaces where the source lets us read them."""

    async def of_kind(kind: str, read: Callable[[], Awaitable[Iterable[SheetLine]]]) -> ListedSheets:
        try:
            lines = sorted(await read(), key=lambda line: line.created, reverse=True)
        except NoSuchResourceError:
            return ListedSheets(kind, (), "It is not installed.")
        except ForbiddenError:
            return ListedSheets(kind, (), "You may not list it.")
        except KubeError as error:
            return ListedSheets(kind, (), error.message)
        return ListedSheets(kind, tuple(lines))

    async def objects(resource: Resource, line: Callable[[Obj], SheetLine]) -> list[SheetLine]:
        return [line(one) for one in await everywhere(source, resource, namespace)]

    return list(
        await asyncio.gather(
            of_kind(APPWRAPPER.kind, lambda: objects(APPWRAPPER, _wrapper)),
            of_kind(MINICLUSTER.kind, lambda: objects(MINICLUSTER, _minicluster)),
            *(
                of_kind(kind.resource.kind, partial(_framework, source, namespace, kind))
                for kind in kinds_of("")
            ),
            of_kind(DISPATCH, lambda: _dispatched(source, namespace)),
        )
    )


def _line(obj: Obj, state: str, message: object) -> SheetLine:
    return SheetLine(*key_of(obj), state, queue_name(obj), created(obj), one_line(message))


def _wrapper(obj: Obj) -> SheetLine:
    return _line(obj, phase_of(obj), appwrappers.why(obj))


def _minicluster(obj: Obj) -> SheetLine:
    return _line(obj, miniclusters.phase_of(obj), status_of(obj).get("message"))


async def _framework(source: Source, namespace: str, kind: Framework) -> list[SheetLine]:
    try:
        objs = (await source.list(kind.resource, selector=QUEUE_NAME_LABEL)).items
    except ForbiddenError:
        objs = (await source.list(kind.resource, namespace=namespace, selector=QUEUE_NAME_LABEL)).items
    lines = []
    for obj in objs:
        state = FrameworkFacts(kind, obj)
        ended = state.job.ended()
        lines.append(_line(obj, phase(state), ended.message if ended else ""))
    return lines


async def _dispatched(source: Source, namespace: str) -> list[SheetLine]:
    checks = await dispatch.checks_by_name(source)
    if not checks:
        return []
    dispatched = [
        (workload, dispatch.entry_of(workload, checks))
        for workload in await everywhere(source, WORKLOAD, namespace)
    ]
    return [
        SheetLine(
            key_of(workload).namespace,
            dispatch.job_name(workload),
            dispatch.state_of(workload, entry),
            str(spec_of(workload).get("queueName") or ""),
            created(workload),
            f"on {dispatch.worker_of(workload)}"
            if dispatch.worker_of(workload)
            else one_line(entry.get("message")),
        )
        for workload, entry in dispatched
        if entry
    ]


# --- one -------------------------------------------------------------------------------------------------


async def sheet(source: Source, kind: str, key: Key, now: datetime) -> Sheet:
    """Reads one object with what belongs to it.  Raises MissingError for an unknown kind, and KubeError."""
    if kind == APPWRAPPER.kind:
        return await _wrapper_sheet(source, await source.get(APPWRAPPER, key), now)
    if kind == MINICLUSTER.kind:
        return await _minicluster_sheet(source, await source.get(MINICLUSTER, key), now)
    if kind == DISPATCH:
        return await _dispatch_sheet(source, key)
    framework = next((one for one in kinds_of("") if one.resource.kind == kind), None)
    if framework is None:
        raise MissingError(f"{kind} is not a kind that is shown here", fix="see the list of the other kinds")
    obj = await source.get(framework.resource, key)
    facts = await gather(source, framework, obj)
    return _sheet(
        obj,
        phase(facts),
        [],
        [_workloads(facts.workloads)],
        explain(facts),
        f"fournos explain {kind.lower()}/{key.name}",
    )


async def _wrapper_sheet(source: Source, wrapper: Obj, now: datetime) -> Sheet:
    explanation, belongings = await appwrappers.explained(source, wrapper, now)
    parts = [
        (one.kind, one.name, one.state, "" if one.pods is None else str(one.pods))
        for one in appwrappers.components(wrapper, belongings)
    ]
    return _sheet(
        wrapper,
        phase_of(wrapper),
        [
            ("User", appwrappers.user_of(wrapper)),
            ("Resets", str(appwrappers.resets(wrapper) or "")),
            ("Message", appwrappers.why(wrapper)),
        ],
        [
            Table("Components", ("Kind", "Name", "State", "Pods"), tuple(parts)),
            _workloads(belongings.workloads),
            _pods(belongings.pods, [""] * len(belongings.pods)),
        ],
        explanation,
        f"fournos explain appwrapper/{name_of(wrapper)}",
    )


async def _minicluster_sheet(source: Source, minicluster: Obj, now: datetime) -> Sheet:
    pods, queued = await asyncio.gather(
        miniclusters.pods(source, minicluster), miniclusters.workloads(source, minicluster)
    )
    spec, status = spec_of(minicluster), status_of(minicluster)
    code, most = status.get("exitCode"), status.get("maximumSize")
    return _sheet(
        minicluster,
        miniclusters.phase_of(minicluster),
        [
            ("Size", f"{spec.get('size', 1)}" + (f" of at most {most}" if most else "")),
            ("Ready", str(status.get("ready") or 0)),
            ("Exit code", "" if code is None else str(code)),
            ("Ran", between(status.get("startedAt"), status.get("finishedAt"), now)),
            ("Message", one_line(status.get("message"))),
        ],
        [_workloads(queued), _pods(pods, [miniclusters.rank_of(pod) or "services" for pod in pods])],
        None,
        f"fournos explain minicluster/{name_of(minicluster)}",
    )


async def _dispatch_sheet(source: Source, key: Key) -> Sheet:
    known = await dispatch.checks_by_name(source)
    workload = await dispatch.workload_named(source, *key)
    entry, check = dispatch.dispatch_of(workload, known)
    return _sheet(
        {**workload, "kind": DISPATCH, "metadata": {**workload["metadata"], "name": key.name}},
        dispatch.state_of(workload, entry),
        dispatch.here(workload, entry, check),
        [],
        None,
        f"fournos explain dispatch/{key.name}",
    )


def _sheet(
    obj: Obj,
    state: str,
    facts: Sequence[tuple[str, str]],
    tables: Sequence[Table],
    explained: Explanation | None,
    command: str,
) -> Sheet:
    general = [
        ("Queue", queue_name(obj) or str(spec_of(obj).get("queueName") or "")),
        ("Priority", priority_class(obj)),
        ("Managed by", str(spec_of(obj).get("managedBy") or "")),
    ]
    shown = [*general, *facts]
    return Sheet(
        str(obj["kind"]),
        *key_of(obj),
        state,
        tuple((label, text) for label, text in shown if text and text != "-"),
        tuple(one for one in (*tables, _conditions(obj)) if one.rows),
        explained,
        command,
    )


def _workloads(found: Iterable[Obj]) -> Table:
    rows = tuple((name_of(one), workload_state(one), created(one)) for one in found)
    return Table("Workloads", ("Name", "State", "Created"), rows)


def _pods(pods: Sequence[Obj], ranks: Sequence[str]) -> Table:
    rows = tuple(
        (rank, name_of(pod), pod_phase(pod), str(spec_of(pod).get("nodeName") or ""))
        for rank, pod in zip(ranks, pods, strict=True)
    )
    if any(ranks):
        return Table("Pods", ("Rank", "Name", "Phase", "Node"), rows)
    return Table("Pods", ("Name", "Phase", "Node"), tuple(row[1:] for row in rows))


def _conditions(obj: Obj) -> Table:
    names = ("type", "status", "reason", "message")
    found = status_of(obj).get("conditions") or ()
    rows = tuple(tuple(one_line(one.get(name)) for name in names) for one in found)
    return Table("Conditions", ("Condition", "Status", "Reason", "Message"), rows)
