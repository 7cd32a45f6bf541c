"""install.yaml: what `kubectl apply -f` needs to install a system, or all of them, of one version.  Pure.

Kustomizations come in rendered; the files of systems without one as they are.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import yaml

Document = dict[str, Any]

REPOSITORIES = ("quay.io/rh_perfscale/fournos", "quay.io/rh_perfscale/hearth")
"""What the manifests call the one image of all operators."""
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
"""The operators before the webhooks that ask them: what is created in between is not refused."""


@dataclass(frozen=True)
class System:
    """Where a system's objects are: a kustomization, or files; and namespaces that none of them makes."""

    name: str
    what: str
    kustomization: str = ""
    files: tuple[str, ...] = ()
    namespaces: tuple[str, ...] = ()


JOBS_NAMESPACE = "fournos"
"""Of the FournosJobs, as deploy/ has it."""
LOCKS_NAMESPACE = "psap-automation"
"""Where Hearth by itself looks for them."""

SYSTEMS = (
    System("fournos", "FournosJob", kustomization="deploy"),
    System(
        "hearth",
        "FournosCluster (Hearth)",
        files=(
            "deploy/crd/fournosclusters.yaml",
            "deploy/crd/fournosjobs.yaml",
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
"""Namespaces that Kueue makes."""


def namespace(name: str) -> Document:
    return {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}}


def identity(item: Mapping[str, Any]) -> tuple[str, str, str, str]:
    """Group, kind, namespace, name: what is one object, whoever lists it."""
    meta = item["metadata"]
    group = str(item["apiVersion"]).rpartition("/")[0]
    return group, str(item["kind"]), str(meta.get("namespace", "")), str(meta["name"])


def of_system(system: System, documents: Iterable[Document], image: str) -> list[Document]:
    """What it takes; `image` with its tag."""
    found = [*map(namespace, system.namespaces), *documents]
    return _ordered(_with_image(item, image) for item in found)


def of_all(systems: Sequence[Sequence[Document]]) -> list[Document]:
    """One file for all: Hearth locks clusters where this very file has FournosJobs run.

    Raises ValueError if two systems want one object in two ways.
    """
    found: dict[tuple[str, str, str, str], Document] = {}
    for item in (_beside_jobs(item) for system in systems for item in system):
        if item is None:
            continue
        known = found.setdefault(identity(item), item)
        if known != item:
            if item["kind"] != "Namespace":
                raise ValueError(f"two systems differ about {' '.join(filter(None, identity(item)))}")
            known["metadata"] = {**item["metadata"], **known["metadata"]}
    return _ordered(found.values())


def _beside_jobs(item: Document) -> Document | None:
    """None: not needed where FournosJobs have a namespace already."""
    if item["kind"] == "Namespace" and item["metadata"]["name"] == LOCKS_NAMESPACE:
        return None
    text = json.dumps(item)
    changed: Document = json.loads(text.replace(f'"{LOCKS_NAMESPACE}"', f'"{JOBS_NAMESPACE}"'))
    return changed


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


def homeless(documents: Iterable[Document]) -> set[str]:
    """Namespaces that are used and not made."""
    found = list(documents)
    made = {item["metadata"]["name"] for item in found if item["kind"] == "Namespace"}
    used = {str(item["metadata"]["namespace"]) for item in found if "namespace" in item["metadata"]}
    return used - made - NOT_OURS


def write(documents: Iterable[Document], *, title: str) -> str:
    """The file."""
    body = yaml.safe_dump_all(documents, sort_keys=False, width=110, allow_unicode=True)
    return f"# {title}\n#   kubectl apply -f <this file>\n{body}"
