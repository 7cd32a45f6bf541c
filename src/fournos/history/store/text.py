"""Prepares text and documents for the database: no character that a database refuses, and no secret."""

from __future__ import annotations

import re
import zlib
from collections.abc import Mapping
from functools import lru_cache
from typing import Any, Final

import orjson

from fournos.engine.runtime.logs import redact, redact_beginning

_REFUSED: Final = re.compile("[\x00\ud800-\udfff]")
"""PostgreSQL stores no NUL, and no encoding has lone surrogates."""
INDEXED: Final = 512
_MESSAGE: Final = 4096
_CACHED: Final = 200
"""Longer strings are not cached: the cache stays below some megabytes."""


def clean(text: str) -> str:
    """Returns the text with a mark (U+FFFD) for each character that cannot be stored."""
    if text.isascii() and "\0" not in text:  # nearly every text, in a fraction of the time
        return text
    return _REFUSED.sub("\ufffd", text)


def indexed(text: str) -> str:
    """Returns the text as it is stored, and looked for, in a column with an index.

    An index has no room for entries of any length; names in Kubernetes are shorter than this.
    """
    return clean(text)[:INDEXED]


def message(text: str) -> str:
    """Returns a text for people as it is stored: cleaned, without what looks like a secret, not too long."""
    hidden = redact_beginning(clean(text), _MESSAGE + 1)
    return hidden if len(hidden) <= _MESSAGE else f"{hidden[:_MESSAGE]}…"


def pack(document: Any) -> bytes:
    """Returns a JSON value as it is stored: cleaned, redacted, compressed."""
    return zlib.compress(orjson.dumps(_safe(document), option=orjson.OPT_NON_STR_KEYS | orjson.OPT_UTC_Z), 6)


def unpack(data: bytes) -> Any:
    return orjson.loads(zlib.decompress(data))


def folded(*texts: str) -> str:
    """Returns the texts in the form that a search compares: without case."""
    return indexed("\n".join(text for text in texts if text).casefold())


def _safe(value: Any, key: str = "") -> Any:
    if isinstance(value, str):
        return _safe_string(key, value) if len(value) <= _CACHED else _hide(key, clean(value))
    if value is None or isinstance(value, int | float):
        return value
    if isinstance(value, Mapping):
        safe = {(name := clean(str(each))): _safe(inner, name) for each, inner in value.items()}
        variable = value.get("name")
        if isinstance(variable, str) and "value" in value:
            # An environment variable is two fields: {name: API_TOKEN, value: …}.
            safe["value"] = _safe(value["value"], variable)
        return safe
    if isinstance(value, list | tuple):
        return [_safe(inner, key) for inner in value]
    return value


# A job is written at each of its phases, nearly the same each time.
@lru_cache(maxsize=16_384)
def _safe_string(key: str, value: str) -> str:
    return _hide(key, clean(value))


def _hide(key: str, value: str) -> str:
    """Returns the value without secrets, which the key may point at: `password: x`."""
    alone = redact(value)
    if not key:
        return alone
    prefix = f"{clean(key)}: "
    together = redact(prefix + alone)
    return together.removeprefix(prefix)
