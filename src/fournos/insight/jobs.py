"""Jobs: which of them are meant, their row in lists, and how one is stopped, held and released."""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Self

from fournos.api.phase import ACTIVE, HOLDING, NEW, Phase, run_times
from fournos.engine.kube.errors import NotFoundError
from fournos.engine.kube.resource import Key, Obj, Resource, key_of, uid_of
from fournos.insight.errors import FournosError, MissingError
from fournos.insight.source import Source
from fournos.insight.values import (
    created,
    display_name,
    hardware,
    is_terminal,
    moment,
    name_of,
    one_line,
    phase_of,
    short,
    since,
    spec_of,
    status_of,
)
from fournos.systems.jobs.names import CONFIRMS_LABEL
from fournos.systems.schedules.names import SCHEDULE_UID_LABEL

_LABEL = re.compile(r"(?P<name>[^\s=!()]+)\s*==?\s*(?P<value>[^\s=!()]*)")


def wanted_phases(given: Sequence[str]) -> frozenset[str]:
    """Returns the names of phases; an empty set means all.  Raises FournosError for an unknown phase."""
    names = {phase.value.lower(): phase.value for phase in Phase} | {NEW.lower(): NEW}
    result: set[str] = set()
    for word in (part.strip() for text in given for part in text.split(",") if part.strip()):
        if word.lower() == "active":
            result |= ACTIVE
        elif word.lower() in names:
            result.add(names[word.lower()])
        else:
            raise FournosError(
                f"{word} is not a phase", fix="write one of active, " + ", ".join(names.values())
            )
    return frozenset(result)


def wanted_labels(text: str) -> dict[str, str]:
    """Returns the values by label of `name=value`, several with commas, blanks around them, `==` as well.

    Raises FournosError for the other forms of a selector: the history compares labels for equality alone.
    """
    labels: dict[str, str] = {}
    for part in filter(None, map(str.strip, text.split(","))):
        label = _LABEL.fullmatch(part)
        if label is None:
            raise FournosError(
                f"{part!r} is not a label with its value", fix="write name=value, several with commas"
            )
        labels[label["name"]] = label["value"]
    return labels


def matches(job: Obj, *, phases: frozenset[str], owner: str | None, cluster: str | None) -> bool:
    """True if the job matches all filters.  `cluster` matches the assigned or the requested cluster."""
    if phases and phase_of(job) not in phases:
        return False
    if owner and spec_of(job).get("owner") != owner:
        return False
    return not cluster or cluster in (cluster_of(job), spec_of(job).get("cluster"))


def cluster_of(job: Obj) -> str:
    """The assigned cluster, else the requested cluster, else "-"."""
    return str(status_of(job).get("cluster") or spec_of(job).get("cluster") or "-")


def missing(
    name: str, others: Sequence[str], namespace: str, *, command: str = "fournos list", what: str = "jobs"
) -> str:
    """Returns advice for a name that does not exist: similar names, or where to look."""
    near = difflib.get_close_matches(name, others, n=3, cutoff=0.6)
    if near:
        return "did you mean " + " or ".join(near) + "?"
    if not others:
        return f"namespace {namespace} has no {what}: choose another with -n, or submit one"
    return f"see what there is: {command}; other namespaces: {command} -A"


async def named(source: Source, resource: Resource, key: Key, *, noun: str, command: str) -> Obj:
    """Reads the object of this name.  Raises MissingError, with similar names, if there is none."""
    try:
        return await source.get(resource, key)
    except NotFoundError:
        others = [name_of(obj) for obj in (await source.list(resource, namespace=key.namespace)).items]
        raise MissingError(
            f"no {noun} {key.name} in namespace {key.namespace}",
            fix=missing(key.name, others, key.namespace, command=command, what=f"{noun}s"),
        ) from None


def newest_first(jobs: Iterable[Obj]) -> list[Obj]:
    """Sorts by creation time, the newest first; jobs of the same second are sorted by name."""
    return sorted(sorted(jobs, key=name_of), key=created, reverse=True)


def of_a_person(labels: Mapping[str, str]) -> bool:
    """True unless a schedule, or the rerun of a regression, has made the job with these labels."""
    return SCHEDULE_UID_LABEL not in labels and CONFIRMS_LABEL not in labels


