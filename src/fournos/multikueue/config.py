"""Kueue's Configuration, as far as it is about other clusters.

Two spellings are accepted: Kueue's own `multiKueue`, and `multikueue`, which its page on external
frameworks shows (Kueue itself exits on that one).  That page also puts everything below `data`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import yaml

from fournos.api.durations import parse_duration

_KEYS = ("multiKueue", "multikueue")
_FIELDS = frozenset(
    {"externalFrameworks", "origin", "gcInterval", "workerLostTimeout", "dispatcherName", "clusterProfile"}
)


class BadConfigError(ValueError):
    """Its message names the field that is wrong and what belongs there."""


@dataclass(frozen=True, slots=True)
class MultiKueueConfiguration:
    """The settings in the file; None for those that it does not have."""

    frameworks: tuple[str, ...] = ()
    """`Kind.version.group`, not yet looked at."""
    origin: str | None = None
    worker_lost_timeout: float | None = None
    """Seconds."""
    dispatcher: str | None = None


def read(text: str) -> MultiKueueConfiguration:
    """Raises BadConfigError."""
    try:
        document = yaml.safe_load(text)
    except yaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None)
        raise BadConfigError(f"not YAML{f', line {mark.line + 1}' if mark else ''}") from None
    if not isinstance(document, Mapping):
        raise BadConfigError("not a Kueue Configuration: a map is expected")
    if isinstance(document.get("data"), Mapping):
        document = _inner(document["data"])
    present = [key for key in _KEYS if key in document]
    if len(present) > 1:
        raise BadConfigError("multiKueue and multikueue both: write multiKueue only")
    if not present:
        return MultiKueueConfiguration()
    section = document[present[0]] or {}
    if not isinstance(section, Mapping):
        raise BadConfigError(f"{present[0]} must be a map")
    unknown = sorted(map(str, section.keys() - _FIELDS))
    if unknown:
        raise BadConfigError(
            f"{present[0]}.{unknown[0]}: no such field; there are {', '.join(sorted(_FIELDS))}"
        )
    return MultiKueueConfiguration(
        frameworks=_frameworks(section.get("externalFrameworks") or (), present[0]),
        origin=_text(section, "origin", present[0]),
        worker_lost_timeout=_seconds(section, "workerLostTimeout", present[0]),
        dispatcher=_text(section, "dispatcherName", present[0]),
    )


def _inner(data: Mapping[str, Any]) -> Mapping[str, Any]:
    """Of the ConfigMap that Kueue is installed with, or of the page's example."""
    whole = data.get("controller_manager_config.yaml")
    if isinstance(whole, str):
        document = yaml.safe_load(whole)
        if isinstance(document, Mapping):
            return document
        raise BadConfigError("data.controller_manager_config.yaml: a map is expected")
    return data


def _frameworks(entries: Any, at: str) -> tuple[str, ...]:
    if not isinstance(entries, list | tuple):
        raise BadConfigError(f"{at}.externalFrameworks must be a list of maps with a name")
    names = []
    for number, entry in enumerate(entries):
        name = entry.get("name") if isinstance(entry, Mapping) else None
        if not isinstance(name, str) or set(entry) != {"name"}:
            raise BadConfigError(
                f"{at}.externalFrameworks[{number}]: write a map with a name, such as "
                '{name: "PipelineRun.v1.tekton.dev"}'
            )
        names.append(name)
    return tuple(names)


def _text(section: Mapping[str, Any], field: str, at: str) -> str | None:
    value = section.get(field)
    if value is not None and not isinstance(value, str):
        raise BadConfigError(f"{at}.{field} must be text")
    return value


def _seconds(section: Mapping[str, Any], field: str, at: str) -> float | None:
    value = _text(section, field, at)
    if value is None:
        return None
    try:
        return parse_duration(value).total_seconds()
    except ValueError as error:
        raise BadConfigError(f"{at}.{field}: {error}") from None
