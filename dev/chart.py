"""`make chart`: charts/fournos, the Helm chart, from the same manifests as the install files."""

from __future__ import annotations

import argparse
import difflib
import sys
import tomllib
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

import yaml

from dev import resources
from dev.chart_templates import NAMESPACES, ChartObject, shared, templates
from dev.chart_values import SystemValues, readme, schema_json, values_yaml
from dev.image import ROOT
from dev.release import documents
from dev.release_install import LOCKS_NAMESPACE, SYSTEMS, Document, System, namespace
from devcluster import DevclusterError
from fournos.app.parts import PARTS

CHART: Final = Path("charts/fournos")
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
    System("history", "The history of runs, in SQLite", kustomization="deploy/history"),
    System("web", "The page", kustomization="deploy/web"),
    System("monitoring", "ServiceMonitors, alerts and a dashboard", kustomization="deploy/monitoring"),
)
"""What is installed beside the systems of the install files, and not by default."""
_HERE: Final = {"psap-secrets": NAMESPACES["secrets"], LOCKS_NAMESPACE: NAMESPACES["jobs"]}
"""Namespaces of Hearth's files → those of the chart."""


def generated(tree: Path) -> dict[str, str]:
    """Returns the generated files of the chart, by their paths in it.  Raises DevclusterError."""
    systems = {VALUES[system.name]: _objects(tree, system) for system in (*SYSTEMS, *MORE)}
    objects = shared(systems)
    values = [_values(system, objects) for system in (*SYSTEMS, *MORE)]
    version = _version(tree)
    return {
        "Chart.yaml": _chart_yaml(version),
        "values.yaml": values_yaml(values, version),
        "values.schema.json": schema_json(values),
        "README.md": readme(values, version),
        **{f"templates/{name}": text for name, text in templates(objects).items()},
    }


def _objects(tree: Path, system: System) -> list[Document]:
    """The objects of a system, with names that stand for the namespaces that values choose."""
    if system.name == "fournos":
        return resources.kustomized(NAMESPACES["operator"], NAMESPACES["jobs"], NAMESPACES["secrets"])
    made = [namespace(name) for name in system.namespaces]
    found: list[Document] = _renamed([*made, *documents(tree, system)])
    return found


def _renamed(value: Any) -> Any:
    if isinstance(value, dict):
        return {name: _renamed(each) for name, each in value.items()}
    if isinstance(value, list):
        return [_renamed(each) for each in value]
    return _HERE.get(value, value) if isinstance(value, str) else value


def _values(system: System, objects: Iterable[ChartObject]) -> SystemValues:
    name = VALUES[system.name]
    deployments = [item.document for item in objects if item.kind == "Deployment" and item.systems[0] == name]
    if len(deployments) > 1:
        raise DevclusterError(f"{system.name} has {len(deployments)} Deployments, and values for one")
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


def _version(tree: Path) -> str:
    return str(tomllib.loads((tree / "pyproject.toml").read_text(encoding="utf-8"))["project"]["version"])


def _chart_yaml(version: str) -> str:
    chart = {
        "apiVersion": "v2",
        "name": "fournos",
        "description": "Benchmark jobs in a fair queue, on the right cluster, with a history",
        "type": "application",
        "version": version,
        "appVersion": version,
        "kubeVersion": ">=1.30.0-0",
        "keywords": ["benchmark", "gpu", "kueue", "tekton", "flux"],
    }
    return yaml.safe_dump(chart, sort_keys=False, width=110)


def differences(files: Mapping[str, str], folder: Path) -> list[str]:
    """Returns the lines in which the files of the folder differ from these."""
    lines: list[str] = []
    for name, text in sorted(files.items()):
        path = folder / name
        there = path.read_text(encoding="utf-8") if path.exists() else ""
        lines += difflib.unified_diff(
            there.splitlines(), text.splitlines(), str(path), "generated", lineterm=""
        )
    return lines


def write(files: Mapping[str, str], folder: Path) -> None:
    for name, text in files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")


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
