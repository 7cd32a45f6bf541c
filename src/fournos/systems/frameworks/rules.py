"""Admission of configured kinds, pure: defaulting at creation, and validation of later changes.

At creation an object with a queue name is held for its queue, `managedBy` is set if the queue dispatches to
other clusters, and a kind that cannot be placed later is placed.  After that the object can be released only
when the queue has admitted it.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from typing import Any, Final

from fournos.engine.api.conditions import is_true
from fournos.engine.api.rules import Violation
from fournos.engine.kube.resource import Key, Obj, controls, is_terminating, joined, nested, read, uid_of
from fournos.engine.queueing.ensure import prebuilt_name
from fournos.engine.queueing.job import MULTIKUEUE, Ancestor
from fournos.engine.queueing.kinds import WORKLOAD
from fournos.engine.queueing.managed_by import check_questions, cluster_queue_of, dispatches, queue_question
from fournos.engine.queueing.observe import ancestor_questions, live_ancestor
from fournos.engine.queueing.podsets import PodSetInfoError, RequestsError, queue_name
from fournos.engine.queueing.workload import JOB_UID_LABEL, QUEUE_NAME_LABEL
from fournos.engine.runtime.decision import Facts, LiveGet, LiveList, Present, Question, Unknown
from fournos.engine.runtime.webhook.review import Request, Review, Webhook
from fournos.systems.frameworks import kinds
from fournos.systems.frameworks.build import PlacementPatch, flavor_questions, place, pod_sets, requests_of
from fournos.systems.frameworks.kinds import Framework
from fournos.systems.frameworks.queued import QueuedObject, annotations_of, queued

_QUEUE_AT: Final = f"metadata.labels[{QUEUE_NAME_LABEL}]"
_HELD_AT: Final = f"metadata.annotations[{kinds.HELD_ANNOTATION}]"


def webhooks(frameworks: tuple[Framework, ...]) -> tuple[Webhook, ...]:
    """Returns one webhook per kind.

    Its match conditions exclude objects without a queue name, and updates of other fields.
    """
    return tuple(_webhook(one) for one in frameworks)


def _webhook(framework: Framework) -> Webhook:
    resource = framework.resource
    group = resource.group.replace(".", "-")
    return Webhook(
        kind="mutating",
        name=f"{resource.plural}.{resource.group}",
        configuration="fournos-frameworks",
        path=f"/mutate-{group}-{resource.version}-{resource.kind.lower()}",
        resources=(resource,),
        operations=("CREATE", "UPDATE"),
        review=partial(review, framework=framework),
        conditions=tuple(_conditions(framework)),
    )


def _conditions(framework: Framework) -> Iterator[tuple[str, str]]:
    def value(root: str, path: str) -> str:
        return root + "".join(f".?{name}" for name in path.split("."))

    def entry(root: str, what: str, key: str) -> str:
        return f"{root}.metadata.?{what}[?'{key}']"

    queued_now, queued_then = (
        f"'{QUEUE_NAME_LABEL}' in {one}.metadata.?labels.orValue({{}})" for one in ("object", "oldObject")
    )
    yield "queued", f"{queued_now} || (request.operation == 'UPDATE' && {queued_then})"
    pairs = [
        (value(root, framework.hold.path), *(entry(root, what, key) for what, key in _watched(framework)))
        for root in ("object", "oldObject")
    ]
    differs = " || ".join(f"{now} != {then}" for now, then in zip(*pairs, strict=True))
    yield "changed", f"request.operation == 'CREATE' || {differs}"


def _watched(framework: Framework) -> tuple[tuple[str, str], ...]:
    """Returns the labels and annotations whose changes are reviewed."""
    return (
        ("labels", QUEUE_NAME_LABEL),
        ("annotations", kinds.HELD_ANNOTATION),
        ("annotations", framework.requests.annotation),
    )


def review(request: Request, facts: Facts, *, framework: Framework) -> Review:
    """Reviews a creation or an update; see `fournos.engine.runtime.webhook.review`."""
    if request.old is None:
        return _created(request.new, facts, framework)
    return _changed(request.old, request.new, facts, framework)


# --- creation ----------------------------------------------------------------------------------------


def _created(new: Obj, facts: Facts, framework: Framework) -> Review:
    queue, namespace = queue_name(new), str(new["metadata"].get("namespace") or "")
    if not queue:
        return Review()
    try:
        pod_sets(framework, new)
    except RequestsError as error:
        return _refused("metadata.annotations", str(error), "requests")
    facts.require_all((*ancestor_questions(new), queue_question(namespace, queue)))
    ancestor, behind = live_ancestor(new, facts), cluster_queue_of(namespace, queue, facts)
    for unknown in (ancestor, behind):
        if isinstance(unknown, Unknown):
            return _refused(_QUEUE_AT, f"the queue could not be read: {unknown.reason}", "queue", again=True)
    if isinstance(ancestor, Ancestor):  # it runs on its owner's quota, once the owner's Workload is admitted
        return Review() if _admitted(ancestor.workload) else Review(patch=_hold(framework, new))
    if behind is None:
        text = f"queue {queue!r} is not there, or has no ClusterQueue: {new['kind']} waits until it has"
        return Review(patch=_hold(framework, new), warnings=(text,))
    assert not isinstance(behind, Unknown)
    return _in_queue(new, behind, facts, framework)


def _in_queue(new: Obj, cluster_queue: Obj, facts: Facts, framework: Framework) -> Review:
    job = queued(framework, new)
    resources = () if framework.pod_sets else tuple(requests_of(framework, new))
    questions: list[Question] = [*check_questions(cluster_queue)]
    if _placed_at_creation(framework):
        questions += flavor_questions(cluster_queue, resources)
    facts.require_all(questions)
    elsewhere = dispatches(cluster_queue, facts)
    if isinstance(elsewhere, Unknown):
        text = f"its admission checks could not be read: {elsewhere.reason}"
        return _refused(_QUEUE_AT, text, "queue", again=True)
    patch = _hold(framework, new)
    if elsewhere and job.may_default_managed_by():
        assert framework.managed_by is not None
        patch = joined(patch, nested(framework.managed_by, MULTIKUEUE))
    placed = PlacementPatch()
    if _placed_at_creation(framework) and not elsewhere:
        where = framework.requests.pod_template
        assert where is not None
        try:
            placed = place(cluster_queue, resources, read(new, where) or {}, facts, where=where)
        except PodSetInfoError as error:
            return _refused(where, str(error), "flavor")
        if placed.patch:
            patch = joined(patch, nested(where, dict(placed.patch)))
    return Review(patch=patch, warnings=(placed.warning,) if placed.warning else ())


def _placed_at_creation(framework: Framework) -> bool:
    return (
        framework.hold.only_at_creation
        and not framework.pod_sets
        and framework.requests.pod_template is not None
    )


def _hold(framework: Framework, new: Obj) -> dict[str, Any]:
    """Returns the patch that holds the object.

    It is empty if the user holds the object, or has set the field to another value.
    """
    hold = framework.hold
    value = read(new, hold.path)
    held_by_queue = annotations_of(new).get(kinds.HELD_ANNOTATION) == kinds.HELD_BY_QUEUE
    if value == hold.held and (held_by_queue or hold.users_too):
        return {}
    if value not in (None, hold.released, hold.held):
        return {}
    return _held(framework)


def _held(framework: Framework) -> dict[str, Any]:
    annotations = {kinds.HELD_ANNOTATION: kinds.HELD_BY_QUEUE}
    return joined(
        {"metadata": {"annotations": annotations}}, nested(framework.hold.path, framework.hold.held)
    )


# --- changes -----------------------------------------------------------------------------------------


def _changed(old: Obj, new: Obj, facts: Facts, framework: Framework) -> Review:
    before, job = queued(framework, old), queued(framework, new)
    if is_terminating(new) or job.ended() is not None or not queue_name(old):
        return Review()
    if not queue_name(new):
        text = "a queue name cannot be taken away: delete the object, or let it end"
        return _refused(_QUEUE_AT, text, "queue-fixed")
    if queue_name(new) != queue_name(old) and not job.is_suspended():
        text = "the queue cannot be changed while it runs: let it end first"
        return _refused(_QUEUE_AT, text, "queue-fixed")
    try:
        pod_sets(framework, new)
    except RequestsError as error:
        return _refused("metadata.annotations", str(error), "requests")
    if not framework.hold.only_at_creation or not before.is_suspended():
        return Review()
    held_by_queue = annotations_of(old).get(kinds.HELD_ANNOTATION) == kinds.HELD_BY_QUEUE
    if job.is_suspended():
        if held_by_queue and annotations_of(new).get(kinds.HELD_ANNOTATION) != kinds.HELD_BY_QUEUE:
            text = "it is the queue that holds it: leave the annotation, or cancel it"
            return _refused(_HELD_AT, text, "held-fixed")
        return Review()
    if read(new, framework.hold.path) != framework.hold.released or job.managed_by() == MULTIKUEUE:
        return Review()  # it ends, or another cluster runs it
    if not held_by_queue and not prebuilt_name(new):
        text = f"its user has let it go: it waits in queue {queue_name(new)!r} now"
        return Review(patch=_held(framework), warnings=(text,))
    return _let_go(job, facts)


def _let_go(job: QueuedObject, facts: Facts) -> Review:
    """Allows the release of an object only if its own Workload, or its ancestor's, is admitted.

    The Workload must be controlled by the object, whatever name or label refers to it.
    """
    new, namespace, prebuilt = job.obj, job.obj["metadata"]["namespace"], prebuilt_name(job.obj)
    # Live reads: a kind that accepts the hold only at creation cannot be held again.
    questions: list[Question] = [LiveList(WORKLOAD, namespace, f"{JOB_UID_LABEL}={uid_of(new)}")]
    if prebuilt:
        questions.append(LiveGet(WORKLOAD, Key(namespace, prebuilt)))
    facts.require_all((*questions, *ancestor_questions(new)))
    ancestor = live_ancestor(new, facts)
    workloads: list[Obj] = []
    for answer in facts.require_all(questions):
        if isinstance(answer, Unknown):
            return _refused(job.framework.hold.path, answer.reason, "not-admitted", again=True)
        if isinstance(answer, Present):
            workloads += answer.value if isinstance(answer.value, tuple) else (answer.value,)
    if isinstance(ancestor, Unknown):
        return _refused(job.framework.hold.path, ancestor.reason, "not-admitted", again=True)
    owned = [one for one in workloads if controls(new, one)]
    owners = [ancestor.workload] if ancestor is not None else []
    if any(map(_admitted, (*owned, *owners))):
        return Review()
    text = f"queue {queue_name(new)!r} has not admitted it yet: wait for it, or cancel it"
    return _refused(job.framework.hold.path, text, "not-admitted")


def _admitted(workload: Obj | None) -> bool:
    return workload is not None and is_true(workload, "Admitted") and not is_true(workload, "Finished")


def _refused(field: str, text: str, rule: str, *, again: bool = False) -> Review:
    return Review((Violation(field, text, rule),), transient=again)
