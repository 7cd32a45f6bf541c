"""Applying this repository's manifests to a local cluster, as the README does it by hand."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Iterable, Mapping
from pathlib import Path
from string import Template
from typing import Any

import yaml

from dev.image import ROOT
from devcluster import Cluster, DevclusterError
from fournos.jobs.names import RESOLVE_IMAGE_ANNOTATION

APPLY_LIMIT = 120.0


def kubectl(cluster: Cluster, *arguments: str, stdin: str | None = None, limit: float = 60.0) -> str:
    """What kubectl prints.  Raises DevclusterError with its words."""
    command = [*cluster.kubectl_words(), *arguments]
    try:
        done = subprocess.run(
            command, input=stdin, capture_output=True, text=True, timeout=limit, check=False
        )
    except subprocess.TimeoutExpired:
        raise DevclusterError(f"kubectl {' '.join(arguments)} took longer than {limit:g} s") from None
    if done.returncode != 0:
        raise DevclusterError(f"kubectl {' '.join(arguments)} failed: {done.stderr.strip()[-2000:]}")
    return done.stdout


def apply(cluster: Cluster, objects: Iterable[Mapping[str, Any]], *, namespace: str | None = None) -> None:
    """Server-side apply; `namespace` is for those that name none."""
    settled: list[Mapping[str, Any]] = []
    homeless: list[Mapping[str, Any]] = []
    for item in objects:
        (settled if item["metadata"].get("namespace") else homeless).append(item)
    # kubectl refuses an object of another namespace than the one it is told.
    for items, words in ((settled, ()), (homeless, ("--namespace", namespace) if namespace else ())):
        if items:
            text = json.dumps({"apiVersion": "v1", "kind": "List", "items": items})
            options = ("--server-side", "--force-conflicts", "--filename=-")
            kubectl(cluster, "apply", *options, *words, stdin=text, limit=APPLY_LIMIT)


def load(path: str | Path, **values: str) -> list[dict[str, Any]]:
    """The objects of a file of this repository; `values` fill in its `$NAME`s, and must be all there are."""
    text = (ROOT / path).read_text(encoding="utf-8")
    if values:
        text = Template(text).substitute(values)
    return [document for document in yaml.safe_load_all(text) if document]


def namespaces(namespace: str, secrets_namespace: str) -> list[dict[str, Any]]:
    """The operator's, which may queue, and the one of the secrets."""
    labelled = {"name": namespace, "labels": {"fournos.dev/queue-access": "true"}}
    return [
        {"apiVersion": "v1", "kind": "Namespace", "metadata": metadata}
        for metadata in (labelled, {"name": secrets_namespace})
    ]


def rbac(namespace: str, secrets_namespace: str) -> list[dict[str, Any]]:
    """What the README applies with envsubst."""
    objects = []
    for path in sorted((ROOT / "manifests" / "rbac").glob("*.yaml")):
        objects += load(path, NAMESPACE=namespace)
    return objects + load(
        "manifests/secrets-ns-rbac.yaml", NAMESPACE=namespace, SECRETS_NAMESPACE=secrets_namespace
    )


def mock_pipelines(resolve_image: str = "") -> list[dict[str, Any]]:
    """Those of dev/mock-pipelines, with another resolver if named, and the real fournos-validate-only."""
    objects = []
    for path in sorted((ROOT / "dev" / "mock-pipelines").glob("*.yaml")):
        objects += load(path)
    for item in objects:
        if resolve_image and item["kind"] == "Pipeline":
            item["metadata"]["annotations"][RESOLVE_IMAGE_ANNOTATION] = resolve_image
    return objects + load("config/fournos-validation/pipeline.yaml")
