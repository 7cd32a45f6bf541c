"""What one pass of the AppWrapper system works with: facts in, a status draft and a decision out."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from fournos.api.conditions import Condition
from fournos.api.model import StatusCondition
from fournos.appwrappers import names
from fournos.appwrappers.fault_tolerance import Tolerance, tolerance
from fournos.appwrappers.kinds import PodSetSpec, resource_of, wrapped_kind
from fournos.appwrappers.pods import component_of
from fournos.appwrappers.settings import AppWrapperSettings
from fournos.appwrappers.status import StatusDraft
from fournos.kube.kinds import POD
from fournos.kube.resource import Key, Obj
from fournos.queueing.inputs import QueueInputs
from fournos.runtime.context import PassContext
from fournos.runtime.decision import (
    Absent,
    Facts,
    LiveGet,
    LiveList,
    Present,
    Question,
)

NOT_CREATED = "ComponentCreationErrored"
"""Reason of a component's ResourcesDeployed, as published."""
CREATED = Condition("ResourcesDeployed", "True", "ComponentCreatedSuccessfully", "")


@dataclass(frozen=True, slots=True)
class Observed:
    """An AppWrapper and what the caches hold about it."""

    key: Key
    wrapper: Obj
    components: tuple[Obj | None, ...] = ()
    """Parallel to spec.components: the cached object whose controller is this AppWrapper."""
    watched: tuple[bool, ...] = ()
    """Parallel: whether a cache would show it."""
    pods: tuple[Obj, ...] = ()
    """Pods with its label."""
    evicting: Mapping[str, frozenset[str]] = field(default_factory=dict)
    """Node -> resources for which it is marked for eviction."""
    inputs: QueueInputs = field(default_factory=QueueInputs)


@dataclass(slots=True)
class Context(PassContext):
    resource = names.APPWRAPPER
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
        """Of a component, as the status keeps them."""
        found = self.draft.component(index)
        return tuple(
            PodSetSpec(one.path, 1 if one.replicas is None else one.replicas, one.annotations)
            for one in (found.pod_sets if found is not None else ())
        )

    def pods_seen(self, index: int) -> bool:
        """Whether its pods carry our label: a kind without a pod template may not pass it on to them."""
        kind = wrapped_kind(self.templates[index])
        return kind is None or kind.bare is None

    def failed_pods_count(self, index: int) -> bool:
        kind = wrapped_kind(self.templates[index])
        return kind is None or kind.bare is None or kind.bare.failed_pods

    def pods_expected(self, index: int) -> int:
        return sum(one.replicas for one in self.pod_sets(index))

    def component_question(self, index: int) -> LiveGet | None:
        """None: it was never made."""
        found = self.draft.component(index)
        if found is None or not found.name:
            return None
        return LiveGet(resource_of(self.templates[index]), Key(self.namespace, found.name))

    def was_refused(self, index: int) -> bool:
        """Whether the API server refused to create the component, so that nothing of it can be there."""
        found = self.deployed(index)
        return found is not None and found.reason == NOT_CREATED

    def deployed(self, index: int) -> StatusCondition | None:
        """The condition ResourcesDeployed of a component."""
        found = self.draft.component(index)
        return found.condition("ResourcesDeployed") if found is not None else None

    # --- what is there: as the API server says it, where this pass has asked ---

    @property
    def pods_question(self) -> LiveList:
        return LiveList(POD, self.namespace, self.selector)

    @property
    def pods(self) -> tuple[Obj, ...]:
        answer = self.facts.get(self.pods_question)
        return answer.value if isinstance(answer, Present) else self.observed.pods

    def pods_of(self, *indexes: int) -> list[Obj]:
        """Of these components, and those that do not state theirs."""
        return [pod for pod in self.pods if component_of(pod, len(self.templates)) in (None, *indexes)]

    def component(self, index: int) -> Obj | None:
        question = self.component_question(index)
        answer = self.facts.get(question) if question is not None else None
        if isinstance(answer, Present):
            return answer.value if self.owns(answer.value) else None
        return None if isinstance(answer, Absent) else self.observed.components[index]

    def confirmed(self) -> bool:
        """Whether pods and components are known live: asked before anything is taken down for what they
        say.  Once the answers are there the whole pass is decided anew from them."""
        watched = (i for i, seen in enumerate(self.observed.watched) if seen)
        asked = (self.component_question(index) for index in watched)
        questions: list[Question] = [self.pods_question]
        questions += [question for question in asked if question is not None]
        return self.facts.known(questions)
