"""JSON of the API, and entity tags."""

from __future__ import annotations

import functools
import hashlib
from typing import Any

from pydantic import TypeAdapter


@functools.cache
def adapter(kind: Any) -> TypeAdapter[Any]:
    """The reader and writer of a type of rows."""
    return TypeAdapter(kind)


def body(value: Any, kind: Any) -> bytes:
    """Returns the value as JSON, in the names of the API."""
    return adapter(kind).dump_json(value, by_alias=True)


def etag(content: bytes) -> str:
    """Returns the entity tag of a body: the same content has the same tag on every replica."""
    return f'"{hashlib.sha256(content).hexdigest()[:32]}"'
