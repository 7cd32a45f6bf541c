"""What is shipped: the objects of the manifests, and the Deployment of each system."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any, Final

from pydantic_settings import BaseSettings

from devcluster import manifests

ROOT: Final = Path(__file__).parents[3]
Objects = dict[tuple[str, str], dict[str, Any]]
"""By kind and name."""
FOLDERS: Final = {
    "jobs": ("manifests", "manifests/rbac"),
    "clusters": ("deploy",),
    "appwrappers": ("deploy/appwrapper",),
    "frameworks": ("deploy/frameworks",),
    "miniclusters": ("deploy/minicluster",),
    "multikueue": ("deploy/multikueue/manager",),
    "history": ("deploy/history",),
    "web": ("deploy/web",),
}
"""Part → the folders with its Deployment and what belongs to it."""


@cache
def documents(path: Path) -> list[dict[str, Any]]:
    """To be read only: all callers get the same."""
    return [document for document in manifests.parse(path.read_text()) if document]


def everything(kind: str) -> Iterator[tuple[Path, dict[str, Any]]]:
    """Yields all objects of a kind with their files."""
    for folder in ("config", "dev", "manifests", "deploy"):
        for path in sorted((ROOT / folder).rglob("*.yaml")):
            for document in documents(path):
                if document["kind"] == kind:
                    yield path, document


@cache
def objects_of(*folders: str) -> Objects:
    """Returns the objects of all files of these folders, to be read only."""
    return {
        (document["kind"], document["metadata"]["name"]): document
        for folder in folders
        for path in sorted((ROOT / folder).glob("*.yaml"))
        for document in documents(path)
        if document["kind"] != "Kustomization"
    }


def granted(*roles: dict[str, Any]) -> dict[tuple[str, str], set[str]]:
    """Returns the verbs of these roles by group and plural."""
    verbs: dict[tuple[str, str], set[str]] = {}
    for rule in (rule for role in roles for rule in role["rules"]):
        for group in rule["apiGroups"]:
            for plural in rule["resources"]:
                verbs.setdefault((group, plural), set()).update(rule["verbs"])
    return verbs


def variables(*classes: type[BaseSettings]) -> set[str]:
    """Returns the names of the variables of these settings."""
    return {
        f"{settings.model_config.get('env_prefix')}{name}".upper()
        for settings in classes
        for name in settings.model_fields
    }


class Shipped:
    """The objects of a system with its Deployment, and the pod, container and environment of that."""

    def __init__(self, part: str) -> None:
        self.part = part
        self.objects = objects_of(*FOLDERS[part])
        (self.deployment,) = self.of("Deployment")
        self.pod: dict[str, Any] = self.deployment["spec"]["template"]
        (self.container,) = self.pod["spec"]["containers"]
        self.environment = {entry["name"]: entry.get("value", "") for entry in self.container["env"]}
        self.ports = {port["name"]: port["containerPort"] for port in self.container["ports"]}

    def of(self, kind: str) -> list[dict[str, Any]]:
        return [found for (each, _), found in self.objects.items() if each == kind]

    def selects(self, selector: dict[str, str]) -> bool:
        """Whether a selector means the pods."""
        return selector.items() <= self.pod["metadata"]["labels"].items()

    @property
    def metrics_service(self) -> dict[str, Any]:
        """The Service of the metrics' port."""
        services = self.of("Service")
        (service,) = (each for each in services if each["spec"]["ports"][0]["name"] == "metrics")
        return service


shipped = cache(Shipped)
