"""The containers of a job whose logs are stored.  Pure."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

from fournos.engine.kube.resource import Obj, key_of, owner_uids, uid_of
from fournos.history.logs.models import RESOLVER_ATTEMPT, StartedContainer
from fournos.insight.children import RUN_LABEL, Children, label_of, task_of
from fournos.insight.log_sources import RESOLVER
from fournos.insight.values import created, moment, name_of, spec_of, status_of
from fournos.systems.jobs.names import ATTEMPT_LABEL

_STATES: Final = ("running", "terminated")


def containers_of(children: Children) -> tuple[StartedContainer, ...]:
    """Returns the started containers of all attempts and of the resolver."""
    resolvers = frozenset(map(uid_of, children.resolve_jobs))
    attempts = {name_of(run): label_of(run, ATTEMPT_LABEL) for run in children.runs}
    result: list[StartedContainer] = []
    for pod in children.pods:
        if owner_uids(pod) & resolvers:
            result += _started(pod, RESOLVER, RESOLVER_ATTEMPT)
        else:
            number = attempts.get(label_of(pod, RUN_LABEL)) or label_of(pod, ATTEMPT_LABEL) or "1"
            result += _started(pod, task_of(pod), int(number))
    return tuple(result)


def states(pod: Obj) -> Iterator[tuple[str, dict[str, Any], bool]]:
    """Yields the name and the state of each container that has started, and whether it has ended."""
    for status in status_of(pod).get("containerStatuses") or ():
        state = status.get("state") or {}
        reached = next((state[name] for name in _STATES if name in state), None)
        if reached is not None:
            yield str(status["name"]), reached or {}, "terminated" in state


def _started(pod: Obj, task: str, attempt: int) -> Iterator[StartedContainer]:
    names = [one["name"] for one in spec_of(pod).get("containers") or ()]
    for name, state, ended in states(pod):
        began = moment(state.get("startedAt")) or moment(created(pod))
        assert began is not None
        yield StartedContainer(
            pod=key_of(pod),
            pod_uid=uid_of(pod),
            name=name,
            task=task,
            attempt=attempt,
            position=names.index(name) if name in names else len(names),
            started_at=began,
            ended_at=(moment(state.get("finishedAt")) or began) if ended else None,
            exit_code=int(state.get("exitCode") or 0) if ended else None,
        )
