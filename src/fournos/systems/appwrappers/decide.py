"""Decides the next writes for an AppWrapper: first for Kueue, then by the policy of its phase.

- (new) → Suspended → Resuming → Running → Succeeded | Failed
- Running, Resuming → Resetting → Resuming: a failure that is retried
- Resuming, Running, Resetting → Suspending → Suspended: spec.suspend
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from datetime import datetime

from fournos.api.kinds import APPWRAPPER
from fournos.engine.api.conditions import is_true
from fournos.engine.kube.resource import Obj, Resource
from fournos.engine.queueing.job import Ended, QueueOptions, QueueOutcome, Verdict
from fournos.engine.queueing.observe import COMPONENT_ANNOTATION
from fournos.engine.queueing.observe import component as named
from fournos.engine.queueing.podsets import PodSetInfo, PodSetInfoError
from fournos.engine.queueing.reconcile import reconcile
from fournos.engine.queueing.workload import PodSet
from fournos.engine.runtime.decision import Create, Decision, EventRecord, Facts
from fournos.engine.runtime.events import retried
from fournos.systems.appwrappers import names
from fournos.systems.appwrappers.admission import problems
from fournos.systems.appwrappers.build import PathError, all_pod_sets, pod_sets_of, stored_info
from fournos.systems.appwrappers.finish import deleted, fail, failed, succeeded, suspending
from fournos.systems.appwrappers.kinds import InferenceError
from fournos.systems.appwrappers.run import resetting, resuming, running, suspended
from fournos.systems.appwrappers.settings import AppWrapperSettings
from fournos.systems.appwrappers.status import Context, Observed, phase_of

_KEPT = ("labels", "annotations")


@dataclass(frozen=True, slots=True)
class QueuedAppWrapper:
    """Implements GenericJob and its optional capabilities for an AppWrapper."""

    obj: Obj

    @property
    def resource(self) -> Resource:
        return APPWRAPPER

    def pod_sets(self) -> Sequence[PodSet]:
        """Returns the requested pod sets; none where `problem` has a reason."""
        try:
            requested = list(all_pod_sets(self.obj))
        except (InferenceError, PathError):
            return []
        name = str(self.obj["metadata"]["name"]).lower().replace(".", "-")
        return [
            PodSet(f"{name}-{number}", pod_set.replicas, _template(template, self._component(index)))
            for number, (index, pod_set, template) in enumerate(requested)
        ]

    def problem(self) -> str:
        """Returns why there are no pod sets, which admission would have refused; "" if there are."""
        try:
            return "" if list(all_pod_sets(self.obj)) else "components contain no podspecs"
        except (InferenceError, PathError) as error:
            return str(error)

    def _component(self, index: int) -> str:
        return named(self.obj["spec"]["components"][index]["template"], index)

    def is_suspended(self) -> bool:
        return bool(self.obj["spec"].get("suspend"))

    def is_active(self) -> bool:
        return is_true(self.obj, "QuotaReserved")

    def finished(self) -> Ended | None:
        phase = phase_of(self.obj)
        if phase == "Succeeded":
            return Ended(True, "AppWrapper finished successfully")
        if phase == "Failed" and not is_true(self.obj, "ResourcesDeployed"):
            return Ended(False, "AppWrapper failed")
        return None  # a failed AppWrapper whose resources still exist uses its quota

    def pods_ready(self) -> bool:
        return is_true(self.obj, "PodsReady")

    def start(self, infos: Sequence[PodSetInfo]) -> Obj:
        components, rest = [], list(infos)
        for component in self.obj["spec"]["components"]:
            own_count = len(pod_sets_of(component))
            if len(rest) < own_count:
                raise PodSetInfoError(f"expecting more than {len(infos)} podset infos")
            own, rest = rest[:own_count], rest[own_count:]
            components.append({**component, "podSetInfos": [stored_info(info) for info in own]})
        if rest:
            raise PodSetInfoError(f"expecting fewer than {len(infos)} podset infos")
        return {"spec": {"components": components, "suspend": False}}

    def stop(self, infos: Sequence[PodSetInfo] | None) -> Obj:
        components = [
            {key: value for key, value in component.items() if key != "podSetInfos"}
            for component in self.obj["spec"]["components"]
        ]
        return {"spec": {"components": components, "suspend": True}}

    def managed_by(self) -> str | None:
        value: str | None = self.obj["spec"].get("managedBy")
        return value


def _template(template: Obj, name: str) -> Obj:
    """Returns the complete pod template, annotated with its component.

    A field that Kueue does not read does no harm, but a field that is left out would be missing from the
    quota. The annotation allows a component with that name to run on this quota.
    """
    meta = template.get("metadata") or {}
    kept = {key: meta[key] for key in _KEPT if meta.get(key)}
    kept["annotations"] = {**(kept.get("annotations") or {}), COMPONENT_ANNOTATION: name}
    return {"metadata": kept, "spec": template["spec"]}


# --- the decision --------------------------------------------------------------------------------------


def decide(observed: Observed, facts: Facts, now: datetime, *, settings: AppWrapperSettings) -> Decision:
    """Returns the decision of one pass. A pure function; see `fournos.engine.runtime.decision`."""
    ctx = Context(observed, facts, now, settings)
    managed_here = ctx.spec.get("managedBy") in names.MANAGED_BY_US
    if facts.failure is not None and not (managed_here and _handled(ctx)):
        return retried(facts.failure)
    if managed_here and not ctx.draft.phase and not ctx.deleting:
        return _begin(ctx)
    changed = QueuedAppWrapper(ctx.wrapper).problem() if _is_queued_here(ctx) else ""
    if changed and managed_here and ctx.draft.phase not in names.TERMINAL:
        return fail(ctx, "Invalid", changed)
    if changed and not managed_here:
        return Decision(events=(EventRecord("Warning", "Invalid", changed),))
    queue = _queue(ctx)
    if queue is not None and queue.steps:
        return Decision(steps=queue.steps, events=queue.events, retry=queue.retry)
    if not managed_here:
        return Decision(retry=queue is not None and queue.retry)
    if queue is not None and queue.verdict is Verdict.BLOCKED and ctx.draft.phase == "Suspended":
        _report_blocked(ctx, queue)
    decision = deleted(ctx) if ctx.deleting else _POLICIES[ctx.draft.phase](ctx)
    return replace(decision, retry=True) if queue is not None and queue.retry else decision


def _is_queued_here(ctx: Context) -> bool:
    """True if this operator makes its Workload, which needs the pod sets of an AppWrapper that stays."""
    return ctx.settings.workloads == "own" and not ctx.deleting


def _queue(ctx: Context) -> QueueOutcome | None:
    """Returns the outcome for Kueue; None if Kueue's own integration handles the AppWrapper."""
    if ctx.settings.workloads == "kueue":
        return None
    options = QueueOptions(without_queue_name=True)
    wrapper = QueuedAppWrapper(ctx.wrapper)
    return reconcile(wrapper, ctx.observed.inputs, ctx.facts, ctx.now, options=options)


