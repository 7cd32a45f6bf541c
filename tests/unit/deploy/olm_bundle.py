"""Reads bundle/, for tests.  What is returned is to be read only: all callers get the same."""

from __future__ import annotations

import json
from functools import cache
from pathlib import Path
from typing import Any

from devcluster import manifests

ROOT = Path(__file__).parents[3]
BUNDLE = ROOT / "bundle"


@cache
def objects() -> tuple[dict[str, Any], ...]:
    return tuple(
        document
        for path in sorted((BUNDLE / "manifests").iterdir())
        for document in manifests.parse(path.read_text())
    )


@cache
def prerequisites() -> tuple[dict[str, Any], ...]:
    return tuple(manifests.parse((BUNDLE / "prerequisites.yaml").read_text()))


def of(kind: str) -> list[dict[str, Any]]:
    return [item for item in objects() if item["kind"] == kind]


def csv() -> dict[str, Any]:
    (found,) = of("ClusterServiceVersion")
    return found


def spec() -> Any:
    return csv()["spec"]


def annotations() -> dict[str, str]:
    found: dict[str, str] = csv()["metadata"]["annotations"]
    return found


def examples() -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = json.loads(annotations()["alm-examples"])
    return found


def deployments() -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = spec()["install"]["spec"]["deployments"]
    return found


def crd_of(kind: str) -> dict[str, Any]:
    (found,) = (item for item in of("CustomResourceDefinition") if item["spec"]["names"]["kind"] == kind)
    return found


def variables(deployment: dict[str, Any]) -> dict[str, Any]:
    """Returns the variables of its container, by name."""
    return {entry["name"]: entry for entry in deployment["spec"]["template"]["spec"]["containers"][0]["env"]}
