"""Chart.yaml: what Helm and Artifact Hub show of the chart.  Pure.

Annotations: https://artifacthub.io/docs/topics/annotations/helm
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Final

import yaml

from fournos.engine.api.crd import Definition

SHOWN: Final[Mapping[str, str]] = {
    "FournosJob": "A benchmark that is queued, gets a cluster, and runs there.",
    "FournosCluster": "A cluster with its GPUs, its quota and its lock.",
    "AppWrapper": "A group of resources that is queued and admitted as one.",
    "MiniCluster": "A Flux cluster as a resource.",
}
"""Kind → what Artifact Hub says of it."""
REPOSITORY: Final = "https://github.com/openshift-psap/fournos"


def chart_yaml(
    version: str, kinds: Iterable[Definition], examples: Iterable[Any], images: Iterable[str]
) -> str:
    """Returns Chart.yaml of a version, with the custom resources that it brings and an example of each."""
    custom_resources = [
        {
            "kind": kind.kind,
            "version": kind.version,
            "name": kind.name,
            "displayName": kind.kind,
            "description": SHOWN[kind.kind],
        }
        for kind in kinds
    ]
    annotations = {
        "category": "ai-machine-learning",
        "license": "Apache-2.0",
        "operator": "true",
        "operatorCapabilities": "Seamless Upgrades",
        "prerelease": "true" if version.startswith("0.") else "false",
        "links": _text([{"name": "Documentation", "url": f"{REPOSITORY}/tree/main/docs"}]),
        "images": _text(
            {"name": image.rpartition("/")[2].partition(":")[0], "image": image} for image in images
        ),
        "crds": _text(custom_resources),
        "crdsExamples": _text(examples),
    }
    chart = {
        "apiVersion": "v2",
        "name": "fournos",
        "description": "Benchmark jobs in a fair queue, on the right cluster, with a history",
        "type": "application",
        "version": version,
        "appVersion": version,
        "kubeVersion": ">=1.30.0-0",
        "keywords": ["benchmark", "gpu", "kueue", "tekton", "flux"],
        "home": REPOSITORY,
        "sources": [REPOSITORY],
        "icon": f"{REPOSITORY}/raw/main/src/fournos/web/static/icon.svg",
        "annotations": {f"artifacthub.io/{name}": value for name, value in annotations.items()},
    }
    return yaml.dump(chart, Dumper=_Dumper, sort_keys=False, width=110, allow_unicode=True)


def _text(value: Iterable[Any]) -> str:
    return yaml.safe_dump(list(value), sort_keys=False, width=110, allow_unicode=True)


class _Dumper(yaml.SafeDumper):
    """Writes text of several lines as a block: annotations hold YAML."""


def _string(dumper: yaml.SafeDumper, text: str) -> yaml.ScalarNode:
    return dumper.represent_scalar("tag:yaml.org,2002:str", text, style="|" if "\n" in text else None)


_Dumper.add_representer(str, _string)