def last(jobs: Sequence[Obj], *, owner: str, namespace: str) -> Obj:
    """Returns the newest job that a person has submitted, of `owner` unless that is "".

    Raises MissingError if there is none.
    """
    own = (job for job in jobs if not owner or spec_of(job).get("owner") == owner)
    mine = [job for job in own if of_a_person(job["metadata"].get("labels") or {})]
    if not mine:
        whose = f" of {owner} (FOURNOS_OWNER)" if owner else ""
        raise MissingError(
            f"no job{whose} in namespace {namespace}",
            fix="choose another namespace with -n, or submit a job",
        )
    return newest_first(mine)[0]


@dataclass(frozen=True, slots=True)
class JobRow:
    """A job in a list.  Times are in RFC 3339; a text is "" where there is nothing to show."""

    namespace: str
    name: str
    uid: str
    title: str
    """The name for display."""
    phase: str
    owner: str
    cluster: str
    hardware: str
    submitted: str
    started: str
    """When its last run began (`fournos.api.phase.run_times`)."""
    ended: str
    message: str
    live: bool = True
    """False if only the history has it."""
    labels: Mapping[str, str] = field(default_factory=dict, hash=False)

    @classmethod
    def of(cls, job: Obj) -> Self:
        """Returns the row of a live job."""
        started, ended = run_times(job)
        return cls(
            namespace=key_of(job).namespace,
            name=key_of(job).name,
            uid=uid_of(job),
            title=display_name(job),
            phase=phase_of(job),
            owner=str(spec_of(job).get("owner") or ""),
            cluster=cluster_of(job).removeprefix("-"),
            hardware=hardware(job).removeprefix("-"),
            submitted=created(job),
            started=started,
            ended=ended,
            message=one_line(status_of(job).get("message")),
            labels=job["metadata"].get("labels") or {},
        )

    @property
    def ran(self) -> str:
        """How long it ran; "" until it has ended."""
        started, ended = moment(self.started), moment(self.ended)
        return short(ended - started) if started and ended else ""


@dataclass(frozen=True, slots=True)
class JobChange:
    """What a request to stop, hold or release a job comes to."""

    message: str
    """For the user."""
    spec: Obj | None = None
    """The fields of the spec to write; None if no write is needed."""
    ended: bool = False
    """True if the job has already ended."""


def decide_stop(job: Obj, *, now: bool, clock: datetime) -> JobChange:
    """Decides how a job is stopped.

    `now` requests Terminate instead of Stop; `clock` is the current time.
    """
    name, phase = name_of(job), phase_of(job)
    shutdown = "Terminate" if now else "Stop"
    current = spec_of(job).get("shutdown")
    if is_terminal(job):
        return JobChange(f"{_ended(job, clock)} Nothing to stop.", ended=True)
    if job["metadata"].get("deletionTimestamp"):
        return JobChange(f"{name} is being deleted, which stops it.")
    if current == shutdown:
        return JobChange(f"{name} is being stopped already ({current}).")
    if current == "Terminate":
        return JobChange(f"{name} is being terminated already; a gentler stop is no longer possible.")
    how = "terminating, finally tasks are skipped" if now else "stopping, its finally tasks run"
    if phase not in HOLDING:
        how = "stopping, nothing of it runs yet"
    return JobChange(f"{name}: {how}. Follow it: fournos watch {name}", spec={"shutdown": shutdown})


def decide_hold(job: Obj, *, clock: datetime) -> JobChange:
    """Decides how a job is kept from running until it is released."""
    name, spec = name_of(job), spec_of(job)
    if is_terminal(job):
        return JobChange(f"{_ended(job, clock)} Nothing to hold.", ended=True)
    if job["metadata"].get("deletionTimestamp") or spec.get("shutdown"):
        return JobChange(f"{name} is being stopped: it does not run again.")
    if spec.get("suspend"):
        return JobChange(f"{name} is held already.")
    under_way = phase_of(job) in HOLDING
    how = "its run is stopped, its finally tasks run" if under_way else "it leaves the queue"
    return JobChange(f"{name} is held: {how}. Queue it again: fournos release {name}", spec={"suspend": True})


def decide_release(job: Obj, *, clock: datetime) -> JobChange:
    """Decides how a held job goes on."""
    name = name_of(job)
    if is_terminal(job):
        return JobChange(f"{_ended(job, clock)} Nothing to release.", ended=True)
    if not spec_of(job).get("suspend"):
        return JobChange(f"{name} is not held.")
    return JobChange(f"{name} is released: it is queued again.", spec={"suspend": False})


def _ended(job: Obj, clock: datetime) -> str:
    finished = (status_of(job).get("phaseTimes") or {}).get("finished")
    ago = f" {since(finished, clock)} ago" if finished else ""
    return f"{name_of(job)} has ended already: {phase_of(job)}{ago}."
