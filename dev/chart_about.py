"""Chart.yaml: what Helm and Artifact Hub show of the chart.  Pure.

Annotations: https://artifacthub.io/docs/topics/annotations/helm
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import yaml

from dev.generated import yaml_text
from dev.release import SUMMARY
from dev.release_install import Document


def chart_yaml(
    version: str,
    url: str,
    crds: Iterable[Document],
    examples: Iterable[Document],
    images: Iterable[str],
) -> str:
    """Returns Chart.yaml of a version, with the custom resources that it brings and an example of each.

    `url`: of the repository.
    """
    annotations = {
        "category": "ai-machine-learning",
        "license": "Apache-2.0",
        "operator": "true",
        "operatorCapabilities": "Seamless Upgrades",
        "prerelease": "true" if version.startswith("0.") else "false",
        "links": _text([{"name": "Documentation", "url": f"{url}/tree/main/docs"}]),
        "images": _text(
            {"name": image.rpartition("/")[2].partition(":")[0], "image": image} for image in images
        ),
        "crds": _text(_shown(crd) for crd in crds),
        "crdsExamples": _text(examples),
    }
    chart = {
        "apiVersion": "v2",
        "name": "fournos",
        "description": SUMMARY,
        "type": "application",
        "version": version,
        "appVersion": version,
        "kubeVersion": ">=1.30.0-0",
        "keywords": ["benchmark", "gpu", "kueue", "tekton", "flux"],
        "home": url,
        "sources": [url],
        "icon": f"{url}/raw/main/src/fournos/web/static/icon.svg",
        "annotations": {f"artifacthub.io/{name}": value for name, value in annotations.items()},
    }
    return yaml_text(chart)


def _shown(crd: Document) -> Document:
    spec = crd["spec"]
    (version,) = spec["versions"]
    kind = spec["names"]["kind"]
    return {
        "kind": kind,
        "version": version["name"],
        "name": crd["metadata"]["name"],
        "displayName": kind,
        "description": version["schema"]["openAPIV3Schema"]["description"],
    }


def _text(value: Iterable[Any]) -> str:
    return yaml.safe_dump(list(value), sort_keys=False, width=110, allow_unicode=True)
