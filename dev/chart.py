"""`make chart`: charts/fournos, the Helm chart, from the same manifests as the install files."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Final

from dev import resources
from dev.chart_templates import NAMESPACES, ChartObject, in_variants, templates
from dev.chart_values import SystemValues, all_values, readme, schema_json, values_yaml
from dev.generated import differences, write
from dev.image import ROOT
from dev.release import CHART, documents
from dev.release_install import (
    LOCKS_NAMESPACE,
    SYSTEMS,
    Document,
    System,
    identity,
    merged,
    namespace,
    with_names,
)
from devcluster import DevclusterError
from fournos.app.parts import PARTS

VALUES: Final = {
    "fournos": "jobs",
    "hearth": "clusters",
    "appwrapper": "appwrappers",
    "minicluster": "miniclusters",
    "frameworks": "frameworks",
    "multikueue": "multikueue",
    "history": "history",
    "web": "web",
    "monitoring": "monitoring",
}
"""System of the install files → its values."""
MORE: Final = (
    System("history", "The history of runs", kustomization="deploy/history"),
    System("web", "The page", kustomization="deploy/web"),
    System("monitoring", "ServiceMonitors, alerts and a dashboard", kustomization="deploy/monitoring"),
)
"""What is installed beside the systems of the install files, and not by default."""
VARIANTS: Final = {
    "history": {
        "sqlite": "deploy/history",
        "sqlite-s3": "deploy/history-sqlite-s3",
        "postgres": "deploy/history-postgres",
        "postgres-s3": "deploy/history-postgres-s3",
    },
}
"""System → the kustomizations of which its values choose one, by the names that _helpers.tpl gives them."""
IMPERSONATION: Final = "deploy/web-impersonation"
"""Objects beside those of the page."""
_HERE: Final = {"psap-secrets": NAMESPACES["secrets"], LOCKS_NAMESPACE: NAMESPACES["jobs"]}
"""Namespaces of Hearth's files → those of the chart."""


def generated(tree: Path) -> dict[str, str]:
    """Returns the generated files of the chart, by their paths in it.  Raises DevclusterError."""
    systems = (*SYSTEMS, *MORE)
    alike = {VALUES[system.name]: _objects(tree, system) for system in systems if system.name not in VARIANTS}
    objects = [ChartObject(*each) for each in merged(alike)]
    for name in VARIANTS:
        objects += _in_variants(tree, name)
    objects += _impersonation(tree, alike["web"])
    values = all_values(_values(system, objects) for system in systems)
    return {
        "values.yaml": values_yaml(values),
        "values.schema.json": schema_json(values),
        "README.md": readme(values),
        **{f"templates/{name}": text for name, text in templates(objects).items()},
    }


def _objects(tree: Path, system: System) -> list[Document]:
    """The objects of a system, with names that stand for the namespaces that values choose."""
    if system.name == "fournos":
        return resources.kustomized(NAMESPACES["operator"], NAMESPACES["jobs"], NAMESPACES["secrets"])
    made = [namespace(name) for name in system.namespaces]
    objects: list[Document] = with_names([*made, *documents(tree, system)], _HERE)
    return objects


def _in_variants(tree: Path, name: str) -> list[ChartObject]:
    variants = {
        variant: documents(tree, System(name, "", kustomization=path))
        for variant, path in VARIANTS[name].items()
    }
    return in_variants(name, variants)


def _impersonation(tree: Path, page: Iterable[Document]) -> list[ChartObject]:
    """What the page needs to act for people whom a proxy names."""
    identities = {identity(document) for document in page}
    return [
        ChartObject(document, ("web",), ".Values.web.impersonation.enabled")
        for document in documents(tree, System("web", "", kustomization=IMPERSONATION))
        if identity(document) not in identities
    ]


def _values(system: System, objects: Iterable[ChartObject]) -> SystemValues:
    name = VALUES[system.name]
    deployments = [item.document for item in objects if item.kind == "Deployment" and item.systems[0] == name]
    if len({identity(deployment) for deployment in deployments}) > 1:
        raise DevclusterError(f"{system.name} has several Deployments, and values for one")
    part = PARTS.get(name)
    spec = deployments[0]["spec"] if deployments else {}
    container = spec["template"]["spec"]["containers"][0] if deployments else {}
    return SystemValues(
        name,
        system.what,
        system in SYSTEMS,
        spec.get("replicas", 1) if deployments else None,
        container.get("resources", {}),
        part.settings if part else None,
    )


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="make chart", description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--check", action="store_true", help="write nothing; exit 1 and show what differs")
    options = parser.parse_args(arguments)
    files = generated(ROOT)
    if not options.check:
        write(files, ROOT / CHART)
        return 0
    lines = differences(files, ROOT / CHART)
    print("\n".join(lines[:60]))
    return int(bool(lines))


if __name__ == "__main__":
    sys.exit(main())
