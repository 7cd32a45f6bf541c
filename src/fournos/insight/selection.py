"""Selects jobs by phase, labels, owner and cluster, and objects by name, with advice for a misspelt one."""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterable, Sequence

from fournos.api.phase import ACTIVE, NEW, Phase
from fournos.engine.kube.errors import NotFoundError
from fournos.engine.kube.resource import Key, Obj, Resource
from fournos.insight.errors import FournosError, MissingError
from fournos.insight.source import Source
from fournos.insight.values import created, name_of, phase_of, spec_of, status_of

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
    name: str, others: Sequence[str], namespace: str, *, command: str = "fournos", what: str = "jobs"
) -> str:
    """Returns advice for a name that does not exist: similar names, or where to look."""
    near = difflib.get_close_matches(name, others, n=3, cutoff=0.6)
    if near:
        return "did you mean " + " or ".join(near) + "?"
    if not others:
        return f"namespace {namespace} has no {what}: choose another with -n, or submit one"
    return f"see what there is: {command} list; other namespaces: {command} list -A"


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


def last(jobs: Sequence[Obj], *, owner: str, namespace: str) -> Obj:
    """Returns the newest job, of `owner` unless that is "".  Raises MissingError if there is none."""
    mine = [job for job in jobs if not owner or spec_of(job).get("owner") == owner]
    if not mine:
        whose = f" of {owner} (FOURNOS_OWNER)" if owner else ""
        raise MissingError(
            f"no job{whose} in namespace {namespace}",
            fix="choose another namespace with -n, or submit a job",
        )
    return newest_first(mine)[0]
