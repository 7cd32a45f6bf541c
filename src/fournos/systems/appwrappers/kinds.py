"""The known kinds of components: how their pod sets are inferred and their health is determined.

The inference is that of the AppWrapper documentation. Kueue's built-in integration has the same kinds up to
RayJob. For the two kinds that follow, admission writes the pod sets into the spec. A PipelineRun has no pod
template and needs a Workload that this operator creates.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Final, TypeVar

from fournos.api.kinds import PIPELINE_RUN, RUN_POD_TEMPLATE
from fournos.engine.kube.resource import DEPLOYMENT, JOB, POD, Obj, Resource, usual_plural
from fournos.engine.queueing.podsets import (
    REQUESTS_ANNOTATION,
    PodSetInfo,
    PodSetInfoError,
    distinct,
    konflux_requests,
    parse_requests,
    union,
)
from fournos.systems.appwrappers import health
from fournos.systems.appwrappers.health import ComponentHealth
from fournos.systems.appwrappers.names import ANNOTATION, COMPONENT_ANNOTATION, LABEL
from fournos.systems.appwrappers.settings import INT32_MAX

# --- kinds without a pod template ----------------------------------------------------------------------
# The requests are those of the annotation fournos.dev/requests, otherwise one object of the kind. Kueue's
# own AppWrapper integration does not support these kinds: they need Workloads that this operator creates.

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


def _request_pod(requests: Mapping[str, Any], *, limits: Mapping[str, Any] | None = None, **spec: Any) -> Obj:
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
    konflux = konflux_requests(_section(template, "metadata", "annotations"))
    requests = _annotated(template) or {"tekton.dev/pipelineruns": "1", **konflux}
    yield PodRequest(WHOLE, 1, _request_pod(requests, **_placement(_section(template, *_RUN_PODS))))


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


WRAPPED_RUN: Final = Templateless(_pipeline_run, _place_pipeline_run)


def marks(name: str, index: int, info: PodSetInfo) -> PodSetInfo:
    """Returns the info with the label and annotation that assign pods to their AppWrapper and component."""
    return replace(
        info,
        labels={LABEL: name, **info.labels},
        annotations={COMPONENT_ANNOTATION: str(index), **info.annotations},
    )


# --- kinds with pod templates, and the table -----------------------------------------------------------

_INDEX, _GROUP_INDEX, GROUP_COUNT = (
    f"{ANNOTATION}tas-{name}" for name in ("pod-index-label", "sub-group-index-label", "sub-group-count")
)


class InferenceError(Exception):
    """The number of pods cannot be read from the template."""


@dataclass(frozen=True, slots=True)
class PodSetSpec:
    """A pod set of a component: the path of its pod template, and its number of pods."""

    path: str
    replicas: int = 1
    annotations: Mapping[str, str] = field(default_factory=dict)


Infer = Callable[[Obj], Iterator[PodSetSpec]]
T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class WrappedKind:
    """A known kind of component."""

    resource: Resource
    infer: Infer
    health: Callable[[Obj], ComponentHealth] | None
    """Returns the health of an object; None if the health is determined by its pods."""
    kueue_infers: bool = True
    bare: Templateless | None = None
    """Set for a kind without a pod template."""

    def kueue_counts(self, template: Obj) -> bool:
        """True if Kueue's own inference finds the pod sets of this template, with the right numbers."""
        spec = _section(template, "spec")
        groups = (spec.get("workerGroupSpecs"), _section(spec, "rayClusterSpec").get("workerGroupSpecs"))
        listed = [group for found in groups if isinstance(found, list) for group in found]
        return self.kueue_infers and not any(_section(group).get(_HOSTS, 1) != 1 for group in listed)

    @property
    def documents_pod_sets(self) -> bool:
        """True if manifests for the published operator declare the pod sets: it does not infer them."""
        return not self.kueue_infers and self.bare is None


def _number(value: Any, default: int, where: str) -> int:
    if value is None:
        return default
    if isinstance(value, bool) or not isinstance(value, int) or value < 0:
        raise InferenceError(f"{where} is not a whole number")
    return value


