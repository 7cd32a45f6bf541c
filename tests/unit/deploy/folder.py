"""The folders of `deploy/`: their objects, and what a Deployment of any of them promises."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Final

from pydantic_settings import BaseSettings

from devcluster import manifests

DEPLOY: Final = Path(__file__).parents[3] / "deploy"
Objects = dict[tuple[str, str], dict[str, Any]]
"""By kind and name."""


def objects_of(folder: str) -> Objects:
    """Returns the objects of all files of a folder."""
    return {
        (document["kind"], document["metadata"]["name"]): document
        for path in sorted((DEPLOY / folder).glob("*.yaml"))
        for document in manifests.parse(path.read_text())
        if document and document["kind"] != "Kustomization"
    }


def kustomization_of(folder: str) -> dict[str, Any]:
    (kustomization,) = manifests.parse((DEPLOY / folder / "kustomization.yaml").read_text())
    return kustomization


def files_of(folder: str) -> set[str]:
    """Returns the names of the files that a kustomization has to list."""
    return {path.name for path in (DEPLOY / folder).glob("*.yaml")} - {"kustomization.yaml"}


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


def container_of(
    objects: Objects, deployment: str, part: str, *classes: type[BaseSettings]
) -> dict[str, Any]:
    """Returns the container of a Deployment: it runs this part, with variables of these settings alone."""
    (container,) = objects["Deployment", deployment]["spec"]["template"]["spec"]["containers"]
    assert container["args"] == ["run", "--enable", part]
    assert {entry["name"] for entry in container["env"]} <= variables(*classes)
    return dict(container)
