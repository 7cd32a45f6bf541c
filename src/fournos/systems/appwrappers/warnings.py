"""Admission warnings, shown to the user who creates the AppWrapper: accepted, but probably a mistake."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Final

import orjson

from fournos.engine.kube.resource import Key, Obj
from fournos.engine.runtime.decision import Absent, Facts, LiveGet, Present, Unknown, UnknownFields
from fournos.systems.appwrappers.kinds import resource_of
from fournos.systems.appwrappers.podsets import declared, pod_sets_of
from fournos.systems.appwrappers.remedies import no_such_kind, right_to
from fournos.systems.appwrappers.settings import AppWrapperSettings

_POD_SET_NAME_MAX: Final = 61
"""The number of characters that Kueue allows in a pod set's name, without the number that is appended."""
_FIELDS_SHOWN: Final = 10


def probes(new: Obj) -> dict[int, LiveGet]:
    """Returns, by component index, the live reads that `warnings` needs.

    The object need not exist. The answer also shows whether the API server serves its kind.
    """
    namespace = new["metadata"].get("namespace") or ""
    questions = {}
    for index, component in enumerate(new["spec"]["components"]):
        meta = component["template"]["metadata"]
        name = meta.get("name") or f"{meta['generateName']}any"
        questions[index] = LiveGet(resource_of(component["template"]), Key(namespace, name))
    return questions


def trials(new: Obj, facts: Facts) -> dict[int, UnknownFields]:
    """Returns, by component index, the dry runs that follow `probes`.

    Only kinds that the API server serves, and that the user may create, are included.
    """
    namespace = new["metadata"].get("namespace") or ""
    questions = {}
    for index, probe in probes(new).items():
        answer = facts.require(probe)
        if isinstance(answer, Unknown) or answer == Absent(no_kind=True):
            continue
        template = new["spec"]["components"][index]["template"]
        body = {**template, "metadata": {**template["metadata"], "namespace": namespace}}
        questions[index] = UnknownFields(probe.resource, orjson.dumps(body).decode())
    return questions


def _dropped(new: Obj, facts: Facts) -> Iterator[str]:
    found = trials(new, facts)
    answers = facts.require_all(found.values())
    for (index, trial), answer in zip(found.items(), answers, strict=True):
        for path in answer.value[:_FIELDS_SHOWN] if isinstance(answer, Present) else ():
            yield (
                f"spec.components[{index}].template.{path} is not a field of a {trial.resource.kind} of "
                f"{trial.resource.api_version} and is dropped: correct or remove it"
            )


def warnings(new: Obj, facts: Facts, settings: AppWrapperSettings) -> Iterator[str]:
    """Yields the warnings about an AppWrapper without violations."""
    meta = new["metadata"]
    name = meta.get("name") or ""
    # The Workloads of this operator replace dots by hyphens.
    if len(name) > _POD_SET_NAME_MAX or (settings.workloads == "kueue" and "." in name):
        yield (
            "pod sets are named after the AppWrapper, and Kueue takes no dots there nor more than "
            f"{_POD_SET_NAME_MAX} characters: it cannot be queued under this name"
        )
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
    yield from _dropped(new, facts)
    for index, probe in probes(new).items():
        kind, text = probe.resource.kind, ""
        match facts.require(probe):
            case Absent(no_kind=True):
                text = f"{no_such_kind(probe.resource)}, or it fails when it starts"
            case Unknown(forbidden=True):
                text = f"the operator has no right to get {probe.resource}: {right_to(probe.resource)}"
            case Present() if new["spec"]["components"][index]["template"]["metadata"].get("name"):
                text = f"there is a {kind} {probe.key.name} already: it fails unless that is gone by then"
        if text:
            yield f"spec.components[{index}]: {text}"
