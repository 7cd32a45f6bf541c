"""The fingerprint of a FournosJob: which runs measure the same thing and can be compared.  Pure.

What counts is what a benchmark's author chose and what the hardware is: the Pipeline, its parameters, the
engine with its project, arguments and other configuration, the model, the GPUs, and the class of the cluster.
The Pipeline's annotation fournos.dev/fingerprint, which the operator copies into `status.resolved`, names the
parameters that count, and variables of env; without it all parameters count.

What does not count:
- versions (git references, SHAs, image tags): a change of version is what a comparison is made for;
- env that the annotation does not name: continuous integration writes its own identifiers there, which would
  make every run unique;
- owner, display name, priority, time limits, secrets: they do not change what is measured;
- exclusive: it changes the noise, not the subject.

`fournos.history.compare` shows the differences of everything that does not count.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, fields
from functools import lru_cache
from typing import Any, Final

from fournos.api.fournosjob import DEFAULT_PIPELINE
from fournos.api.fournosjob_values import param_value
from fournos.engine.kube.resource import Obj
from fournos.insight.values import spec_of, status_of

CLUSTER_CLASS_LABEL: Final = "fournos.dev/cluster-class"
"""Label of a FournosCluster, or of a ResourceFlavor: clusters with the same value are interchangeable for
benchmarks."""
GPU_PRODUCT_LABEL: Final = "nvidia.com/gpu.product"
"""Label of nodes with the full GPU model, which a ResourceFlavor may select by."""
CLUSTERLESS: Final = "clusterless"

_VERSION_KEYS: Final = frozenset(
    {
        "branch",
        "commit",
        "digest",
        "image",
        "imagetag",
        "pr",
        "pullnumber",
        "pullrequest",
        "ref",
        "revision",
        "sha",
        "tag",
        "version",
    }
)
_MODEL_KEYS: Final = frozenset({"model", "modelname", "modelid"})
_MODEL_ARGUMENT: Final = re.compile(r"(?:--)?model(?:[-_]?(?:name|id))?=(.+)", re.IGNORECASE)
_MODEL_OPTION: Final = re.compile(r"--model(?:[-_]?(?:name|id))?", re.IGNORECASE)
_CACHED: Final = 100
"""Longer keys are not cached: the cache stays below a megabyte."""
_DEEPEST: Final = 32
"""Levels of the engine's configuration in which a model or a version is looked for."""


@dataclass(frozen=True, slots=True)
class Fingerprint:
    """What a run measures, in readable parts.  Equal fingerprints are comparable."""

    pipeline: str = ""
    engine: str = ""
    """The single key of `spec.executionEngine`, such as forge."""
    project: str = ""
    args: tuple[str, ...] = ()
    config: str = ""
    """The rest of the engine's configuration without versions, as canonical JSON; "" if there is none."""
    model: str = ""
    """The first model that the arguments or the configuration name.  It counts there already; it is a part of
    its own for people to read."""
    gpu_type: str = ""
    gpu_count: int = 0
    cluster_class: str = ""
    params: str = ""
    """The parameters and variables that count, as canonical JSON; "" if there are none."""

    @property
    def id(self) -> str:
        """A stable short hash: 16 hexadecimal digits, the same in every process and release."""
        return hashlib.sha256(_canonical(self.as_data()).encode()).hexdigest()[:16]

    def as_data(self) -> dict[str, Any]:
        parts = {name: getattr(self, name) for name in _PARTS} | {"args": list(self.args)}
        if not self.params:  # runs that were recorded before there were any keep their identifier
            del parts["params"]
        return parts

    def __str__(self) -> str:
        gpus = f"{self.gpu_count} x {self.gpu_type}" if self.gpu_type else ""
        params = json.loads(self.params or "{}").items()
        chosen = (f"{name.removeprefix('params.')}={value}" for name, value in params)
        parts = (self.pipeline, self.project or self.engine, " ".join(self.args), self.model, *chosen, gpus)
        return ", ".join(part for part in (*parts, self.cluster_class) if part)


_PARTS: Final = tuple(one.name for one in fields(Fingerprint))


def fingerprint(
    spec: Mapping[str, Any], resolved: Mapping[str, Any] | None = None, cluster_class: str = ""
) -> Fingerprint:
    """Returns the fingerprint of a FournosJob.

    `spec` is the job's spec, `resolved` its `status.resolved`, whose hardware takes precedence.
    `cluster_class` is that of the target cluster; "" while none is assigned, which is a class of its own.
    """
    engine, value = _engine(spec.get("executionEngine"))
    args = _arguments(value.get("args"))
    rest = {key: item for key, item in value.items() if key not in ("project", "args")}
    measured_spec = _without_versions(rest, _DEEPEST)
    hardware = (resolved or {}).get("hardware") or spec.get("hardware") or {}
    return Fingerprint(
        pipeline=str(spec.get("pipeline") or DEFAULT_PIPELINE),
        engine=engine,
        project=str(value.get("project") or ""),
        args=args,
        config=_canonical(measured_spec) if measured_spec else "",
        model=_model_of_arguments(args) or _model(value, _DEEPEST) or _model(spec.get("params"), _DEEPEST),
        gpu_type=str(hardware.get("gpuType") or ""),
        gpu_count=_count(hardware.get("gpuCount")),
        cluster_class=CLUSTERLESS if spec.get("clusterless") else cluster_class,
        params=_params(spec, (resolved or {}).get("fingerprint")),
    )


