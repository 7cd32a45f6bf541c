"""Matches the namespace of the jobs with LabelSelectors.  Pure."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from fournos.insight.doctor.facts import DoctorFacts

NAME_LABEL: Final = "kubernetes.io/metadata.name"
"""The label that the API server sets on each namespace."""


def labels_of(facts: DoctorFacts) -> Mapping[str, str]:
    """The labels of the namespace of the jobs; only that of its name where they cannot be read."""
    found = facts.namespace if isinstance(facts.namespace, Mapping) else {"metadata": {}}
    return {NAME_LABEL: facts.place.namespace, **(found["metadata"].get("labels") or {})}


def selected(selector: Mapping[str, Any], labels: Mapping[str, str]) -> bool:
    """True if a LabelSelector selects an object with these labels; the empty one selects all."""
    if any(labels.get(key) != value for key, value in (selector.get("matchLabels") or {}).items()):
        return False
    return all(_holds(one, labels) for one in selector.get("matchExpressions") or ())


def _holds(expression: Mapping[str, Any], labels: Mapping[str, str]) -> bool:
    value = labels.get(str(expression.get("key")))
    values = expression.get("values") or ()
    match expression.get("operator"):
        case "In":
            return value in values
        case "NotIn":
            return value not in values
        case "Exists":
            return value is not None
        case _:
            return value is None
