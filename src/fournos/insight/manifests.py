"""Parses, changes, names and validates the manifests of jobs.  Pure."""

from __future__ import annotations

import asyncio
import copy
import difflib
import re
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from decimal import Decimal
from typing import Any, Final

import yaml

from fournos.api.fournosjob import DEFAULT_PIPELINE, DEFINITION
from fournos.api.kinds import FOURNOS_JOB, PIPELINE
from fournos.api.slots import GPU_PREFIX
from fournos.engine.api.rules import Violation
from fournos.engine.api.schema_readers import takes_texts
from fournos.engine.api.values import quantity_of
from fournos.engine.kube.errors import KubeError, NotFoundError
from fournos.engine.kube.formats import dump as dump
from fournos.engine.kube.formats import load_all as load_all
from fournos.engine.kube.formats import yaml_problem
from fournos.engine.kube.resource import Key, Obj, Resource
from fournos.engine.queueing.kinds import CLUSTER_QUEUE, RESOURCE_FLAVOR
from fournos.engine.queueing.observe import quotas_of
from fournos.insight.errors import ManifestError, refusal
from fournos.insight.source import Source, or_error
from fournos.insight.values import name_of, spec_of
from fournos.systems.jobs.rules import check_manifest

_SUFFIX: Final = "x7k2m"
"""An example of the suffix that the API server appends to a generateName."""
_ROOTS: Final = ("spec", "metadata")
MAX_REPEAT: Final = 100
"""Maximum number of jobs of one manifest that are submitted together."""
_PART: Final = re.compile(r"(?:[^.\\]|\\.)+")


def documents(text: str, source: str) -> list[dict[str, Any]]:
    """Returns the objects of a YAML or JSON text; Lists are unpacked.  Raises ManifestError.

    `source` names the text in error messages.
    """
    try:
        read_ = [document for document in yaml.safe_load_all(text) if document is not None]
    except yaml.YAMLError as error:
        raise ManifestError(f"{source} is not YAML: {yaml_problem(error)}", fix="correct the file") from None
    manifests: list[dict[str, Any]] = []
    for document in read_:
        if not isinstance(document, dict):
            raise ManifestError(
                f"{source} holds {document!r:.60}, which is not an object", fix="write a manifest"
            )
        if document.get("kind") == "List":
            manifests += [item for item in document.get("items") or () if isinstance(item, dict)]
        else:
            manifests.append(document)
    return manifests


def parse(text: str, source: str) -> list[dict[str, Any]]:
    """Returns the FournosJobs of a YAML or JSON text; Lists are unpacked.

    Raises ManifestError for invalid text, for an object of another kind and for a text without a FournosJob.
    """
    manifests = documents(text, source)
    for document in manifests:
        if document.get("kind") != FOURNOS_JOB.kind:
            raise ManifestError(
                f"{source} holds a {document.get('kind') or 'document without a kind'}, "
                "fournos submit takes FournosJobs",
                fix=f"write apiVersion: {FOURNOS_JOB.api_version} and kind: {FOURNOS_JOB.kind}; "
                "other kinds go in with kubectl apply",
            )
    if not manifests:
        raise ManifestError(f"{source} holds no FournosJob", fix="write one, or name another file")
    return manifests


def skeleton() -> dict[str, Any]:
    """Returns an empty FournosJob manifest, the base for `--set` without a file."""
    return {"apiVersion": FOURNOS_JOB.api_version, "kind": FOURNOS_JOB.kind, "metadata": {}, "spec": {}}


def field_path(text: str) -> list[str]:
    """Splits a path such as hardware.gpuCount; `\\.` is a dot within a name.  Returns [] for an empty path.

    The path is relative to spec unless it starts with spec or metadata.
    """
    parts = [part.replace("\\.", ".").replace("\\\\", "\\") for part in _PART.findall(text.strip())]
    return parts if not parts or parts[0] in _ROOTS else ["spec", *parts]


def field_of(obj: Obj, path: str) -> Any:
    """Returns a field of an object, None for one that it does not have; the path is as in `field_path`.

    A path that begins with status is one of the object, too: no spec has such a field.
    """
    parts = field_path(path)
    value: Any = obj
    for part in parts[1:] if parts[:2] == ["spec", "status"] else parts:
        value = value.get(part) if isinstance(value, dict) else None
    return value


def value_at(path: str, text: str) -> Any:
    """Returns the YAML value that is written for a field; None for an empty one.

    Where the field takes a text, the value stays as it is written, without quotes: 1.10 does not become 1.1.
    Raises ValueError.
    """
    parts = field_path(path)
    texts = parts[:1] == ["metadata"] or parts[:2] == ["spec", "params"] or takes_texts(DEFINITION, parts)
    return next(iter(load_all(text, texts=texts)), None)


def assign(manifest: dict[str, Any], parts: Sequence[str], value: object, *, asked: str) -> None:
    """Sets the field at a path; the value None removes it.

    Raises ManifestError if a parent of the field is not a map; `asked` is the request in the message.
    """
    node = manifest
    for index, part in enumerate(parts[:-1]):
        inner = node.get(part)
        if inner is None:
            inner = node[part] = {}
        if not isinstance(inner, dict):
            at = ".".join(parts[: index + 1])
            raise ManifestError(f"{asked}: {at} is not a map", fix=f"set {at} itself")
        node = inner
    if value is None:
        node.pop(parts[-1], None)
    else:
        node[parts[-1]] = value


