"""How the specs of two objects differ.  Pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from fournos.engine.kube.resource import Obj
from fournos.insight.values import spec_of


@dataclass(frozen=True, slots=True)
class SpecDifference:
    """A field of the spec that differs."""

    path: str
    """Relative to the spec, such as hardware.gpuCount; `\\.` is a dot within a name."""
    first: Any
    """The value in the first object; None if the field is absent."""
    second: Any


def differences(first: Obj, second: Obj) -> list[SpecDifference]:
    """Returns the fields that differ, sorted by path.  A list counts as one value."""
    old, new = (dict(leaves(spec_of(one))) for one in (first, second))
    return [
        SpecDifference(path, old.get(path), new.get(path))
        for path in sorted({*old, *new})
        if old.get(path) != new.get(path)
    ]


def leaves(value: Any, path: str = "") -> Iterator[tuple[str, Any]]:
    """Yields path and value of each field that is not a map, in the form of `SpecDifference.path`."""
    if not isinstance(value, Mapping) or (not value and path):
        yield path, value
        return
    for name, inner in value.items():
        step = str(name).replace(".", "\\.")
        yield from leaves(inner, f"{path}.{step}" if path else step)
