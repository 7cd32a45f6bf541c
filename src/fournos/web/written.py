"""Waits after a write until watched objects show it, so that the next page does."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from dataclasses import dataclass
from typing import Final

from fournos.engine.kube.errors import KubeError, NotFoundError
from fournos.engine.kube.resource import Obj, Resource, is_terminating, key_of, uid_of
from fournos.insight.caches import ObjectCaches

PATIENCE: Final = 2.0
"""Seconds after which the page follows anyway: the watch may be broken."""
_PAUSE: Final = 0.02


@dataclass(frozen=True, slots=True)
class Written:
    """An object as the API server returned it after a write."""

    resource: Resource
    obj: Obj
    deleted: bool = False


async def arrived(caches: ObjectCaches, written: Written) -> None:
    """Waits until the watched objects have the write, for at most `PATIENCE` seconds."""
    with suppress(TimeoutError, KubeError):
        async with asyncio.timeout(PATIENCE):
            while not await _is_there(caches, written):  # noqa: ASYNC110 - a change has one receiver: the streams
                await asyncio.sleep(_PAUSE)


async def _is_there(caches: ObjectCaches, written: Written) -> bool:
    """Raises KubeError if the kind is not watched."""
    try:
        obj = await caches.get(written.resource, key_of(written.obj))
    except NotFoundError:
        return written.deleted
    if written.deleted:
        return is_terminating(obj) or uid_of(obj) != uid_of(written.obj)
    return _version(obj) >= _version(written.obj)


def _version(obj: Obj) -> int:
    """Returns the resourceVersion as a number; they grow within a kind, and any other text counts as old."""
    text = str(obj["metadata"].get("resourceVersion") or "")
    return int(text) if text.isdecimal() else 0