def rename(manifest: dict[str, Any], *, name: str | None, generate_name: str | None) -> None:
    """Sets the requested name.  A manifest without any name gets a generateName from its pipeline."""
    meta = manifest.setdefault("metadata", {})
    if name:
        meta.pop("generateName", None)
        meta["name"] = name
    elif generate_name:
        meta.pop("name", None)
        meta["generateName"] = generate_name if generate_name.endswith("-") else f"{generate_name}-"
    elif not meta.get("name") and not meta.get("generateName"):
        spec = manifest.get("spec")
        pipeline = spec.get("pipeline") if isinstance(spec, dict) else None
        meta["generateName"] = f"{pipeline or DEFAULT_PIPELINE}-"


def with_owner(manifest: dict[str, Any], owner: str | None) -> dict[str, Any]:
    """Returns the manifest, whose owner is set where it names none."""
    spec = manifest.get("spec")
    if owner and isinstance(spec, dict) and not spec.get("owner"):
        spec["owner"] = owner
    return manifest


def with_generated_name(manifest: Mapping[str, Any]) -> dict[str, Any]:
    """Returns the manifest for one of several jobs: its name is the prefix of a generated one."""
    meta = dict(manifest.get("metadata") or {})
    if name := meta.pop("name", None):
        meta["generateName"] = f"{name}-"
    return {**manifest, "metadata": meta}


def place(
    manifest: dict[str, Any],
    *,
    asked: str | None,
    otherwise: str,
    asker: tuple[str, str] = ("the command line", "-n"),
) -> None:
    """Sets the namespace: the requested one, else the manifest's own, else the default `otherwise`.

    `asker` names the caller and its option in messages.  Raises ManifestError if the requested namespace
    differs from the manifest's own.
    """
    (who, option), meta = asker, manifest["metadata"]
    own = meta.get("namespace")
    if asked and own and asked != own:
        raise ManifestError(
            f"the manifest says namespace {own}, {who} says {asked}",
            fix=f"remove metadata.namespace from the manifest, or leave {option} out",
        )
    meta["namespace"] = asked or own or otherwise


def check(manifest: dict[str, Any]) -> list[Violation]:
    """Returns what the API server would refuse, and unknown fields.  Needs no cluster."""
    candidate = copy.deepcopy(manifest)
    meta = candidate.get("metadata") or {}
    if not meta.get("name") and meta.get("generateName"):
        # The API server truncates a long generateName to leave room for its suffix, but only at 63
        # characters, so the check runs on an example of the complete name.
        meta["name"] = f"{meta['generateName']}{_SUFFIX}"
    return check_manifest(candidate)


def refused(manifest: dict[str, Any], violations: Iterable[Violation], source: str) -> ManifestError:
    """Returns the error for the manifest of a job with violations."""
    meta = manifest.get("metadata") or {}
    name = meta.get("name") or f"{meta.get('generateName')}…"
    return refusal(f"{name} ({source})", tuple(violations), fix="correct these fields and submit again")


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
    largest = _largest(() if isinstance(listed, KubeError) else listed.items)
    violations = []
    for field, gpu_type, gpus in requested:
        most = largest.get(gpu_type)
        if largest and gpu_type not in largest:
            violations.append(_violation(f"{field}.gpuType", "GPU type", gpu_type, largest))
        elif most is not None and gpus > most:
            text = f"no cluster has more than {most:f} of {gpu_type}"
            violations.append(Violation(f"{field}.gpuCount", text, UNKNOWN))
    return violations


def _largest(queues: Iterable[Obj]) -> dict[str, Decimal | None]:
    """Returns GPU type → the largest quota that a cluster has of it; None where more can be borrowed."""
    largest: dict[str, Decimal | None] = {}
    for queue in queues:
        borrows = bool(spec_of(queue).get("cohortName"))
        for (_, resource), quota in quotas_of(queue):
            if not resource.startswith(GPU_PREFIX):
                continue
            gpu_type = resource.removeprefix(GPU_PREFIX)
            most = largest.get(gpu_type, Decimal(0))
            nominal = quantity_of(quota.get("nominalQuota") or 0)
            largest[gpu_type] = None if borrows or most is None else max(most, nominal)
    return largest


def _wanted(hardware: object) -> Iterator[tuple[str, str, int]]:
    """Yields field, GPU type and number of what a job asks for, and of its alternatives."""
    if not isinstance(hardware, dict):
        return
    asked = {"spec.hardware": hardware}
    for place, alternative in enumerate(hardware.get("alternatives") or ()):
        asked[f"spec.hardware.alternatives[{place}]"] = alternative
    for field, wanted in asked.items():
        if wanted.get("gpuType"):
            yield field, str(wanted["gpuType"]), int(wanted.get("gpuCount") or 0)


def _violation(field: str, noun: str, name: str, existing: Collection[str]) -> Violation:
    near = difflib.get_close_matches(name, existing, n=1) or [
        each for each in existing if each.lower() == name.lower()
    ]
    listed = ", ".join(sorted(existing)[:_MOST]) + (", …" if len(existing) > _MOST else "")
    hint = f"is {near[0]} meant?" if near else f"there are {listed}"
    return Violation(field, f"there is no {noun} {name}: {hint}", UNKNOWN)
