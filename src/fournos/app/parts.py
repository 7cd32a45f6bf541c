"""The parts that `fournos run --enable` accepts, each declared in its own package."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from importlib import import_module
from typing import Any, Final

from fournos.engine.api.crd import Definition
from fournos.engine.api.rules import Rule
from fournos.engine.runtime.part import Part

PACKAGES: Final = {
    "jobs": "fournos.systems.jobs",
    "schedules": "fournos.systems.schedules",
    "clusters": "fournos.systems.clusters",
    "appwrappers": "fournos.systems.appwrappers",
    "frameworks": "fournos.systems.frameworks",
    "multikueue": "fournos.systems.multikueue",
    "miniclusters": "fournos.systems.miniclusters",
    "history": "fournos.history",
    "web": "fournos.web",
}
"""The package of each part, in the order in which messages and reference pages list them."""


class _Parts(Mapping[str, Part[Any]]):
    """Imports a part when it is looked up: a process takes time and memory for its own parts alone."""

    def __getitem__(self, name: str) -> Part[Any]:
        part: Part[Any] = import_module(f"{PACKAGES[name]}.part").PART
        return part

    def __contains__(self, name: object) -> bool:
        return name in PACKAGES

    def __iter__(self) -> Iterator[str]:
        return iter(PACKAGES)

    def __len__(self) -> int:
        return len(PACKAGES)


PARTS: Final[Mapping[str, Part[Any]]] = _Parts()
"""The parts by name."""


def kinds() -> tuple[tuple[Definition, tuple[Rule, ...]], ...]:
    """Returns our CRDs: the models of `api`, each with the validation rules of its controller's package."""
    return tuple(kind for part in PARTS.values() for kind in part.kinds)
