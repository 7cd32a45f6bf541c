"""Validation of AppWrappers as pure functions: refusals, and the questions for the API server.

`review` is the validating webhook. Without webhooks the controller makes the checks that need no user.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, Final

from fournos.api.kinds import MINICLUSTER
from fournos.api.pod_rights import minicluster_reach, operator_account
from fournos.engine.api.rules import Violation, violations
from fournos.engine.kube.resource import POD, Obj, Resource
from fournos.engine.queueing.ensure import MAX_EXECUTION_LABEL, max_execution_seconds
from fournos.engine.queueing.workload import QUEUE_NAME_LABEL
from fournos.engine.runtime.decision import (
    Create,
    Facts,
    Present,
    StepFailure,
    Unknown,
    UserAccess,
)
from fournos.engine.runtime.webhook.review import Request, Review
from fournos.systems.appwrappers import names
from fournos.systems.appwrappers.build import PathError, declared, pod_sets_of, template_of
from fournos.systems.appwrappers.kinds import (
    GROUP_COUNT,
    InferenceError,
    PodSetSpec,
    infer,
    resource_of,
    section,
    wrapped_kind,
)
from fournos.systems.appwrappers.rules import RULES
from fournos.systems.appwrappers.settings import AppWrapperSettings, is_number, shortened, unusable

WRAPPED_LABEL: Final = "workload.codeflare.dev/wrapped"
"""On ClusterRoles: the operator's own ClusterRole aggregates those with this label."""
_VERBS: Final = "get, list, watch, create and delete"


def no_such_kind(resource: Resource) -> str:
    """Returns the message about a kind that the API server does not serve."""
    return (
        f"this cluster serves no {resource.kind} of {resource.api_version}: "
        "install its CustomResourceDefinition, or correct apiVersion and kind"
    )


def right_to(resource: Resource) -> str:
    """Returns the remedy for a right that the operator lacks."""
    return f'grant {_VERBS} on it with a ClusterRole that has the label {WRAPPED_LABEL}: "true"'


def not_created(failure: StepFailure, create: Create) -> str:
    """Returns why a component was not created, with the remedy if the API server's message has none."""
    if failure.error == "NoSuchResourceError":
        return f"{create.body['metadata']['name']}: {no_such_kind(create.resource)}"
    # An exceeded ResourceQuota is also reported as forbidden, and no right helps against that.
    if failure.error == "ForbiddenError" and "cannot create resource" in failure.message:
        return f"{failure.message}: {right_to(create.resource)}"
    return failure.message


# --- warnings ------------------------------------------------------------------------------------------
# Admission warnings, shown to the user who creates the AppWrapper: accepted, but probably a mistake.


def warnings(new: Obj) -> Iterator[str]:
    """Yields the warnings about an AppWrapper without violations."""
    for index, component in enumerate(new["spec"]["components"]):
        spec = component["template"].get("spec")
        if isinstance(spec, Mapping) and spec.get("suspend") is True:
            yield f"spec.components[{index}].template.spec.suspend is true: what is wrapped never runs so"
        for pod_set, counted in zip(declared(component), pod_sets_of(component), strict=False):
            if pod_set.replicas != counted.replicas:
                yield (
                    f"spec.components[{index}].podSets declares {pod_set.replicas} pods at {pod_set.path}, "
                    f"and the template makes {counted.replicas}: quota is asked for {counted.replicas}"
                )


# --- refusals ------------------------------------------------------------------------------------------

# These texts become part of a request's path, so only the characters of names are allowed.
_API_VERSION = re.compile(r"([a-z0-9]([-a-z0-9.]*[a-z0-9])?/)?[a-z][a-z0-9]*", re.ASCII)
_KIND = re.compile(r"[A-Z][A-Za-z0-9]*", re.ASCII)


def review(request: Request, facts: Facts, *, settings: AppWrapperSettings) -> Review:
    """Returns the validating webhook's answer to a creation or an update."""
    if request.old is not None:
        late = _late_annotations(request.old, request.new)
        return Review(tuple(changes(request.old, request.new)), warnings=tuple(late))
    broken = (
        *problems(request.new, own_workloads=settings.workloads == "own"),
        *unusable(section(section(request.new, "metadata"), "annotations")),
    )
    if broken:
        return Review(broken)
    rights = tuple(dict.fromkeys(_creations(request)))
    facts.require_all(rights)
    refused = _refused(request, facts, rights)
    if refused is not None:
        return refused
    return Review(warnings=tuple(warnings(request.new)))


