"""The status draft of an AppWrapper. Each pass has one draft and writes it once."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Self

from fournos.api.appwrapper import AppWrapperStatus, ComponentStatus
from fournos.api.kinds import APPWRAPPER
from fournos.engine.api.conditions import Condition, upsert
from fournos.engine.api.crd import StatusCondition
from fournos.engine.kube.resource import POD, Key, Obj
from fournos.engine.queueing.job import QueueInputs
from fournos.engine.runtime.context import Draft, PassContext, read
from fournos.engine.runtime.decision import Absent, Facts, LiveGet, LiveList, Present, Question
from fournos.systems.appwrappers import names
from fournos.systems.appwrappers.health import component_of
from fournos.systems.appwrappers.kinds import PodSetSpec, resource_of, wrapped_kind
from fournos.systems.appwrappers.settings import AppWrapperSettings, Tolerance, tolerance


def component_status(status: Mapping[str, Any], index: int) -> ComponentStatus | None:
    """Returns the status of one component only, because there may be a hundred."""
    entries: Sequence[Mapping[str, Any]] = status.get("componentStatus") or ()
    return ComponentStatus.model_validate(entries[index]) if index < len(entries) else None


def phase_of(wrapper: Obj) -> str:
    """Returns status.phase; "" before the first phase."""
    return read(AppWrapperStatus, wrapper.get("status") or {}, "phase").phase or ""


class StatusDraft(Draft):
    """A copy of an AppWrapper's status with the changes of this pass, and the events to record with them."""

    # --- reading ---

    @property
    def resets(self) -> int:
        return read(AppWrapperStatus, self._status, "resettingCount").resetting_count or 0

    @property
    def components(self) -> tuple[ComponentStatus, ...]:
        return read(AppWrapperStatus, self._status, "componentStatus").component_status

    def component(self, index: int) -> ComponentStatus | None:
        """Returns the status of a component; None before it has an entry."""
        return component_status(self._status, index)

    def since(self, *types: str) -> datetime:
        """Returns the time of the latest transition of these conditions; the pass's time if there is none."""
        found = (self.found(type_) for type_ in types)
        times = (one.last_transition_time for one in found if one is not None)
        return max((time for time in times if time is not None), default=self._now)

    # --- changing ---

    def enter(self, phase: str) -> Self:
        self._status["phase"] = phase
        return self

    def clear(self, type_: str, reason: str, message: str = "") -> Self:
        """Sets a condition to False only if it is True, so that its transition time stays otherwise."""
        if self.is_true(type_):
            self.condition(type_, "False", reason, message)
        return self

    def count_reset(self) -> Self:
        self._status["resettingCount"] = self.resets + 1
        return self

    def fill_components(self, pod_sets: Sequence[Sequence[PodSetSpec]]) -> Self:
        """Writes one entry per component, before any component is created."""
        self._status["componentStatus"] = [
            {"name": "", "kind": "", "apiVersion": "", "podSets": [_pod_set(one) for one in found]}
            for found in pod_sets
        ]
        return self

    def amend_component(self, index: int, **fields: Any) -> Self:
        components = list(self._status["componentStatus"])
        components[index] = {**components[index], **fields}
        self._status["componentStatus"] = components
        return self

    def component_condition(self, index: int, wanted: Condition) -> Self:
        before = self._status["componentStatus"][index].get("conditions") or ()
        return self.amend_component(index, conditions=upsert(before, wanted, now=self._now))


def _pod_set(pod_set: PodSetSpec) -> dict[str, Any]:
    body: dict[str, Any] = {"path": pod_set.path, "replicas": pod_set.replicas}
    if pod_set.annotations:
        body["annotations"] = dict(pod_set.annotations)
    return body


# --- the state of a pass -------------------------------------------------------------------------------
# The input of one pass over an AppWrapper, and the place where its policies collect their results.

NOT_CREATED = "ComponentCreationErrored"
"""The reason of a component's condition ResourcesDeployed, as published."""
CREATED = Condition("ResourcesDeployed", "True", "ComponentCreatedSuccessfully", "")


