"""Applies this repository's manifests to a local cluster, as the README describes it."""

from __future__ import annotations

import json
import shutil
import subprocess
from collections.abc import Iterable, Mapping
from pathlib import Path
from string import Template
from tempfile import TemporaryDirectory
from typing import Any

import yaml

from dev.image import ROOT
from devcluster import Cluster, DevclusterError, manifests
from devcluster.existing import kubectl_program
from devcluster.shell import run
from fournos.systems.jobs.names import RESOLVE_IMAGE_ANNOTATION
from fournos.systems.jobs.settings import NAMESPACES

APPLY_LIMIT = 120.0


def kubectl(cluster: Cluster, *arguments: str, stdin: str | None = None, limit: float = 60.0) -> str:
    """Runs kubectl and returns its output.  Raises DevclusterError with its error output."""
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
    """Applies the objects server-side; `namespace` is for objects without one."""
    placed: list[Mapping[str, Any]] = []
    unplaced: list[Mapping[str, Any]] = []
    for item in objects:
        (placed if item["metadata"].get("namespace") else unplaced).append(item)
    # With --namespace kubectl refuses an object of another namespace, so there are two calls.
    for items, words in ((placed, ()), (unplaced, ("--namespace", namespace) if namespace else ())):
        if items:
            text = json.dumps({"apiVersion": "v1", "kind": "List", "items": items})
            options = ("--server-side", "--force-conflicts", "--filename=-")
            kubectl(cluster, "apply", *options, *words, stdin=text, limit=APPLY_LIMIT)


def load(path: str | Path, **values: str) -> list[dict[str, Any]]:
    """Returns the objects of a file of this repository; `values` must cover all of its `$NAME`s."""
    text = (ROOT / path).read_text(encoding="utf-8")
    if values:
        text = Template(text).substitute(values)
    return manifests.parse(text)


def namespaces(namespace: str, *others: str) -> list[dict[str, Any]]:
    """Returns the namespace of the jobs, with access to the queue, and the others that have a name."""
    labelled = {"name": namespace, "labels": {"fournos.dev/queue-access": "true"}}
    return [
        {"apiVersion": "v1", "kind": "Namespace", "metadata": metadata}
        for metadata in (labelled, *({"name": name} for name in others if name))
    ]


def kustomized(operator_namespace: str, namespace: str, secrets_namespace: str) -> list[dict[str, Any]]:
    """Returns what `kubectl apply -k deploy` applies with these names.  Raises DevclusterError."""
    names = {"operator": operator_namespace, "jobs": namespace, "secrets": secrets_namespace}
    with TemporaryDirectory(prefix="fournos-deploy-") as scratch:
        for folder in ("deploy", "manifests"):
            shutil.copytree(ROOT / folder, Path(scratch) / folder)
        path = Path(scratch) / "deploy" / "names.yaml"
        path.write_text(yaml.safe_dump({**yaml.safe_load(path.read_text()), "data": names}))
        text = run([*kubectl_program(), "kustomize", path.parent], limit=60).stdout
    return manifests.parse(text)


def rbac(namespace: str, secrets_namespace: str) -> list[dict[str, Any]]:
    """Returns the RBAC objects that the README applies with envsubst."""
    objects = []
    for path in sorted((ROOT / "manifests" / "rbac").glob("*.yaml")):
        objects += load(path, NAMESPACE=namespace)
    return objects + load(
        "manifests/secrets-ns-rbac.yaml", NAMESPACE=namespace, SECRETS_NAMESPACE=secrets_namespace
    )


def mock_secrets(namespace: str) -> list[dict[str, Any]]:
    """Returns the objects of dev/mock-secrets.yaml, for the jobs of this namespace."""
    objects = load("dev/mock-secrets.yaml")
    for item in objects:
        item["metadata"]["annotations"] = {NAMESPACES: namespace}
    return objects


def mock_pipelines(resolve_image: str = "") -> list[dict[str, Any]]:
    """Returns the objects of dev/mock-pipelines and the real fournos-validate-only.

    `resolve_image` replaces the resolver's image.
    """
    objects = []
    for path in sorted((ROOT / "dev" / "mock-pipelines").glob("*.yaml")):
        objects += load(path)
    for item in objects:
        if resolve_image and item["kind"] == "Pipeline":
            item["metadata"]["annotations"][RESOLVE_IMAGE_ANNOTATION] = resolve_image
    return objects + load("config/fournos-validation/pipeline.yaml")
