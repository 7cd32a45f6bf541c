"""Finds the object of a configured kind that a user names."""

from __future__ import annotations

import difflib
from collections.abc import Sequence

from fournos.engine.kube.errors import ForbiddenError, KubeError, NoSuchResourceError, NotFoundError
from fournos.engine.kube.resource import Key, Obj
from fournos.engine.queueing.workload import QUEUE_NAME_LABEL
from fournos.insight.errors import FournosError, MissingError
from fournos.insight.frameworks_kinds import words_of
from fournos.insight.source import Source
from fournos.insight.values import name_of
from fournos.systems.frameworks.kinds import Framework


async def find_object(
    source: Source, namespace: str, kinds: Sequence[Framework], text: str
) -> tuple[Framework, Obj]:
    """Returns the object that `text`, a [KIND/]NAME, names, and its kind.

    Raises MissingError if there is none, and FournosError for an unknown kind or if several match.
    """
    kind, _, name = text.rpartition("/")
    meant = [framework for framework in kinds if not kind or kind.lower() in words_of(framework)]
    if not meant:
        known = ", ".join(framework.name for framework in kinds)
        raise FournosError(
            f"{kind} is not a kind that is queued by configuration", fix=f"known: {known}; others: -f FILE"
        )
    there = []
    for framework in meant:
        try:
            there.append((framework, await source.get(framework.resource, Key(namespace, name))))
        except (NotFoundError, NoSuchResourceError):
            continue
        except ForbiddenError:
            if kind:
                raise
    if len(there) == 1:
        return there[0]
    if there:
        choice = " or ".join(f"{framework.resource.kind}/{name}" for framework, _ in there)
        raise FournosError(f"several kinds have a {name}", fix=f"say which: {choice}")
    others = [other for framework in meant for other in await _queued(source, namespace, framework)]
    near = difflib.get_close_matches(name, others, n=3, cutoff=0.6)
    plurals = ",".join(f"{framework.resource.plural}.{framework.resource.group}" for framework in meant)
    look = f"see what there is: kubectl get {plurals} -n {namespace} -l {QUEUE_NAME_LABEL}"
    raise MissingError(
        f"no {' or '.join(framework.resource.kind for framework in meant)} {name} in namespace {namespace}",
        fix=f"did you mean {' or '.join(near)}?" if near else look,
    )


async def _queued(source: Source, namespace: str, framework: Framework) -> list[str]:
    try:
        listed = await source.list(framework.resource, namespace=namespace, selector=QUEUE_NAME_LABEL)
    except KubeError:
        return []
    return [name_of(one) for one in listed.items]
