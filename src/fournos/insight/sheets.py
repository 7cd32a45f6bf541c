"""Objects of the kinds besides FournosJob: lists of them, and one as facts, tables and an explanation."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import TypeAlias

from fournos.api.kinds import APPWRAPPER, MINICLUSTER
from fournos.engine.kube.errors import ForbiddenError, KubeError, NoSuchResourceError
from fournos.engine.kube.resource import Key, Obj, Resource, key_of
from fournos.engine.queueing.workload import QUEUE_NAME_LABEL
from fournos.insight import appwrappers, frameworks, miniclusters
from fournos.insight.errors import MissingError
from fournos.insight.explanation import Explanation
from fournos.insight.facts import everywhere
from fournos.insight.quota import priority_class, queue_name, workload_state
from fournos.insight.source import Source
from fournos.insight.values import (
    between,
    created,
    judged,
    name_of,
    one_line,
    phase_of,
    pod_phase,
    spec_of,
    status_of,
)
from fournos.systems.frameworks.kinds import Framework


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
    explanation: Explanation

    @property
    def command(self) -> str:
        """The command that shows the same."""
        return f"fournos explain {self.kind.lower()}/{self.name}"


# --- lists -----------------------------------------------------------------------------------------------

State: TypeAlias = Callable[[Obj], tuple[str, object]]
"""Returns the phase of an object and its message."""


async def listed(source: Source, namespace: str) -> list[ListedSheets]:
    """The lists of all kinds, concurrently; of all namespaces where the source lets us read them."""
    wanted: list[tuple[Resource, str, State]] = [
        (APPWRAPPER, "", lambda obj: (phase_of(obj), appwrappers.why(obj))),
        (MINICLUSTER, "", lambda obj: (miniclusters.phase_of(obj), status_of(obj).get("message"))),
        *((kind.resource, QUEUE_NAME_LABEL, _state_of(kind)) for kind in frameworks.kinds_of("")),
    ]
    return list(await asyncio.gather(*(_listed(source, namespace, *each) for each in wanted)))


def _state_of(framework: Framework) -> State:
    def state(obj: Obj) -> tuple[str, object]:
        facts = frameworks.FrameworkFacts(framework, obj)
        ended = facts.job.ended()
        return frameworks.phase(facts), ended.message if ended else ""

    return state


async def _listed(
    source: Source, namespace: str, resource: Resource, selector: str, state: State
) -> ListedSheets:
    try:
        objects = await everywhere(source, resource, namespace, selector=selector)
    except NoSuchResourceError:
        return ListedSheets(resource.kind, (), "It is not installed.")
    except ForbiddenError:
        return ListedSheets(resource.kind, (), "You may not list it.")
    except KubeError as error:
        return ListedSheets(resource.kind, (), error.message)
    lines = (_line(obj, state) for obj in sorted(objects, key=created, reverse=True))
    return ListedSheets(resource.kind, tuple(lines))


def _line(obj: Obj, state: State) -> SheetLine:
    phase, message = judged(state, obj, lambda problem: ("Unknown", problem))
    return SheetLine(*key_of(obj), phase, queue_name(obj), created(obj), one_line(message))


# --- one -------------------------------------------------------------------------------------------------


async def sheet(source: Source, kind: str, key: Key, now: datetime) -> Sheet:
    """Reads one object with what belongs to it.  Raises MissingError for an unknown kind, and KubeError."""
    if kind == APPWRAPPER.kind:
        return await _wrapper_sheet(source, await source.get(APPWRAPPER, key), now)
    if kind == MINICLUSTER.kind:
        return await _minicluster_sheet(source, await source.get(MINICLUSTER, key), now)
    framework = next((one for one in frameworks.kinds_of("") if one.resource.kind == kind), None)
    if framework is None:
        raise MissingError(f"{kind} is not a kind that is shown here", fix="see the list of the other kinds")
    obj = await source.get(framework.resource, key)
    facts = await frameworks.gather(source, framework, obj)
    explanation = frameworks.explain(facts)
    return _sheet(obj, frameworks.phase(facts), [], [_workloads(facts.workloads)], explanation)


async def _wrapper_sheet(source: Source, wrapper: Obj, now: datetime) -> Sheet:
    explanation, members = await appwrappers.explained(source, wrapper, now)
    facts = [
        ("User", appwrappers.user_of(wrapper)),
        ("Resets", str(appwrappers.resets(wrapper) or "")),
        ("Message", appwrappers.why(wrapper)),
    ]
    parts = [
        (one.kind, one.name, one.state, "" if one.pods is None else str(one.pods))
        for one in appwrappers.components(wrapper, members)
    ]
    tables = [
        Table("Components", ("Kind", "Name", "State", "Pods"), tuple(parts)),
        _workloads(members.workloads),
        _pods(members.pods),
    ]
    return _sheet(wrapper, phase_of(wrapper), facts, tables, explanation)


async def _minicluster_sheet(source: Source, minicluster: Obj, now: datetime) -> Sheet:
    explanation, pods, workloads = await miniclusters.explained(source, minicluster)
    spec, status = spec_of(minicluster), status_of(minicluster)
    code, most = status.get("exitCode"), status.get("maximumSize")
    facts = [
        ("Size", f"{spec.get('size', 1)}" + (f" of at most {most}" if most else "")),
        ("Ready", str(status.get("ready") or 0)),
        ("Exit code", "" if code is None else str(code)),
        ("Ran", between(status.get("startedAt"), status.get("finishedAt"), now)),
        ("Message", one_line(status.get("message"))),
    ]
    ranks = [miniclusters.rank_of(pod) or "services" for pod in pods]
    tables = [_workloads(workloads), _pods(pods, ranks)]
    return _sheet(minicluster, miniclusters.phase_of(minicluster), facts, tables, explanation)


def _sheet(
    obj: Obj,
    phase: str,
    facts: Sequence[tuple[str, str]],
    tables: Sequence[Table],
    explanation: Explanation,
) -> Sheet:
    general = [
        ("Queue", queue_name(obj)),
        ("Priority", priority_class(obj)),
        ("Managed by", str(spec_of(obj).get("managedBy") or "")),
    ]
    return Sheet(
        str(obj["kind"]),
        *key_of(obj),
        phase,
        tuple((label, text) for label, text in (*general, *facts) if text and text != "-"),
        tuple(one for one in (*tables, _conditions(obj)) if one.rows),
        explanation,
    )


def _workloads(workloads: Iterable[Obj]) -> Table:
    rows = tuple((name_of(one), workload_state(one), created(one)) for one in workloads)
    return Table("Workloads", ("Name", "State", "Created"), rows)


def _pods(pods: Sequence[Obj], ranks: Sequence[str] = ()) -> Table:
    rows = tuple((name_of(pod), pod_phase(pod), str(spec_of(pod).get("nodeName") or "")) for pod in pods)
    if not ranks:
        return Table("Pods", ("Name", "Phase", "Node"), rows)
    ranked = tuple((rank, *row) for rank, row in zip(ranks, rows, strict=True))
    return Table("Pods", ("Rank", "Name", "Phase", "Node"), ranked)


def _conditions(obj: Obj) -> Table:
    names = ("type", "status", "reason", "message")
    conditions = status_of(obj).get("conditions") or ()
    rows = tuple(tuple(one_line(one.get(name)) for name in names) for one in conditions)
    return Table("Conditions", ("Condition", "Status", "Reason", "Message"), rows)
