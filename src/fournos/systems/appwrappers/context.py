"""The input of one pass over an AppWrapper, and the place where its policies collect their results."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from fournos.api.kinds import APPWRAPPER
from fournos.engine.api.conditions import Condition
from fournos.engine.api.crd import StatusCondition
from fournos.engine.kube.resource import POD, Key, Obj
from fournos.engine.queueing.inputs import QueueInputs
from fournos.engine.runtime.context import PassContext
from fournos.engine.runtime.decision import (
    Absent,
    Facts,
    LiveGet,
    LiveList,
    Present,
    Question,
)
from fournos.systems.appwrappers import names
from fournos.systems.appwrappers.fault_tolerance import Tolerance, tolerance
from fournos.systems.appwrappers.kinds import PodSetSpec, resource_of, wrapped_kind
from fournos.systems.appwrappers.pods import component_of
from fournos.systems.appwrappers.settings import AppWrapperSettings
from fournos.systems.appwrappers.status import StatusDraft

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
        self.tolerance = tolerance(self.wrapper["metadata"].get("annotations") or {}, self.settings)

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
        return kind is None or kind.bare is None

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