def _refused(request: Request, facts: Facts, questions: Iterable[UserAccess]) -> Review | None:
    """Returns the refusal if the user may not create every wrapped resource; None if the user may.

    Without this check the operator would create the resources with its own rights.
    """
    name = request.user.name
    for question in questions:
        answer = facts.require(question)
        if isinstance(answer, Unknown):
            text = f"could not learn whether {name} may create {question.resource.plural}, try again: "
            return Review((_forbidden(text + answer.reason),), transient=True)
    denied = tuple(
        _forbidden(f"User {name} is not authorized to create {one.resource.plural} in {one.namespace}")
        for one in questions
        if facts.require(one) != Present(True)
    )
    return Review(denied) if denied else None


def _forbidden(text: str) -> Violation:
    return Violation("spec.components", text, "user-rights")


def _creations(request: Request) -> Iterator[UserAccess]:
    for component in request.new["spec"]["components"]:
        template, namespace = component["template"], request.key.namespace
        resource = resource_of(template)
        yield UserAccess(request.user, "create", resource, namespace)
        # Its policy would ask for the rights of the operator of AppWrappers, which makes it.
        if (resource.group, resource.kind) == (MINICLUSTER.group, MINICLUSTER.kind) and _reaches(template):
            yield UserAccess(request.user, "create", POD, namespace)


def _reaches(minicluster: Obj) -> bool:
    """True if a MiniCluster asks for more than containers of its author's own, or is of any other shape."""
    try:
        return bool(minicluster_reach(section(minicluster, "spec")))
    except (AttributeError, TypeError):
        return True


# --- creation ----------------------------------------------------------------------------------


def problems(new: Obj, *, own_workloads: bool = True) -> list[Violation]:
    """Returns the violations that do not depend on the user.

    `own_workloads` is true if this operator creates the Workloads, and false if Kueue's own integration does.
    """
    broken = violations(RULES, new)
    labels = new["metadata"].get("labels") or {}
    queued = labels.get(QUEUE_NAME_LABEL)
    if MAX_EXECUTION_LABEL in labels and max_execution_seconds(new) is None:
        text = f"{shortened(labels[MAX_EXECUTION_LABEL])} cannot be used: write seconds, such as 3600"
        broken.append(Violation(f"metadata.labels[{MAX_EXECUTION_LABEL}]", text, "max-execution"))
    total = 0
    indexes: dict[tuple[str, str, str], int] = {}
    for index, component in enumerate((new.get("spec") or {}).get("components") or ()):
        at = f"spec.components[{index}]"
        broken += _component(component, new["metadata"].get("namespace") or "", at)
        if (same := _named(component)) is not None and indexes.setdefault(same, index) != index:
            text = (
                f"spec.components[{indexes[same]}] is {same[1]} {same[2]}, too, and only one of them can be "
                "made: give each a name of its own"
            )
            broken.append(Violation(f"{at}.template.metadata.name", text, "same-name"))
        kind = wrapped_kind(component.get("template") or {})
        if kind is not None and kind.bare and queued and not own_workloads:
            text = (
                f"Kueue's own AppWrapper integration cannot queue a {kind.resource.kind}: "
                "the operator needs FOURNOS_APPWRAPPER_WORKLOADS=own"
            )
            broken.append(Violation(f"{at}.template", text, "own-workloads"))
        try:
            inferred = len(infer(component["template"]))
        except InferenceError:
            inferred = 0
        total += max(len(component.get("podSets") or ()), inferred)
    if not broken and not 1 <= total <= names.POD_SETS_MAX:
        text = (
            f"components contain {total} pod sets: at most {names.POD_SETS_MAX} are allowed"
            if total
            else "components contain no podspecs: wrap at least one resource that makes pods"
        )
        broken.append(Violation("spec.components", text, "pod-sets"))
    return broken


def _named(component: Mapping[str, Any]) -> tuple[str, str, str] | None:
    """Returns API group, kind and name; None if the name is to be generated."""
    template = component.get("template") or {}
    name = section(template, "metadata").get("name")
    group = str(template.get("apiVersion")).rpartition("/")[0]
    return (group, str(template.get("kind")), str(name)) if name else None