def _report_blocked(ctx: Context, queue: QueueOutcome) -> None:
    """Reports once why there is no Workload, such as a priority class that is missing or reserved."""
    if ctx.draft.reason_of("QuotaReserved") != queue.reason:
        ctx.draft.event(queue.reason, queue.message, warning=True)
    ctx.draft.condition("QuotaReserved", "False", queue.reason, queue.message)


def _handled(ctx: Context) -> bool:
    """True if the failure is the creation of a component, which the phase's policy handles."""
    failure = ctx.facts.failure
    return (
        failure is not None
        and isinstance(failure.step, Create)
        and ctx.draft.phase == "Resuming"
        and not ctx.deleting
        and ctx.owns(failure.step.body)
        and failure.step.resource.group != "kueue.x-k8s.io"
    )


def _begin(ctx: Context) -> Decision:
    """Handles a new AppWrapper. Its rules are checked here too, because the webhooks may be absent."""
    broken = problems(ctx.wrapper, own_workloads=ctx.settings.workloads == "own")
    if broken:
        ctx.draft.fill_components([() for _ in ctx.templates])
        return fail(ctx, "Invalid", "; ".join(map(str, broken)))
    ctx.draft.fill_components([pod_sets_of(component) for component in ctx.spec["components"]])
    ctx.draft.enter("Suspended")
    # The finalizer keeps the AppWrapper until its Workload has lost its own finalizer.
    return ctx.decision(ctx.finalizer(on=True) if ctx.settings.workloads == "own" else ())


_POLICIES: dict[str, Callable[[Context], Decision]] = {
    "Suspended": suspended,
    "Resuming": resuming,
    "Running": running,
    "Resetting": resetting,
    "Suspending": suspending,
    "Failed": failed,
    "Succeeded": succeeded,
}
