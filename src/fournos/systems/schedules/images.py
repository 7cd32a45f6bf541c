"""The digests of the images that a Pipeline runs, as far as the cluster's own API has them.  Pure.

No registry is asked.  An image counts if it is named by its digest, or by a tag of an ImageStream.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Final

from fournos.api.kinds import RESOLVE_IMAGE_ANNOTATION
from fournos.engine.kube.resource import Obj

_PARAM: Final = re.compile(r"""\$\(params(?:\.([\w-]+)|\["([^"]+)"\]|\['([^']+)'\])\)""", re.ASCII)
_DIGEST: Final = re.compile(r"sha256:[0-9a-f]{64}")
_REGISTRY: Final = "image-registry.openshift-image-registry.svc:5000"
"""OpenShift's own registry, as pods name it."""


class UnknownImageError(Exception):
    """An image has no digest that the cluster's API knows; the message says which."""


def digests(
    pipeline: Obj, params: Mapping[str, Any], tasks: Iterable[Obj], streams: Iterable[Obj]
) -> list[str]:
    """Returns the digest of the resolver, and of each step and sidecar of the Pipeline's tasks.

    `params` are those of the job; `tasks` and `streams` are the Tasks and ImageStreams of its namespace.
    Raises UnknownImageError.
    """
    tags = _tags(streams)
    return [_digest(image, tags) for image in _images(pipeline, params, tasks)]


def _images(pipeline: Obj, params: Mapping[str, Any], tasks: Iterable[Obj]) -> Iterator[str]:
    spec = pipeline.get("spec") or {}
    by_name = {task["metadata"]["name"]: task.get("spec") or {} for task in tasks}
    values = _defaults(spec) | dict(params)
    yield (pipeline["metadata"].get("annotations") or {}).get(RESOLVE_IMAGE_ANNOTATION) or ""
    for entry in (*(spec.get("tasks") or ()), *(spec.get("finally") or ())):
        embedded = entry.get("taskSpec")
        task = embedded or _referenced(entry, by_name)
        if not task.get("steps"):
            raise UnknownImageError(f"task {entry.get('name')} has no steps: it is of another kind")
        yield from _of_task(task, _values(entry, task, values if embedded else {}, values))


def _referenced(entry: Mapping[str, Any], by_name: Mapping[str, Any]) -> Mapping[str, Any]:
    reference = entry.get("taskRef") or {}
    name = str(reference.get("name") or "")
    elsewhere = reference.get("resolver") or reference.get("bundle")
    if elsewhere or reference.get("kind", "Task") != "Task" or name not in by_name:
        raise UnknownImageError(f"task {entry.get('name')} is no Task of this namespace")
    task: Mapping[str, Any] = by_name[name]
    return task


def _values(
    entry: Mapping[str, Any], task: Mapping[str, Any], around: Mapping[str, Any], values: Mapping[str, Any]
) -> Mapping[str, Any]:
    """Returns the parameters of a task; none where a matrix sets them, since each run has others."""
    if entry.get("matrix"):
        return {}
    given = {param["name"]: _filled(param.get("value"), values) for param in entry.get("params") or ()}
    return {**around, **_defaults(task), **given}


def _of_task(task: Mapping[str, Any], values: Mapping[str, Any]) -> Iterator[str]:
    template = (task.get("stepTemplate") or {}).get("image")
    for step in task.get("steps") or ():
        if step.get("ref"):
            raise UnknownImageError(f"step {step.get('name')} is a StepAction")
        yield _filled(step.get("image") or template or "", values)
    for sidecar in task.get("sidecars") or ():
        yield _filled(sidecar.get("image") or "", values)


def _defaults(spec: Mapping[str, Any]) -> dict[str, Any]:
    return {param["name"]: param["default"] for param in spec.get("params") or () if "default" in param}


def _filled(text: Any, values: Mapping[str, Any]) -> Any:
    """Returns the text with the parameters that are texts; any other stays as it is written."""
    if not isinstance(text, str):
        return text

    def value(match: re.Match[str]) -> str:
        found = values.get(next(filter(None, match.groups())))
        return found if isinstance(found, str) else match.group()

    return _PARAM.sub(value, text)


def _tags(streams: Iterable[Obj]) -> dict[str, str]:
    """Returns the digest of each tag: namespace/name:tag → digest."""
    return {
        f"{stream['metadata']['namespace']}/{stream['metadata']['name']}:{tag['tag']}": tag["items"][0].get(
            "image"
        )
        for stream in streams
        for tag in (stream.get("status") or {}).get("tags") or ()
        if tag.get("items")
    }


def _digest(image: str, tags: Mapping[str, str]) -> str:
    _, _, digest = image.partition("@")
    if not digest:
        host, _, path = image.partition("/")
        name = path if ":" in path else f"{path}:latest"
        digest = tags.get(name, "") if host == _REGISTRY else ""
    if not _DIGEST.fullmatch(digest):
        raise UnknownImageError(f"image {image!r:.300} has no digest that the cluster's API knows")
    return digest