@dataclass(frozen=True, slots=True)
class Observed:
    """An AppWrapper and what the caches hold about it."""

    key: Key
    wrapper: Obj
    components: tuple[Obj | None, ...] = ()
    """Parallel to spec.components: the cached object whose controller is this AppWrapper, or None."""
    watched: tuple[bool, ...] = ()
    """Parallel to spec.components: True if a cache would show the component."""
    pods: tuple[Obj, ...] = ()
    """The pods with its label."""
    evicting: Mapping[str, frozenset[str]] = field(default_factory=dict)
    """The resources marked for eviction, by node name."""
    inputs: QueueInputs = field(default_factory=QueueInputs)


@dataclass(slots=True)
class Context(PassContext):
    """One pass: the observed state, and the draft that the policies change."""

    resource = APPWRAPPER
    finalizer_name = names.FINALIZER

    observed: Observed
    facts: Facts
    now: datetime
    settings: AppWrapperSettings
    draft: StatusDraft = field(init=False)
    tolerance: Tolerance = field(init=False)

    def __post_init__(self) -> None:
        self.draft = StatusDraft(self.wrapper, self.now)
        self.tolerance = tolerance(self.wrapper["metadata"].get("annotations") or {})

    @property
    def obj(self) -> Obj:
        return self.observed.wrapper

    @property
    def wrapper(self) -> Obj:
        return self.observed.wrapper

    @property
    def spec(self) -> Mapping[str, Any]:
        return self.wrapper.get("spec") or {}

    @property
    def suspended(self) -> bool:
        return bool(self.spec.get("suspend"))

    @property
    def templates(self) -> Sequence[Obj]:
        return [component["template"] for component in self.spec.get("components") or ()]

    @property
    def selector(self) -> str:
        return f"{names.LABEL}={self.name}"

    def pod_sets(self, index: int) -> tuple[PodSetSpec, ...]:
        """Returns the pod sets of a component, as stored in the status."""
        component = self.draft.component(index)
        return tuple(
            PodSetSpec(pod_set.path, 1 if pod_set.replicas is None else pod_set.replicas, pod_set.annotations)
            for pod_set in (component.pod_sets if component is not None else ())
        )

    def pods_seen(self, index: int) -> bool:
        """True if the component's pods have our label, and a failed one of them is a failure.

        A kind without a pod template may not pass the label on to its pods, and retries failed tasks itself.
        """
        kind = wrapped_kind(self.templates[index])
        return kind is None or not kind.bare

    def pods_expected(self, index: int) -> int:
        return sum(one.replicas for one in self.pod_sets(index))

    def component_question(self, index: int) -> LiveGet | None:
        """Returns the live read of a component; None if it was never created."""
        component = self.draft.component(index)
        if component is None or not component.name:
            return None
        return LiveGet(resource_of(self.templates[index]), Key(self.namespace, component.name))

    def was_refused(self, index: int) -> bool:
        """True if the API server refused to create the component, so that no object of it can exist."""
        found = self.deployed(index)
        return found is not None and found.reason == NOT_CREATED

    def deployed(self, index: int) -> StatusCondition | None:
        """Returns the condition ResourcesDeployed of a component."""
        found = self.draft.component(index)
        return found.condition("ResourcesDeployed") if found is not None else None

    # --- existing objects: from the API server if this pass has read them live, otherwise from the cache ---

    @property
    def pods_question(self) -> LiveList:
        return LiveList(POD, self.namespace, self.selector)

    @property
    def pods(self) -> tuple[Obj, ...]:
        answer = self.facts.get(self.pods_question)
        return answer.value if isinstance(answer, Present) else self.observed.pods

    def pods_of(self, *indexes: int) -> list[Obj]:
        """Returns the pods of these components, and the pods without a valid component annotation."""
        return [pod for pod in self.pods if component_of(pod, len(self.templates)) in (None, *indexes)]

    def component(self, index: int) -> Obj | None:
        question = self.component_question(index)
        answer = self.facts.get(question) if question is not None else None
        if isinstance(answer, Present):
            return answer.value if self.owns(answer.value) else None
        return None if isinstance(answer, Absent) else self.observed.components[index]

    def confirmed(self) -> bool:
        """True if pods and components were read live in this pass.

        This is required before anything is taken down because of their state. When the live reads are there,
        the whole pass is decided again from them.
        """
        watched = (i for i, seen in enumerate(self.observed.watched) if seen)
        components = (self.component_question(index) for index in watched)
        known: list[Question] = [self.pods_question]
        known += [question for question in components if question is not None]
        return self.facts.known(known)
