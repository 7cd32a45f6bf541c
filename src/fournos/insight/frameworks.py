"""Kinds that are queued by configuration: which they are, their objects, and why one of them waits."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace

from fournos.engine.kube.errors import ForbiddenError, NoSuchResourceError
from fournos.engine.kube.resource import Obj, Resource, controller_of, is_terminating, key_of, uid_of
from fournos.engine.queueing.ensure import prebuilt_name
from fournos.engine.queueing.job import runs_elsewhere
from fournos.engine.queueing.kinds import WORKLOAD
from fournos.engine.queueing.observe import ancestor_among
from fournos.engine.queueing.podsets import queue_name
from fournos.engine.queueing.workload import QUEUE_NAME_LABEL, BadNameError, QueueState, parse_name, view
from fournos.insight.children import current_workload
from fournos.insight.errors import FournosError
from fournos.insight.explanation import Explanation
from fournos.insight.facts import WaitFacts, queue_facts
from fournos.insight.queue_reasons import Words, in_queue, with_kueue
from fournos.insight.source import Source
from fournos.insight.values import name_of, one_line
from fournos.systems.frameworks import kinds
from fournos.systems.frameworks.kinds import Framework, TableError, load
from fournos.systems.frameworks.queued import QueuedObject, annotations_of, queued


def kinds_of(file: str) -> tuple[Framework, ...]:
    """Returns the configured kinds, with those of `file`.  Raises FournosError if the file is invalid."""
    try:
        return load(file)
    except TableError as error:
        raise FournosError(str(error), fix="correct the file") from None


def words_of(framework: Framework) -> set[str]:
    """The accepted names of the kind, in lower case."""
    one = framework.resource
    words = {one.kind, one.plural, f"{one.plural}.{one.group}", f"{one.kind}.{one.group}", framework.name}
    return {word.lower() for word in words}


def resource_named(text: str, kinds: Sequence[Framework]) -> tuple[Resource, Framework | None]:
    """Returns the kind that `text` names: a configured one by any of its names, else Kind.version.group.

    Raises FournosError for an unknown or ambiguous name.
    """
    named = [one for one in kinds if text.lower() in words_of(one)]
    if len(named) == 1:
        return named[0].resource, named[0]
    if named:
        raise FournosError(f"several kinds are named {text}", fix=f"write one of {_known(named)}")
    try:
        return parse_name(text), None
    except BadNameError as error:
        raise FournosError(str(error), fix=f"known: {_known(kinds)}; others by Kind.version.group") from None


def _known(kinds: Iterable[Framework]) -> str:
    return ", ".join(one.name for one in kinds)


_WEBHOOK = "turn the admission webhook on: kubectl apply -k deploy/frameworks"


@dataclass(frozen=True, slots=True)
class FrameworkFacts:
    """An object of a configured kind, with the facts that explain why it waits."""

    framework: Framework
    obj: Obj
    workloads: tuple[Obj, ...] = ()
    """The Workloads of the object."""
    inputs: tuple[Obj, ...] = ()
    """All Workloads of the namespace; that of the object's owner may be among them."""
    queue: WaitFacts | None = None
    """The facts of its queue; None if the object names no queue."""

    @property
    def workload(self) -> Obj | None:
        """The newest Workload that is not finished; None if there is none."""
        return current_workload(self.workloads)

    @property
    def job(self) -> QueuedObject:
        return queued(self.framework, self.obj)

    @property
    def ref(self) -> str:
        resource = self.framework.resource
        return f"{resource.plural}.{resource.group}/{name_of(self.obj)}"


def phase(facts: FrameworkFacts) -> str:
    """Returns the phase in one word.  It is derived here: not every kind has a phase of its own."""
    ended = facts.job.ended()
    if ended is not None:
        return "Succeeded" if ended.succeeded else "Failed"
    if is_terminating(facts.obj):
        return "Terminating"
    return "Waiting" if facts.job.is_suspended() else "Running"


def explain(facts: FrameworkFacts) -> Explanation:
    """Explains why the object waits, and what follows."""
    obj, job, name = facts.obj, facts.job, name_of(facts.obj)
    ended = job.ended()
    if ended is not None:
        return _ended(facts, f"{'Succeeded' if ended.succeeded else 'Failed'}: {one_line(ended.message)}")
    if is_terminating(obj):
        return Explanation(f"{name} is being deleted.", _finalizers(obj))
    if not queue_name(obj) or facts.queue is None:
        fix = f"kubectl label {facts.ref} -n {key_of(obj).namespace} {QUEUE_NAME_LABEL}=<queue>"
        hold = f", and is on hold by its own {facts.framework.hold.path}" if job.is_suspended() else ""
        advice = () if facts.framework.hold.only_at_creation else (f"queue it: {fix}",)
        return Explanation(f"{name} names no queue, so Kueue does not know it{hold}.", advice=advice)
    if runs_elsewhere(job):
        text = f"{name} is run by {job.managed_by()} on another cluster; here it only has its Workload."
        return Explanation(text)
    ancestor = ancestor_among(obj, facts.inputs)
    if ancestor is not None:
        text = f"{name} belongs to {ancestor.kind} {ancestor.key.name} and runs on its quota"
        waits = ", which it waits for" if job.is_suspended() else ""
        return Explanation(f"{text}{waits}.")
    if not job.is_suspended():
        return _running(facts)
    return _held_by_user(facts) or _waiting(facts, facts.queue)


