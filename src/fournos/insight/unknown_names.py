"""Names in the spec of a new job that nothing has: a typo is refused at once, not by the failure of the job.

The rules are those by which the operator fails such a job (docs/fournos.md#phases).  What may not be read
refuses nothing, nor does a kind of which there is nothing at all, as Pipelines on a manager of MultiKueue.
"""

from __future__ import annotations

import asyncio
import difflib
from collections.abc import Collection, Iterator
from typing import Final

from fournos.api.kinds import PIPELINE
from fournos.api.slots import GPU_PREFIX
from fournos.engine.api.rules import Violation
from fournos.engine.kube.errors import KubeError, NotFoundError
from fournos.engine.kube.resource import Key, Obj, Resource
from fournos.engine.queueing.observe import covered
from fournos.engine.queueing.workload import CLUSTER_QUEUE, RESOURCE_FLAVOR
from fournos.insight.source import Source, or_error
from fournos.insight.values import name_of, spec_of

UNKNOWN: Final = "unknown"
"""The rule of these violations: the API server would take the job."""
_MOST: Final = 10
"""Known names that a message lists where none is near."""


async def unknown_names(source: Source, job: Obj) -> list[Violation]:
    """Returns cluster, Pipeline and GPU types of a manifest that do not exist, each with a near name.

    `job` has its namespace.
    """
    spec, namespace = spec_of(job), str(job["metadata"].get("namespace") or "")
    cluster, pipeline = spec.get("cluster"), spec.get("pipeline")
    questions = [_gpus(source, spec)]
    if cluster and not spec.get("clusterless"):
        questions.append(_named(source, RESOURCE_FLAVOR, Key("", str(cluster)), "spec.cluster", "cluster"))
    if pipeline and not spec.get("lockOnly"):
        questions.append(_named(source, PIPELINE, Key(namespace, str(pipeline)), "spec.pipeline", "Pipeline"))
    return [violation for answer in await asyncio.gather(*questions) for violation in answer]


async def _named(source: Source, kind: Resource, key: Key, field: str, noun: str) -> list[Violation]:
    if not isinstance(await or_error(source.get(kind, key)), NotFoundError):
        return []
    listed = await or_error(source.list(kind, namespace=key.namespace))
    existing = () if isinstance(listed, KubeError) else tuple(map(name_of, listed.items))
    return [_violation(field, noun, key.name, existing)] if existing else []


async def _gpus(source: Source, spec: Obj) -> list[Violation]:
    requested = list(_wanted(spec.get("hardware")))
    if not requested or spec.get("clusterless"):
        return []
    listed = await or_error(source.list(CLUSTER_QUEUE))
    gpu_types = {
        resource.removeprefix(GPU_PREFIX)
        for queue in (() if isinstance(listed, KubeError) else listed.items)
        for resource in covered(queue)
        if resource.startswith(GPU_PREFIX)
    }
    return [
        _violation(field, "GPU type", gpu_type, gpu_types)
        for field, gpu_type in requested
        if gpu_types and gpu_type not in gpu_types
    ]


def _wanted(hardware: object) -> Iterator[tuple[str, str]]:
    """Yields field and GPU type of what a job asks for, and of its alternatives."""
    if not isinstance(hardware, dict):
        return
    if hardware.get("gpuType"):
        yield "spec.hardware.gpuType", str(hardware["gpuType"])
    for place, alternative in enumerate(hardware.get("alternatives") or ()):
        yield f"spec.hardware.alternatives[{place}].gpuType", str(alternative.get("gpuType"))


def _violation(field: str, noun: str, name: str, existing: Collection[str]) -> Violation:
    near = difflib.get_close_matches(name, existing, n=1) or [
        each for each in existing if each.lower() == name.lower()
    ]
    listed = ", ".join(sorted(existing)[:_MOST]) + (", …" if len(existing) > _MOST else "")
    hint = f"is {near[0]} meant?" if near else f"there are {listed}"
    return Violation(field, f"there is no {noun} {name}: {hint}", UNKNOWN)
