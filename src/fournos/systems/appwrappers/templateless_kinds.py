"""Kinds without a pod template: the quota that they request, and the place of an admission's changes.

The requests are those of the annotation fournos.dev/requests, otherwise one object of the kind. Kueue's own
AppWrapper integration does not support these kinds: they need Workloads that this operator creates.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

from fournos.api.kinds import RUN_POD_TEMPLATE
from fournos.engine.kube.resource import Obj
from fournos.engine.queueing.podsets import PodSetInfo, PodSetInfoError, distinct, union
from fournos.engine.queueing.requests import REQUESTS_ANNOTATION, parse_requests
from fournos.systems.appwrappers.names import COMPONENT_ANNOTATION, LABEL

WHOLE: Final = "template"
"""The path of the only pod set of these kinds."""
_PLACEMENT: Final = ("nodeSelector", "tolerations")


@dataclass(frozen=True, slots=True)
class PodRequest:
    """A number of equal pods."""

    path: str
    count: int
    pod: Obj
    """A pod template with the requests of one pod."""


@dataclass(frozen=True, slots=True)
class Templateless:
    """How a kind without a pod template requests quota and takes an admission."""

    requests: Callable[[Obj], Iterator[PodRequest]]
    """Yields the requests. Raises ValueError with a remedy."""
    place: Callable[[Obj, Sequence[PodSetInfo]], Obj]
    """Returns the object with one PodSetInfo per request. Raises PodSetInfoError."""


def _pod(requests: Mapping[str, Any], *, limits: Mapping[str, Any] | None = None, **spec: Any) -> Obj:
    resources = {"requests": dict(requests), **({"limits": dict(limits)} if limits else {})}
    container = {"name": "main", "image": "main", "resources": resources}
    kept = {name: value for name, value in spec.items() if value}
    return {"spec": {"restartPolicy": "Never", **kept, "containers": [container]}}


def _annotated(template: Obj) -> dict[str, str] | None:
    text = ((template.get("metadata") or {}).get("annotations") or {}).get(REQUESTS_ANNOTATION)
    if text is None:
        return None
    try:
        return parse_requests(str(text))
    except ValueError as error:
        raise ValueError(f"annotation {REQUESTS_ANNOTATION}: {error}") from None


def _section(obj: Any, *names: str) -> Mapping[str, Any]:
    """Returns the section; {} if there is none."""
    for name in names:
        obj = obj.get(name) if isinstance(obj, Mapping) else None
    return obj if isinstance(obj, Mapping) else {}


def _placement(of: Mapping[str, Any]) -> dict[str, Any]:
    return {name: of[name] for name in _PLACEMENT if of.get(name)}


def _placed(of: Mapping[str, Any], info: PodSetInfo) -> dict[str, Any]:
    selector = union("nodeSelector", of.get("nodeSelector"), info.node_selector)
    tolerations = distinct(of.get("tolerations"), info.tolerations)
    found = {"nodeSelector": selector, "tolerations": tolerations}
    return {**of, **{name: value for name, value in found.items() if value}}


def _with(obj: Obj, value: Any, *path: str) -> Obj:
    """Returns a copy with the value at this path."""
    name, *rest = path
    return {**obj, name: _with(obj.get(name) or {}, value, *rest) if rest else value}


def _one(infos: Sequence[PodSetInfo]) -> PodSetInfo:
    return infos[0] if infos else PodSetInfo(WHOLE, 1)


def _no_topology(kind: str, infos: Sequence[PodSetInfo]) -> None:
    if any(info.scheduling_gates for info in infos):
        raise PodSetInfoError(f"a topology was assigned, which the pods of a {kind} cannot follow")


# --- PipelineRun -----------------------------------------------------------------------------------------

_RUN_PODS: Final = tuple(RUN_POD_TEMPLATE.split("."))


def _pipeline_run(template: Obj) -> Iterator[PodRequest]:
    requests = _annotated(template) or {"tekton.dev/pipelineruns": "1"}
    yield PodRequest(WHOLE, 1, _pod(requests, **_placement(_section(template, *_RUN_PODS))))


def _place_pipeline_run(body: Obj, infos: Sequence[PodSetInfo]) -> Obj:
    """Returns the run with the admission's changes. Tekton copies its labels and annotations to its pods."""
    _no_topology("PipelineRun", infos)
    info = _one(infos)
    marked = _marked(body, ("metadata",), info)
    pods = _placed(_section(marked, *_RUN_PODS), info)
    return _with(marked, pods, *_RUN_PODS) if pods else marked


def _marked(body: Obj, at: Sequence[str], info: PodSetInfo) -> Obj:
    for name, wanted in (("labels", info.labels), ("annotations", info.annotations)):
        found = union(name[:-1], _section(body, *at, name), wanted)
        body = _with(body, found, *at, name) if found else body
    return body


PIPELINE_RUN: Final = Templateless(_pipeline_run, _place_pipeline_run)


def marks(name: str, index: int, info: PodSetInfo) -> PodSetInfo:
    """Returns the info with the label and annotation that assign pods to their AppWrapper and component."""
    return replace(
        info,
        labels={LABEL: name, **info.labels},
        annotations={COMPONENT_ANNOTATION: str(index), **info.annotations},
    )
