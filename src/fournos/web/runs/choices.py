"""What the form of a new job offers: the names that exist, and the parameters of the chosen Pipeline."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from fournos.api.fournosjob import DEFAULT_PIPELINE
from fournos.api.kinds import FOURNOS_CLUSTER, PIPELINE
from fournos.engine.kube.errors import KubeError
from fournos.engine.kube.resource import Obj, Resource
from fournos.engine.queueing.kinds import WORKLOAD_PRIORITY_CLASS
from fournos.insight.clusters import gpus_of
from fournos.insight.kueue_clusters import read as read_kueue_clusters
from fournos.insight.source import Source, or_error
from fournos.insight.values import name_of, spec_of
from fournos.systems.jobs.params import declared
from fournos.web.forms import Field, InputKind
from fournos.web.routes import Call
from fournos.web.runs.job_form import PARAMS


@dataclass(frozen=True, slots=True)
class FormChoices:
    """Read with the rights of the person; what they may not read is not offered."""

    namespace: str
    """That of the jobs."""
    names: Mapping[str, Sequence[str]]
    """Path of an input → the values that exist."""
    params: tuple[Field, ...] = ()
    """The inputs of the parameters that the Pipeline declares."""

    def inputs(self, form: Mapping[str, str]) -> tuple[Field, ...]:
        """The inputs of the declared parameters, and of others that the form has values for."""
        declared = {field.path for field in self.params}
        others = [
            Field(name, "The Pipeline declares no such parameter.", _kind("\n" in value))
            for name, value in form.items()
            if name.startswith(PARAMS) and name not in declared and value
        ]
        return (*self.params, *others)


async def form_choices(call: Call, namespace: str, pipeline: str) -> FormChoices:
    """Returns what exists for jobs of a namespace; `pipeline` is the chosen one, "" for the default."""
    person, source = call.viewer.client.api, call.viewer.source
    pipelines, priorities, hearth, kueue = await asyncio.gather(
        _listed(person, PIPELINE, namespace),
        _listed(person, WORKLOAD_PRIORITY_CLASS),
        _listed(source, FOURNOS_CLUSTER, call.site.clusters_namespace),
        read_kueue_clusters(source),
    )
    gpus: dict[str, int] = {}
    for each in (*map(gpus_of, hearth), *(cluster.gpus for cluster in kueue)):
        for gpu_type, count in each.items():
            gpus[gpu_type] = max(count, gpus.get(gpu_type, 0))
    most = max(gpus.values(), default=0)
    names = {
        "cluster": sorted({*map(name_of, hearth), *(cluster.name for cluster in kueue)}),
        "hardware.gpuType": sorted(gpus),
        "hardware.gpuCount": [str(2**power) for power in range(most.bit_length())],
        "pipeline": sorted(map(name_of, pipelines)),
        "priority": sorted(map(name_of, priorities)),
    }
    chosen = [each for each in pipelines if name_of(each) == (pipeline or DEFAULT_PIPELINE)]
    return FormChoices(namespace, names, tuple(field for each in chosen for field in _fields(each)))


async def _listed(source: Source, kind: Resource, namespace: str = "") -> Sequence[Obj]:
    listed = await or_error(source.list(kind, namespace=namespace))
    return () if isinstance(listed, KubeError) else listed.items


def _fields(pipeline: Obj) -> Iterable[Field]:
    kinds = declared(pipeline)
    for param in spec_of(pipeline).get("params") or ():
        if kinds.get(str(param.get("name"))) in ("string", "array"):
            is_list = kinds[param["name"]] == "array"
            help_ = str(param.get("description") or "") or f"A parameter of {name_of(pipeline)}."
            yield Field(
                f"{PARAMS}{param['name']}", help_, _kind(is_list), default=_text(param.get("default"))
            )


def _kind(is_list: bool) -> InputKind:
    return InputKind.LINES if is_list else InputKind.TEXT


def _text(default: Any) -> str:
    return ", ".join(map(str, default)) if isinstance(default, list) else str(default or "")
