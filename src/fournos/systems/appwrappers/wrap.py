"""Builds an AppWrapper from plain manifests. All functions here are pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

from fournos.api.kinds import APPWRAPPER
from fournos.engine.queueing.workload import QUEUE_NAME_LABEL
from fournos.systems.appwrappers.names import LABEL

_NOT_COPIED: Final = (QUEUE_NAME_LABEL, LABEL)


class WrapError(Exception):
    """These manifests cannot form one AppWrapper. The message contains the reason."""


def wrap(
    manifests: Sequence[Mapping[str, Any]],
    *,
    name: str,
    namespace: str | None = None,
    queue: str | None = None,
) -> dict[str, Any]:
    """Returns the AppWrapper. Raises WrapError.

    A queue that the manifests name becomes the AppWrapper's queue, because wrapped resources are not queued
    by themselves. With a queue the AppWrapper starts suspended, so it waits for Kueue even where no webhook
    suspends it.
    """
    queues = {_labels(manifest).get(QUEUE_NAME_LABEL) for manifest in manifests} - {None}
    namespaces = {(manifest.get("metadata") or {}).get("namespace") for manifest in manifests} - {None}
    if queue is None and len(queues) > 1:
        raise WrapError(f"they name several queues: {', '.join(sorted(map(str, queues)))}")
    if namespaces - {namespace} and (namespace or len(namespaces) > 1):
        raise WrapError(f"they name other namespaces: {', '.join(sorted(map(str, namespaces)))}")
    for manifest in manifests:
        if isinstance(manifest.get("spec"), Mapping) and manifest["spec"].get("suspend") is True:
            raise WrapError(f"{manifest.get('kind')} says suspend: true, so it would never run: remove that")
    queue = queue or next((str(name) for name in queues), None)
    namespace = namespace or next((str(name) for name in namespaces), None)
    metadata: dict[str, Any] = {"name": name}
    if namespace:
        metadata["namespace"] = namespace
    if queue:
        metadata["labels"] = {QUEUE_NAME_LABEL: queue}
    spec: dict[str, Any] = {"suspend": True} if queue else {}
    spec["components"] = [{"template": _component(manifest)} for manifest in manifests]
    return {
        "apiVersion": APPWRAPPER.api_version,
        "kind": APPWRAPPER.kind,
        "metadata": metadata,
        "spec": spec,
    }


def _labels(manifest: Mapping[str, Any]) -> Mapping[str, Any]:
    return (manifest.get("metadata") or {}).get("labels") or {}


def _component(manifest: Mapping[str, Any]) -> dict[str, Any]:
    """Returns the component without its own queue, the AppWrapper of a copy and what the API server sets."""
    meta = dict(manifest.get("metadata") or {})
    labels = {name: value for name, value in _labels(manifest).items() if name not in _NOT_COPIED}
    for key in ("labels", "uid", "resourceVersion", "generation", "creationTimestamp", "managedFields"):
        meta.pop(key, None)
    if labels:
        meta["labels"] = labels
    return {**{key: value for key, value in manifest.items() if key != "status"}, "metadata": meta}
