"""The parts that `fournos run --enable` accepts, each declared in its own package."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from importlib import import_module
from typing import Any, Final

from fournos.api.crd import Definition
from fournos.api.rules import Rule
from fournos.runtime.part import Part

_NAMES: Final = (
    "jobs",
    "clusters",
    "appwrappers",
    "frameworks",
    "multikueue",
    "miniclusters",
    "history",
    "web",
)
"""Packages, in the order in which messages and reference pages list them."""


class _Parts(Mapping[str, Part[Any]]):
    """Imports a part when it is looked up: a process takes time and memory for its own parts alone."""

    def __getitem__(self, name: str) -> Part[Any]:
        if name not in _NAMES:
            raise KeyError(name)
        part: Part[Any] = import_module(f"fournos.{name}.part").PART
        return part

    def __contains__(self, name: object) -> bool:
        return name in _NAMES

    def __iter__(self) -> Iterator[str]:
        return iter(_NAMES)

    def __len__(self) -> int:
        return len(_NAMES)


PARTS: Final[Mapping[str, Part[Any]]] = _Parts()
"""The parts by name."""


def kinds() -> tuple[tuple[Definition, tuple[Rule, ...]], ...]:
    """Returns our CRDs: the models of `api`, each with the validation rules of its controller's package."""
    return tuple(kind for part in PARTS.values() for kind in part.kinds)