def _params(spec: Mapping[str, Any], counting: str | None) -> str:
    """Returns the parameters and variables that count, as JSON.

    `counting` names them, such as "params.model, env.BATCH", or all of a kind, such as "params", which is
    also the meaning of None.
    """
    chosen = re.split(r"[\s,]+", "params" if counting is None else counting)
    values = {
        f"{field}.{name}": param_value(value)
        for field in ("params", "env")
        for name, value in (spec.get(field) or {}).items()
        if field in chosen or f"{field}.{name}" in chosen
    }
    return _canonical(values) if values else ""


def fingerprint_of(job: Obj, target: Obj | None = None) -> Fingerprint:
    """Returns the fingerprint of a FournosJob object.

    `target` is the FournosCluster that it is assigned to, else the ResourceFlavor; None if there is neither.
    """
    spec, status = spec_of(job), status_of(job)
    resolved = status.get("resolved") or {}
    name = str(status.get("cluster") or spec.get("cluster") or "")
    return fingerprint(spec, resolved, target_class(name, target, gpu_type_of(spec, resolved)))


def gpu_type_of(spec: Mapping[str, Any], resolved: Mapping[str, Any] | None) -> str:
    """Returns the short name of the GPUs that a job has, or asks for; "" if it has none."""
    return str(((resolved or {}).get("hardware") or spec.get("hardware") or {}).get("gpuType") or "")


def target_class(name: str, target: Obj | None, gpu_type: str) -> str:
    """Returns the class of the cluster `name`, which `target` describes (as in `fingerprint_of`).

    Nothing but its GPUs is known of a cluster that names no class, and these are parts of their own: "".
    Of a job without GPUs nothing shows that clusters are alike, so that each is a class.
    """
    return (cluster_class(target, gpu_type) if target is not None else "") or ("" if gpu_type else name)


def cluster_class(target: Obj, gpu_type: str = "") -> str:
    """The class that a FournosCluster or a ResourceFlavor names: clusters of one class give the same numbers.

    Its label decides.  Without the label, the full GPU models and their number in a node do, of a flavor the
    full model in its labels or its nodes': short names hide differences of memory and form.  "" if it names
    none, as a cluster without GPUs of the type.
    """
    labels = {**(spec_of(target).get("nodeLabels") or {}), **(target["metadata"].get("labels") or {})}
    if label := str(labels.get(CLUSTER_CLASS_LABEL) or ""):
        return label
    gpus = (status_of(target).get("hardware") or spec_of(target).get("hardware") or {}).get("gpus") or ()
    models = sorted(
        f"{gpu.get('model')}x{_per_node(gpu)}"
        for gpu in gpus
        if gpu_type and gpu.get("shortName") == gpu_type
    )
    return "+".join(models) or (str(labels.get(GPU_PRODUCT_LABEL) or "") if gpu_type else "")


def _canonical(value: Any) -> str:
    return json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=False, default=str)


def _engine(value: Any) -> tuple[str, Mapping[str, Any]]:
    if not isinstance(value, Mapping) or not value:
        return "", {}
    name = min(value, key=str)  # rules allow a single key; of more, the choice must not depend on their order
    inner = value[name]
    if isinstance(inner, Mapping):
        return str(name), inner
    return str(name), {} if inner is None else {"value": inner}


def _arguments(value: Any) -> tuple[str, ...]:
    """The arguments in their order, which has a meaning for most programs."""
    if isinstance(value, Mapping):
        return tuple(f"{key}={item}" for key, item in sorted(value.items(), key=lambda pair: str(pair[0])))
    if isinstance(value, str):
        return (value,)
    return tuple(map(str, value)) if isinstance(value, Iterable) else ()


def _last_word(key: object) -> str:
    """Returns the end of a key after its last dot, normalized: model_name, modelName, model-name are one."""
    text = str(key)
    return _short_word(text) if len(text) <= _CACHED else _word(text)


def _word(key: str) -> str:
    return re.sub(r"[-_ ]", "", key).lower().rpartition(".")[2]


_short_word: Final = lru_cache(maxsize=4096)(_word)
"""Jobs of one project have the same keys."""


def _without_versions(value: Any, depth: int) -> Any:
    if isinstance(value, Mapping):
        return {
            str(key): _without_versions(item, depth - 1) if depth else item
            for key, item in value.items()
            if _last_word(key) not in _VERSION_KEYS
        }
    if isinstance(value, list) and depth:
        return [_without_versions(item, depth - 1) for item in value]
    return value


def _model_of_arguments(args: tuple[str, ...]) -> str:
    for position, argument in enumerate(args):
        if found := _MODEL_ARGUMENT.fullmatch(argument):
            return found[1]
        if _MODEL_OPTION.fullmatch(argument) and position + 1 < len(args):
            return args[position + 1]
    return ""


def _model(value: Any, depth: int) -> str:
    """The value of the first key that names a model; keys of one level come before those below."""
    if not isinstance(value, Mapping) or not depth:
        return ""
    ordered = sorted(value.items(), key=lambda pair: str(pair[0]))
    for key, item in ordered:
        if _last_word(key) in _MODEL_KEYS:
            name = item.get("name") if isinstance(item, Mapping) else item
            if isinstance(name, str) and name:
                return name
    below = (_model(item, depth - 1) for _, item in ordered if isinstance(item, Mapping))
    return next(filter(None, below), "")


def _count(value: object) -> int:
    return value if isinstance(value, int) and not isinstance(value, bool) else 0


def _per_node(gpu: Mapping[str, Any]) -> int:
    return round(_count(gpu.get("count")) / max(1, _count(gpu.get("nodeCount"))))