def _part(obj: Any, where: str, *names: str) -> Any:
    for name in names:
        if not isinstance(obj, Mapping) or name not in obj:
            raise InferenceError(f"{where} has no {'.'.join(names)}")
        obj = obj[name]
    return obj


def _pod(template: Obj) -> Iterator[PodSetSpec]:
    yield PodSetSpec("template")


def _replicated(template: Obj) -> Iterator[PodSetSpec]:
    replicas = _number(_part(template, "template", "spec").get("replicas"), 1, "spec.replicas")
    yield PodSetSpec("template.spec.template", replicas)


def _pods_of_job(spec: Any) -> int:
    parallelism = _number(spec.get("parallelism"), 1, "parallelism")
    return min(parallelism, _number(spec.get("completions"), parallelism, "completions"))


_JOB_HINTS: Final = {_INDEX: "batch.kubernetes.io/job-completion-index"}


def _job(template: Obj) -> Iterator[PodSetSpec]:
    yield PodSetSpec("template.spec.template", _pods_of_job(_part(template, "template", "spec")), _JOB_HINTS)


def _job_set(template: Obj) -> Iterator[PodSetSpec]:
    for i, one in enumerate(_part(template, "template", "spec", "replicatedJobs")):
        replicas = _number(one.get("replicas"), 1, f"replicatedJobs[{i}].replicas")
        pods = replicas * _pods_of_job(_part(one, f"replicatedJobs[{i}]", "template", "spec"))
        hints = {
            **_JOB_HINTS,
            _GROUP_INDEX: "jobset.sigs.k8s.io/job-index",
            GROUP_COUNT: str(replicas),
        }
        yield PodSetSpec(f"template.spec.replicatedJobs[{i}].template.spec.template", pods, hints)


def _by_role(section: str, roles: tuple[str, ...], hints: Mapping[str, str]) -> Infer:
    def infer(template: Obj) -> Iterator[PodSetSpec]:
        specs = _part(template, "template", "spec", section)
        for role in roles:
            if role in specs:
                replicas = _number(specs[role].get("replicas"), 1, f"{section}.{role}.replicas")
                yield PodSetSpec(f"template.spec.{section}.{role}.template", replicas, hints)

    return infer


_HOSTS: Final = "numOfHosts"
"""The pods of each replica of a Ray worker group; Kueue's own inference counts one."""


def _ray(*below: str) -> Infer:
    prefix = ".".join(("template", "spec", *below))

    def infer(template: Obj) -> Iterator[PodSetSpec]:
        spec = _part(template, "template", "spec", *below)
        yield PodSetSpec(f"{prefix}.headGroupSpec.template")
        for i, group in enumerate(spec.get("workerGroupSpecs") or ()):
            replicas = _number(group.get("replicas"), 1, f"workerGroupSpecs[{i}].replicas")
            hosts = _number(group.get(_HOSTS), 1, f"workerGroupSpecs[{i}].{_HOSTS}")
            yield PodSetSpec(f"{prefix}.workerGroupSpecs[{i}].template", replicas * hosts)

    return infer


def _leader_worker_set(template: Obj) -> Iterator[PodSetSpec]:
    """Yields the pod sets. A group has one leader and `size - 1` workers.

    A leader without a template of its own uses the workers' template.
    """
    spec = _part(template, "template", "spec")
    replicas = _number(spec.get("replicas"), 1, "replicas")
    group = _part(spec, "spec", "leaderWorkerTemplate")
    size = _number(group.get("size"), 1, "leaderWorkerTemplate.size")
    path = "template.spec.leaderWorkerTemplate"
    if "leaderTemplate" in group:
        yield PodSetSpec(f"{path}.leaderTemplate", replicas)
        if size > 1:
            yield PodSetSpec(f"{path}.workerTemplate", replicas * (size - 1))
    else:
        yield PodSetSpec(f"{path}.workerTemplate", replicas * size)


def _bare(resource: Resource, how: Templateless, health: Callable[[Obj], ComponentHealth]) -> WrappedKind:
    def infer(template: Obj) -> Iterator[PodSetSpec]:
        for request in how.requests(template):
            yield PodSetSpec(request.path, request.count)

    return WrappedKind(resource, infer, health, kueue_infers=False, bare=how)