def _held_by_user(facts: FrameworkFacts) -> Explanation | None:
    """Explains an object that its user has created on hold, and that its queue therefore does not release."""
    hold, marks = facts.framework.hold, annotations_of(facts.obj)
    by_queue = marks.get(kinds.HELD_ANNOTATION) == kinds.HELD_BY_QUEUE
    if not hold.users_too or by_queue or facts.workloads or prebuilt_name(facts.obj):
        return None
    name, namespace = name_of(facts.obj), key_of(facts.obj).namespace
    leave = f"kubectl annotate {facts.ref} -n {namespace} {kinds.HELD_ANNOTATION}={kinds.HELD_BY_QUEUE}"
    return Explanation(
        f"{name} is kept out of its queue: HeldByUser.",
        (f"it was created on hold by its user, who alone takes {hold.path} away",),
        (f"leave that to the queue: {leave}",),
    )


def _waiting(facts: FrameworkFacts, queue: WaitFacts) -> Explanation:
    words = Words(
        unqueued=_unqueued(facts),
        uncovered=f"add it to the ClusterQueue, or ask for something else: "
        f"annotation {facts.framework.requests.annotation}",
        impossible="ask for less: "
        + (
            ", ".join(rule.template for rule in facts.framework.pod_sets)
            or f"annotation {facts.framework.requests.annotation}"
        ),
    )
    explained = in_queue(facts.obj, facts.workload, queue, words)
    if facts.workloads and facts.workload is None:
        over = f"{name_of(facts.obj)} still waits, although its Workload has ended: it will not start."
        return replace(explained, verdict=over)
    return explained


def _unqueued(found: FrameworkFacts) -> tuple[str, ...]:
    return (
        f"its events say why: kubectl describe {found.ref} -n {key_of(found.obj).namespace}",
        "see whether an operator runs that knows the kind: fournos run --enable frameworks "
        "(FOURNOS_FRAMEWORKS_FILE)",
    )


def _running(facts: FrameworkFacts) -> Explanation:
    name, workload = name_of(facts.obj), facts.workload
    stopped = annotations_of(facts.obj).get(kinds.STOPPED_ANNOTATION)
    if stopped:
        text = f"{name} was ended by its queue; its quota is given back when it has stopped."
        return Explanation(text, (stopped,))
    if workload is None:
        if facts.framework.hold.only_at_creation:
            text = f"{name} runs without quota: it was not on hold when it was created."
            return Explanation(text, advice=(_WEBHOOK,))
        return Explanation(f"{name} runs, and has no Workload.", advice=_unqueued(facts))
    queue = view(workload)
    if queue.state is QueueState.EVICTED:
        text = f"{name} was evicted ({queue.reason}) and is being stopped."
        return Explanation(text, with_kueue(queue.message, ()))
    if queue.state is QueueState.WAITING or queue.state is QueueState.RELEASED:
        text = f"{name} runs although its Workload is not admitted: it is being held again."
        return Explanation(text, with_kueue(queue.message, ()))
    flavors = {flavor for chosen in queue.flavors.values() for flavor in chosen.values()}
    on = f" on {', '.join(sorted(flavors))}" if flavors else ""
    ready = "" if facts.job.pods_ready() else ", but is not ready"
    return Explanation(f"{name} is running{on}{ready}.")


def _ended(facts: FrameworkFacts, ending: str) -> Explanation:
    return Explanation(f"{name_of(facts.obj)} has ended.", (ending.removesuffix(": "),))


def _finalizers(obj: Obj) -> tuple[str, ...]:
    waits = obj["metadata"].get("finalizers") or ()
    return (f"finalizers hold it: {', '.join(waits)}",) if waits else ()


async def gather(source: Source, framework: Framework, obj: Obj) -> FrameworkFacts:
    """Reads the Workloads of the object, all Workloads of its namespace and the facts of its queue."""
    inputs: list[Obj] = []
    with suppress(NoSuchResourceError, ForbiddenError):  # the queue's facts explain this error better
        inputs = (await source.list(WORKLOAD, namespace=key_of(obj).namespace)).items
    uid, prebuilt, queue = uid_of(obj), prebuilt_name(obj), queue_name(obj)
    own = [one for one in inputs if (controller_of(one) or {}).get("uid") == uid or name_of(one) == prebuilt]
    return FrameworkFacts(
        framework,
        obj,
        tuple(own),
        tuple(inputs),
        await queue_facts(source, obj, queue) if queue else None,
    )
