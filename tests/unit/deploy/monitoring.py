"""The Prometheus queries of deploy/monitoring, and the names in them, for tests."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from functools import cache
from typing import Any

from devcluster import manifests
from tests.unit.deploy.shipped import ROOT

FOLDER = ROOT / "deploy" / "monitoring"
_PARTS = re.compile(r"_(bucket|sum|count)$")
_NAME = re.compile(r"\b[a-z]+(?:_[a-z]+)+\b")
_LABELS = re.compile(r"\{[^}]*\}|\b(?:by|on)\s*\([^)]*\)")
_FUNCTIONS = {"group_left", "histogram_quantile", "label_values"}


@cache
def rules() -> list[dict[str, Any]]:
    (resource,) = manifests.parse((FOLDER / "rules.yaml").read_text())
    return [rule for group in resource["spec"]["groups"] for rule in group["rules"]]


@cache
def dashboard() -> dict[str, Any]:
    found: dict[str, Any] = json.loads((FOLDER / "dashboard.json").read_text())
    return found


def queries() -> Iterator[tuple[str, str]]:
    """Where it is, and the query."""
    for rule in rules():
        yield rule["alert"], rule["expr"]
    for panel in dashboard()["panels"]:
        for target in panel.get("targets", ()):
            yield panel["title"], target["expr"]
    for variable in dashboard()["templating"]["list"]:
        if variable["type"] == "query":
            yield variable["name"], re.sub(r"^label_values\((.*), \w+\)$", r"\1", variable["definition"])


def metrics_in(query: str) -> set[str]:
    """The names of metrics in a query, as they are registered."""
    return {_PARTS.sub("", name) for name in _NAME.findall(_LABELS.sub(" ", query))} - _FUNCTIONS


def labels_in(query: str) -> set[str]:
    found = set()
    for part in _LABELS.findall(query):
        bare = re.sub(r'"[^"]*"', "", part)
        found |= set(re.findall(r"[a-z_]+", bare)) - {"by", "on"}
    return found


def exported(text: str) -> set[str]:
    """The names that a page of metrics declares."""
    return set(re.findall(r"^# TYPE (\w+) ", text, re.MULTILINE))