STATEFUL_SET: Final = Resource("apps", "v1", "StatefulSet", "statefulsets")
JOB_SET: Final = Resource("jobset.x-k8s.io", "v1alpha2", "JobSet", "jobsets")
PYTORCH_JOB: Final = Resource("kubeflow.org", "v1", "PyTorchJob", "pytorchjobs")
MPI_JOB: Final = Resource("kubeflow.org", "v2beta1", "MPIJob", "mpijobs")
RAY_CLUSTER: Final = Resource("ray.io", "v1", "RayCluster", "rayclusters")
RAY_JOB: Final = Resource("ray.io", "v1", "RayJob", "rayjobs")
LEADER_WORKER_SET: Final = Resource("leaderworkerset.x-k8s.io", "v1", "LeaderWorkerSet", "leaderworkersets")

_TORCH_HINTS: Final = {_INDEX: "training.kubeflow.org/replica-index"}

WRAPPED: Final[tuple[WrappedKind, ...]] = (
    WrappedKind(POD, _pod, None),
    WrappedKind(DEPLOYMENT, _replicated, health.deployment),
    WrappedKind(STATEFUL_SET, _replicated, health.stateful_set),
    WrappedKind(JOB, _job, health.job),
    WrappedKind(JOB_SET, _job_set, health.job_set),
    WrappedKind(
        PYTORCH_JOB,
        _by_role("pytorchReplicaSpecs", ("Master", "Worker"), _TORCH_HINTS),
        health.kubeflow,
    ),
    WrappedKind(RAY_CLUSTER, _ray(), health.ray_cluster),
    WrappedKind(RAY_JOB, _ray("rayClusterSpec"), health.ray_job),
    WrappedKind(
        MPI_JOB,
        _by_role("mpiReplicaSpecs", ("Launcher", "Worker"), {}),
        health.kubeflow,
        kueue_infers=False,
    ),
    WrappedKind(LEADER_WORKER_SET, _leader_worker_set, health.leader_worker_set, kueue_infers=False),
    _bare(PIPELINE_RUN, WRAPPED_RUN, health.pipeline_run),
)
_BY_KIND: Final = {(one.resource.api_version, one.resource.kind): one for one in WRAPPED}


def wrapped_kind(template: Obj) -> WrappedKind | None:
    """Returns the known kind of a template; None if it is unknown."""
    return _BY_KIND.get((str(template.get("apiVersion")), str(template.get("kind"))))


def infer(template: Obj) -> tuple[PodSetSpec, ...]:
    """Returns the pod sets of a known kind, () for other kinds. Raises InferenceError."""
    kind = wrapped_kind(template)
    inferred = _read(kind, kind.infer, template) if kind is not None else ()
    if any(pod_set.replicas > INT32_MAX for pod_set in inferred):
        raise InferenceError(f"a pod set has at most {INT32_MAX} pods")
    return inferred


def requests_of(kind: WrappedKind, template: Obj) -> tuple[PodRequest, ...]:
    """Returns the requests of a kind without a pod template. Raises InferenceError."""
    return _read(kind, kind.bare.requests, template) if kind.bare is not None else ()


def _read(kind: WrappedKind, how: Callable[[Obj], Iterator[T]], template: Obj) -> tuple[T, ...]:
    """Reads a template, which may have any shape. Raises InferenceError."""
    try:
        return tuple(how(template))
    except (AttributeError, KeyError, TypeError) as error:
        raise InferenceError(f"the template is not a {kind.resource.kind}") from error
    except ValueError as error:
        raise InferenceError(str(error)) from None


def resource_of(template: Obj) -> Resource:
    """Returns the resource type of a template.

    The plural of an unknown kind is guessed as Kubernetes' own tools guess it. If the guess is wrong, the API
    server answers that it serves no such type.
    """
    kind = wrapped_kind(template)
    if kind is not None:
        return kind.resource
    group, _, version = str(template["apiVersion"]).rpartition("/")
    kind_name = str(template["kind"])
    return Resource(group, version, kind_name, usual_plural(kind_name))
