"""Fournos: queue benchmark jobs, find them a cluster, run them there and report back."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from fournos.client import AsyncClient as AsyncClient
    from fournos.client import Client as Client

__version__ = "0.2.0"
__all__ = ["AsyncClient", "Client", "__version__"]


def __getattr__(name: str) -> object:
    """The client's libraries are loaded when it is asked for."""
    if name in ("AsyncClient", "Client"):
        from fournos import client

        return getattr(client, name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return [*globals(), *__all__]
