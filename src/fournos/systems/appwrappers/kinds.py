"""The known kinds of components: how their pod sets are inferred and their health is determined.

The inference is that of the AppWrapper documentation. Kueue's built-in integration has the same kinds up to
RayJob. For the two kinds that follow, admission writes the pod sets into the spec. A PipelineRun has no pod
template and needs a Workload that this operator creates.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Final

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

# --- PipelineRun -----------------------------------------------------------------------------------------
# A kind without a pod template. Kueue's own AppWrapper integration does not support it: it needs Workloads
# that this operator creates.

RUN_PATH: Final = "template"
"""The path of its only pod set."""
_RUN_PODS: Final = tuple(RUN_POD_TEMPLATE.split("."))


def run_pod(template: Obj) -> Obj:
    """Returns a pod template with all that a PipelineRun requests. Raises ValueError with a remedy."""
    annotations, pods = section(template, "metadata", "annotations"), section(template, *_RUN_PODS)
    text = annotations.get(REQUESTS_ANNOTATION)
    try:
        requests = parse_requests(str(text)) if text is not None else {}
    except ValueError as error:
        raise ValueError(f"annotation {REQUESTS_ANNOTATION}: {error}") from None
    requests = requests or {"tekton.dev/pipelineruns": "1", **konflux_requests(annotations)}
    placement = {name: pods[name] for name in ("nodeSelector", "tolerations") if pods.get(name)}
    container = {"name": "main", "image": "main", "resources": {"requests": requests}}
    return {"spec": {"restartPolicy": "Never", **placement, "containers": [container]}}


def place_run(body: Obj, info: PodSetInfo) -> Obj:
    """Returns the run with the admission's changes. Tekton copies its labels and annotations to its pods.

    Raises PodSetInfoError.
    """
    if info.scheduling_gates:
        raise PodSetInfoError("a topology was assigned, which the pods of a PipelineRun cannot follow")
    for name, wanted in (("labels", info.labels), ("annotations", info.annotations)):
        if marks := union(name[:-1], section(body, "metadata", name), wanted):
            body = _with(body, marks, "metadata", name)
    pods = section(body, *_RUN_PODS)
    found = {
        "nodeSelector": union("nodeSelector", pods.get("nodeSelector"), info.node_selector),
        "tolerations": distinct(pods.get("tolerations"), info.tolerations),
    }
    placed = {**pods, **{name: value for name, value in found.items() if value}}
    return _with(body, placed, *_RUN_PODS) if placed else body


def section(obj: Any, *names: str) -> Mapping[str, Any]:
    """Returns the section; {} if there is none."""
    for name in names:
        obj = obj.get(name) if isinstance(obj, Mapping) else None
    return obj if isinstance(obj, Mapping) else {}


def _with(obj: Obj, value: Any, *path: str) -> Obj:
    """Returns a copy with the value at this path."""
    name, *rest = path
    return {**obj, name: _with(obj.get(name) or {}, value, *rest) if rest else value}


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


@dataclass(frozen=True, slots=True)
class WrappedKind:
    """A known kind of component."""

    resource: Resource
    infer: Infer
    health: Callable[[Obj], ComponentHealth] | None
    """Returns the health of an object; None if the health is determined by its pods."""
    kueue_infers: bool = True
    bare: bool = False
    """True for the kind without a pod template."""

    def kueue_counts(self, template: Obj) -> bool:
        """True if Kueue's own inference finds the pod sets of this template, with the right numbers."""
        spec = section(template, "spec")
        groups = (spec.get("workerGroupSpecs"), section(spec, "rayClusterSpec").get("workerGroupSpecs"))
        listed = [group for found in groups if isinstance(found, list) for group in found]
        return self.kueue_infers and not any(section(group).get(_HOSTS, 1) != 1 for group in listed)

    @property
    def documents_pod_sets(self) -> bool:
        """True if manifests for the published operator declare the pod sets: it does not infer them."""
        return not self.kueue_infers and not self.bare


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


def _by_role(specs_field: str, roles: tuple[str, ...], hints: Mapping[str, str]) -> Infer:
    def infer(template: Obj) -> Iterator[PodSetSpec]:
        specs = _part(template, "template", "spec", specs_field)
        for role in roles:
            if role in specs:
                replicas = _number(specs[role].get("replicas"), 1, f"{specs_field}.{role}.replicas")
                yield PodSetSpec(f"template.spec.{specs_field}.{role}.template", replicas, hints)

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


def _run(template: Obj) -> Iterator[PodSetSpec]:
    run_pod(template)
    yield PodSetSpec(RUN_PATH)


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
    WrappedKind(PIPELINE_RUN, _run, health.pipeline_run, kueue_infers=False, bare=True),
)
_BY_KIND: Final = {(one.resource.api_version, one.resource.kind): one for one in WRAPPED}


def wrapped_kind(template: Obj) -> WrappedKind | None:
    """Returns the known kind of a template; None if it is unknown."""
    return _BY_KIND.get((str(template.get("apiVersion")), str(template.get("kind"))))


def infer(template: Obj) -> tuple[PodSetSpec, ...]:
    """Returns the pod sets of a known kind, () for other kinds.

    Raises InferenceError, also for a template of any other shape.
    """
    kind = wrapped_kind(template)
    try:
        inferred = tuple(kind.infer(template)) if kind is not None else ()
    except (AttributeError, KeyError, TypeError) as error:
        raise InferenceError(f"the template is not a {template.get('kind')}") from error
    except ValueError as error:
        raise InferenceError(str(error)) from None
    if any(pod_set.replicas > INT32_MAX for pod_set in inferred):
        raise InferenceError(f"a pod set has at most {INT32_MAX} pods")
    return inferred


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
