"""A watch-fed cache of one resource type: keyed, indexed, projected."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping

from fournos.kube.resource import Key, Obj


class Store:
    """Objects by key, with indexes.

    The reflector writes it; `assume` puts the answer to an own write into it, so that the next decision
    sees it before its watch event arrives.  An event older than what is stored is ignored.
    """

    served: bool
    """False once the API server said that it does not know the resource type."""
    synced: bool
    """True after the first complete list."""

    def __init__(
        self,
        *,
        project: Callable[[Obj], Obj] | None = None,
        indexes: Mapping[str, Callable[[Obj], Iterable[str]]] | None = None,
    ) -> None:
        raise NotImplementedError

    def get(self, key: Key) -> Obj | None:
        raise NotImplementedError

    def by(self, index: str, value: str) -> tuple[Obj, ...]:
        """The objects that an index function gave this value for."""
        raise NotImplementedError

    def __iter__(self) -> Iterator[Obj]:
        raise NotImplementedError

    def __len__(self) -> int:
        raise NotImplementedError

    def assume(self, obj: Obj) -> None:
        """Take the API server's answer to a write of ours, unless something newer is here already."""
        raise NotImplementedError
