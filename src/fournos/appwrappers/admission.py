"""Admission of AppWrappers, pure: what is set, what is refused, and what has to be asked first.

`review(old, new, facts)` is the webhook's decision.  Without webhooks the controller makes the checks that
need no user.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from fournos.api.rules import Violation
from fournos.appwrappers import names
from fournos.appwrappers.kinds import InferenceError, infer, resource_of, wrapped_kind
from fournos.appwrappers.paths import PathError
from fournos.appwrappers.podsets import declared, template_of
from fournos.appwrappers.rules import check
from fournos.appwrappers.settings import AdmissionSettings
from fournos.kube.resource import Obj, Resource
from fournos.queueing.workload import QUEUE_NAME_LABEL

_LABEL_MAX = 63
_NO_LABEL = re.compile(r"[^-_.A-Za-z0-9]")


@dataclass(frozen=True, slots=True)
class User:
    """Who asks, as the AdmissionReview says."""

    name: str
    uid: str = ""
    groups: tuple[str, ...] = ()
    extra: tuple[tuple[str, tuple[str, ...]], ...] = ()


@dataclass(frozen=True, slots=True)
class MayCreate:
    """Question: whether the user may create this type in this namespace (a SubjectAccessReview)."""

    user: User
    resource: Resource
    namespace: str


@dataclass(frozen=True, slots=True)
class ReviewFacts:
    user: User
    allowed: Mapping[MayCreate, bool | None] = field(default_factory=dict)
    """None: it could not be learnt."""


@dataclass(frozen=True, slots=True)
class Review:
    """Admitted if nothing is wrong."""

    problems: tuple[Violation, ...] = ()
    transient: bool = False
    """Refused for now: another try may succeed."""


def review(
    old: Obj | None, new: Obj, facts: ReviewFacts, *, settings: AdmissionSettings
) -> Review | tuple[MayCreate, ...]:
    """The verdict, or the questions that it needs answers to."""
    if old is not None:
        return Review(tuple(changes(old, new)))
    found = problems(new, own_workloads=settings.workloads == "own")
    if found or not settings.user_rbac_admission_check:
        return Review(tuple(found))
    questions = tuple(dict.fromkeys(_creations(new, facts.user)))
    missing = tuple(question for question in questions if question not in facts.allowed)
    if missing:
        return missing
    unknown = [question for question in questions if facts.allowed[question] is None]
    if unknown:
        text = f"could not learn whether {facts.user.name} may create {unknown[0].resource.plural}: try again"
        return Review((Violation("spec.components", text, "user-rights"),), transient=True)
    denied = [question for question in questions if not facts.allowed[question]]
    return Review(
        tuple(
            Violation(
                "spec.components",
                f"User {facts.user.name} is not authorized to create {one.resource.plural} "
                f"in {one.namespace}",
                "user-rights",
            )
            for one in denied
        )
    )


def _creations(new: Obj, user: User) -> Iterator[MayCreate]:
    namespace = new["metadata"].get("namespace") or ""
    for component in new["spec"]["components"]:
        yield MayCreate(user, resource_of(component["template"]), namespace)


# --- creation ----------------------------------------------------------------------------------


def problems(new: Obj, *, own_workloads: bool = True) -> list[Violation]:
    """What is wrong with an AppWrapper whoever made it.

    `own_workloads`: this operator talks to Kueue about it, not Kueue's own integration.
    """
    found = check(new)
    queued = (new["metadata"].get("labels") or {}).get(QUEUE_NAME_LABEL)
    total = 0
    for index, component in enumerate((new.get("spec") or {}).get("components") or ()):
        at = f"spec.components[{index}]"
        found += _component(component, new["metadata"].get("namespace") or "", at)
        kind = wrapped_kind(component.get("template") or {})
        if kind is not None and kind.bare and queued and not own_workloads:
            text = (
                f"Kueue's own AppWrapper integration cannot queue a {kind.resource.kind}: "
                "the operator needs FOURNOS_APPWRAPPER_WORKLOADS=own"
            )
            found.append(Violation(f"{at}.template", text, "own-workloads"))
        try:
            inferred = len(infer(component["template"]))
        except InferenceError:
            inferred = 0
        total += max(len(component.get("podSets") or ()), inferred)
    if not found and not 1 <= total <= names.POD_SETS_MAX:
        text = (
            f"components contain {total} pod sets: at most {names.POD_SETS_MAX} are allowed"
            if total
            else "components contain no podspecs: wrap at least one resource that makes pods"
        )
        found.append(Violation("spec.components", text, "pod-sets"))
    return found


def _component(component: Mapping[str, Any], namespace: str, at: str) -> Iterator[Violation]:
    template = component.get("template") or {}
    if not template.get("apiVersion") or not template.get("kind"):
        yield Violation(f"{at}.template", "write apiVersion and kind", "template")
        return
    meta = template.get("metadata") or {}
    if not meta.get("name") and not meta.get("generateName"):
        yield Violation(f"{at}.template.metadata", "write name or generateName", "template")
    if meta.get("namespace") not in (None, "", namespace):
        text = "AppWrappers cannot create objects in other namespaces: remove namespace"
        yield Violation(f"{at}.template.metadata.namespace", text, "namespace")
    written = declared(component)
    try:
        for one in written:
            template_of(template, one.path)
        inferred = infer(template)
        for one in inferred:
            template_of(template, one.path)
    except (PathError, InferenceError) as error:
        yield Violation(f"{at}.podSets", str(error), "pod-sets")
        return
    paths = [one.path for one in written]
    if len(set(paths)) != len(paths):
        yield Violation(f"{at}.podSets", "write each path once", "pod-sets")
    if (
        written
        and inferred
        and {(one.path, one.replicas) for one in written} != {(one.path, one.replicas) for one in inferred}
    ):
        wanted = ", ".join(f"{one.path} ({one.replicas})" for one in inferred)
        yield Violation(
            f"{at}.podSets", f"the template says {wanted}: write that, or leave it out", "pod-sets"
        )


# --- changes -----------------------------------------------------------------------------------


def changes(old: Obj, new: Obj) -> Iterator[Violation]:
    """What may not change; suspend, podSetInfos, annotations and other metadata may."""
    yield from check(new, old)
    before, after = ((one.get("spec") or {}).get("components") or () for one in (old, new))
    for index, (was, now) in enumerate(zip(before, after, strict=False)):
        if was["template"] != now["template"]:
            text = "attempt to change immutable field: make a new AppWrapper with the other template"
            yield Violation(f"spec.components[{index}].template", text, "template-fixed")
    for label in (names.USER_LABEL, names.USER_ID_LABEL):
        values = [(one["metadata"].get("labels") or {}).get(label) for one in (old, new)]
        if values[0] != values[1]:
            yield Violation(f"metadata.labels[{label}]", "attempt to change immutable field", "user-fixed")


# --- defaults ----------------------------------------------------------------------------------


def defaults(new: Obj, user: User, *, settings: AdmissionSettings) -> dict[str, Any]:
    """The merge patch of the mutating webhook at creation; {} where all is set.

    Labels say who made it.  Pod sets are written for kinds that Kueue's own inference does not know.  With
    our own Workloads an AppWrapper of a queue starts suspended; else that is Kueue's webhook to do.
    """
    labels = new["metadata"].get("labels") or {}
    wanted = {names.USER_LABEL: label_value(user.name), names.USER_ID_LABEL: label_value(user.uid)}
    if settings.default_queue_name and not labels.get(QUEUE_NAME_LABEL):
        wanted[QUEUE_NAME_LABEL] = settings.default_queue_name
    patch: dict[str, Any] = {}
    differing = {key: value for key, value in wanted.items() if labels.get(key) != value}
    if differing:
        patch["metadata"] = {"labels": differing}
    spec: dict[str, Any] = {}
    queued = wanted.get(QUEUE_NAME_LABEL) or labels.get(QUEUE_NAME_LABEL)
    if settings.workloads == "own" and queued and not new["spec"].get("suspend"):
        spec["suspend"] = True
    components = [_with_pod_sets(component) for component in new["spec"].get("components") or ()]
    if components != list(new["spec"].get("components") or ()):
        spec["components"] = components
    if spec:
        patch["spec"] = spec
    return patch


def _with_pod_sets(component: Mapping[str, Any]) -> Mapping[str, Any]:
    kind = wrapped_kind(component.get("template") or {})
    if kind is None or kind.kueue_infers or kind.bare or component.get("podSets"):
        return component
    try:
        found = infer(component["template"])
    except InferenceError:
        return component  # refused by the validating webhook, with the reason
    return {**component, "podSets": [{"path": one.path, "replicas": one.replicas} for one in found]}


def label_value(text: str) -> str:
    """At most 63 characters that a label may have."""
    return _NO_LABEL.sub("_", text[:_LABEL_MAX]).strip("-_.")
