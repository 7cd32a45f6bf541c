"""Parser of the MultiKueue section of Kueue's Configuration.

Two spellings are accepted: Kueue's own `multiKueue`, and `multikueue`, which Kueue's page on external
frameworks shows (Kueue itself exits on that one).  That page also puts the whole document below `data`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from fournos.engine.api.values import parse_duration
from fournos.engine.kube.formats import YamlError, load_all

_KEYS = ("multiKueue", "multikueue")
_FIELDS = frozenset(
    {
        *("externalFrameworks", "origin", "gcInterval", "workerLostTimeout", "dispatcherName"),
        *("clusterProfile", "incrementalDispatcherConfig"),
    }
)


class BadConfigError(ValueError):
    """An invalid Configuration.  The message names the invalid field and the expected content."""


@dataclass(frozen=True, slots=True)
class MultiKueueConfiguration:
    """The settings in the file; None for a setting that is absent."""

    frameworks: tuple[str, ...] = ()
    """Names in the form `Kind.version.group`, not validated yet."""
    origin: str | None = None
    worker_lost_timeout: float | None = None
    """Seconds."""
    dispatcher: str | None = None
    step: int | None = None
    """How many more workers the incremental dispatcher asks each time (Kueue 0.19)."""


def read(text: str) -> MultiKueueConfiguration:
    """Parses the text of a Configuration.  Raises BadConfigError."""
    document = _loaded(text)
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
        step=_step(section.get("incrementalDispatcherConfig") or {}, present[0]),
    )


def _loaded(text: str) -> Any:
    try:
        return next(iter(load_all(text)), None)
    except YamlError as error:
        raise BadConfigError(str(error)) from None


def _inner(data: Mapping[str, Any]) -> Mapping[str, Any]:
    """Returns the Configuration inside `data`.

    It is that of the ConfigMap that Kueue is installed with, or of the page's example.
    """
    whole = data.get("controller_manager_config.yaml")
    if isinstance(whole, str):
        document = _loaded(whole)
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


def _step(section: Any, at: str) -> int | None:
    step = section.get("stepSize") if isinstance(section, Mapping) else 0
    if step is not None and (not isinstance(step, int) or step < 1):
        raise BadConfigError(f"{at}.incrementalDispatcherConfig.stepSize must be a number, 1 or more")
    return step


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
