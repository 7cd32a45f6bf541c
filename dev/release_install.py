"""Builds install.yaml, the manifests to install one system, or all of them, of one version.  Pure.

The input is the rendered kustomization of a system, or its files if it has none.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import yaml

Document = dict[str, Any]

REPOSITORIES = ("quay.io/rh_perfscale/fournos", "quay.io/rh_perfscale/hearth")
"""The names in the manifests of the one image of all operators."""
ORDER = (
    "Namespace",
    "CustomResourceDefinition",
    "ServiceAccount",
    "ClusterRole",
    "ClusterRoleBinding",
    "Role",
    "RoleBinding",
    "ValidatingAdmissionPolicy",
    "ValidatingAdmissionPolicyBinding",
    "Secret",
    "ConfigMap",
    "Service",
    "NetworkPolicy",
    "PodDisruptionBudget",
    "LocalQueue",
    "Deployment",
    "MutatingWebhookConfiguration",
    "ValidatingWebhookConfiguration",
)
"""The order of the kinds.  Operators precede the webhook configurations that call them: an object created in
between is not refused."""


@dataclass(frozen=True)
class System:
    """The sources of a system's objects: a kustomization or files, and namespaces that these lack."""

    name: str
    what: str
    kustomization: str = ""
    files: tuple[str, ...] = ()
    namespaces: tuple[str, ...] = ()


JOBS_NAMESPACE = "fournos"
"""The namespace of the FournosJobs in deploy/."""
LOCKS_NAMESPACE = "psap-automation"
"""The namespace in which a standalone Hearth looks for FournosJobs."""

SYSTEMS = (
    System("fournos", "FournosJob", kustomization="deploy"),
    System(
        "hearth",
        "FournosCluster (Hearth)",
        files=(
            "manifests/crd.yaml",
            "deploy/deployment.yaml",
            "deploy/clusterrole.yaml",
        ),
        namespaces=("psap-secrets", LOCKS_NAMESPACE),
    ),
    System("appwrapper", "AppWrapper", kustomization="deploy/appwrapper"),
    System("minicluster", "MiniCluster", kustomization="deploy/minicluster"),
    System("frameworks", "kinds by configuration", kustomization="deploy/frameworks"),
    System(
        "multikueue",
        "MultiKueue, manager",
        files=("deploy/multikueue/manager/fournos.yaml", "deploy/multikueue/manager/deployment.yaml"),
    ),
)
NOT_OURS = frozenset({"kueue-system"})
"""Namespaces that Kueue's installation creates."""


def namespace(name: str) -> Document:
    return {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}}


def identity(item: Mapping[str, Any]) -> tuple[str, str, str, str]:
    """Returns group, kind, namespace and name, which identify an object across systems."""
    meta = item["metadata"]
    group = str(item["apiVersion"]).rpartition("/")[0]
    return group, str(item["kind"]), str(meta.get("namespace", "")), str(meta["name"])


def of_system(system: System, documents: Iterable[Document], image: str) -> list[Document]:
    """Returns the objects of a system, in order; `image` includes the tag."""
    found = [*map(namespace, system.namespaces), *documents]
    return _ordered(_with_image(item, image) for item in found)


def of_all(systems: Mapping[str, Sequence[Document]]) -> list[Document]:
    """Merges the objects of all systems.  Hearth's namespace for locks becomes that of the FournosJobs.

    Raises ValueError if two systems define the same object differently.
    """
    beside_jobs = {LOCKS_NAMESPACE: JOBS_NAMESPACE}
    renamed = {name: [with_names(item, beside_jobs) for item in objects] for name, objects in systems.items()}
    return _ordered(item for item, _ in merged(renamed))


def merged(systems: Mapping[str, Sequence[Document]]) -> list[tuple[Document, tuple[str, ...]]]:
    """Returns each object once, with the names of the systems that have it.

    Raises ValueError if two systems define the same object differently.
    """
    objects: dict[tuple[str, str, str, str], Document] = {}
    owners: dict[tuple[str, str, str, str], list[str]] = {}
    for system, item in ((system, item) for system, items in systems.items() for item in items):
        key = identity(item)
        merged_object = objects.setdefault(key, {**item})
        owners.setdefault(key, []).append(system)
        if merged_object != item:
            if item["kind"] != "Namespace":
                raise ValueError(f"two systems differ about {' '.join(filter(None, key))}")
            merged_object["metadata"] = {**item["metadata"], **merged_object["metadata"]}
    return [(objects[key], tuple(names)) for key, names in owners.items()]


def with_names(value: Any, names: Mapping[str, str]) -> Any:
    """Returns the value with each string that is a key of `names` replaced."""
    if isinstance(value, dict):
        return {key: with_names(each, names) for key, each in value.items()}
    if isinstance(value, list):
        return [with_names(each, names) for each in value]
    return names.get(value, value) if isinstance(value, str) else value


def _with_image(item: Document, image: str) -> Document:
    if item["kind"] != "Deployment":
        return item
    changed: Document = json.loads(json.dumps(item))
    for container in changed["spec"]["template"]["spec"]["containers"]:
        if container["image"].partition(":")[0] in REPOSITORIES:
            container["image"] = image
    return changed


def _ordered(items: Iterable[Document]) -> list[Document]:
    return sorted(items, key=lambda item: (ORDER.index(item["kind"]), identity(item)))


def missing_namespaces(documents: Iterable[Document]) -> set[str]:
    """Returns the namespaces that objects use and no object creates."""
    found = list(documents)
    made = {item["metadata"]["name"] for item in found if item["kind"] == "Namespace"}
    used = {str(item["metadata"]["namespace"]) for item in found if "namespace" in item["metadata"]}
    return used - made - NOT_OURS


def write(documents: Iterable[Document], *, title: str) -> str:
    """Returns the text of the file."""
    body = yaml.safe_dump_all(documents, sort_keys=False, width=110, allow_unicode=True)
    return f"# {title}\n#   kubectl apply -f <this file>\n{body}"
