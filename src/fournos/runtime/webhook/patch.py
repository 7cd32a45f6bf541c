"""Merge patches (RFC 7396) as the JSON patches (RFC 6902) that an admission answer wants."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any


def json_patch(target: Mapping[str, Any], patch: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Operations that bring about what the merge patch says; [] when it changes nothing."""
    return list(_operations(target, patch, ""))


def _operations(target: Mapping[str, Any], patch: Mapping[str, Any], at: str) -> Iterator[dict[str, Any]]:
    for key, wanted in patch.items():
        path = f"{at}/{key.replace('~', '~0').replace('/', '~1')}"
        found = target.get(key)
        if wanted is None:
            if key in target:
                yield {"op": "remove", "path": path}
        elif isinstance(wanted, Mapping) and isinstance(found, Mapping):
            yield from _operations(found, wanted, path)
        else:
            value = _without_nulls(wanted)
            if key not in target or found != value:
                yield {"op": "replace" if key in target else "add", "path": path, "value": value}


def _without_nulls(value: Any) -> Any:
    """What a merge patch makes of nothing: its nulls take away what is not there."""
    if not isinstance(value, Mapping):
        return value
    return {key: _without_nulls(inner) for key, inner in value.items() if inner is not None}