def _component(component: Mapping[str, Any], namespace: str, at: str) -> Iterator[Violation]:
    """Yields the violations of one component; `at` is its path in the spec."""
    template = component.get("template") or {}
    if not _API_VERSION.fullmatch(str(template.get("apiVersion"))) or not _KIND.fullmatch(
        str(template.get("kind"))
    ):
        text = "write apiVersion and kind as its API has them, such as batch/v1 and Job"
        yield Violation(f"{at}.template", text, "template")
        return
    meta = section(template, "metadata")
    if not meta.get("name") and not meta.get("generateName"):
        yield Violation(f"{at}.template.metadata", "write name or generateName", "template")
    if meta.get("namespace") not in (None, "", namespace):
        text = "AppWrappers cannot create objects in other namespaces: remove namespace"
        yield Violation(f"{at}.template.metadata.namespace", text, "namespace")
    written = declared(component)
    try:
        inferred = infer(template)
        pods = [template_of(template, pod_set.path) for pod_set in (*inferred, *written)]
    except (PathError, InferenceError) as error:
        yield Violation(f"{at}.podSets", str(error), "pod-sets")
        return
    for pod in pods:
        named = section(pod, "spec")
        if account := operator_account(named.get("serviceAccountName") or named.get("serviceAccount")):
            yield Violation(f"{at}.template", account, "operator-account")
            return
    for pod_set in written:
        count = pod_set.annotations.get(GROUP_COUNT)
        if count is not None and not is_number(str(count)):
            text = f"{GROUP_COUNT}: {shortened(str(count))} cannot be used: write a number, such as 2"
            yield Violation(f"{at}.podSets", text, "annotation")
    paths = [pod_set.path for pod_set in written]
    if len(set(paths)) != len(paths):
        yield Violation(f"{at}.podSets", "write each path once", "pod-sets")
    if written and inferred and _contradicts(template, written, inferred):
        inferred_sizes = ", ".join(f"{pod_set.path} ({pod_set.replicas})" for pod_set in inferred)
        yield Violation(
            f"{at}.podSets", f"the template says {inferred_sizes}: write that, or leave it out", "pod-sets"
        )


def _contradicts(template: Obj, written: Sequence[PodSetSpec], inferred: Sequence[PodSetSpec]) -> bool:
    """True if the declared pod sets have other paths than the inferred ones.

    Other numbers are a contradiction only for kinds that the published operator infers too. For other kinds
    manifests may declare any number: the number from the template is used, and a warning reports it.
    """
    kind = wrapped_kind(template)
    if kind is not None and kind.documents_pod_sets:
        return {one.path for one in written} != {one.path for one in inferred}
    return {(one.path, one.replicas) for one in written} != {(one.path, one.replicas) for one in inferred}


# --- changes -----------------------------------------------------------------------------------


def _late_annotations(old: Obj, new: Obj) -> Iterator[str]:
    """Yields warnings: an update with an unusable annotation is accepted, and the default counts."""
    before, after = (section(one["metadata"], "annotations") for one in (old, new))
    changed = {name: text for name, text in after.items() if before.get(name) != text}
    for problem in unusable(changed):
        yield f"{problem}; until then the default counts"


def changes(old: Obj, new: Obj) -> Iterator[Violation]:
    """Yields the violations of an update.

    `suspend`, `podSetInfos`, annotations and all metadata but the user's labels may change.
    """
    yield from violations(RULES, new, old)
    before, after = ((appwrapper.get("spec") or {}).get("components") or () for appwrapper in (old, new))
    for index, (was, now) in enumerate(zip(before, after, strict=False)):
        if was["template"] != now["template"]:
            text = "attempt to change immutable field: make a new AppWrapper with the other template"
            yield Violation(f"spec.components[{index}].template", text, "template-fixed")
    for label in (names.USER_LABEL, names.USER_ID_LABEL):
        values = [(appwrapper["metadata"].get("labels") or {}).get(label) for appwrapper in (old, new)]
        if values[0] != values[1]:
            yield Violation(f"metadata.labels[{label}]", "attempt to change immutable field", "user-fixed")
