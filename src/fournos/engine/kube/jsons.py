"""Parses JSON of API servers, whatever its depth.

An API server stores objects that are nested up to 10,000 levels deep; the parser accepts 1,024.  One such
object would make every list and every watch event that contains it unreadable, and so hide all objects of its
type.  Everything below level `DEEPEST` is therefore replaced by null.  The object's metadata stays readable,
and no object in real use is nested a fifth as deep.
"""

from __future__ import annotations

import re
from typing import Any, Final

import orjson

DEEPEST: Final = 200
"""Levels that are kept of an object too deep for the parser; fewer than the serializer accepts (254)."""
_TOO_DEEP: Final = "depth limit exceeded"
_TOKEN: Final = re.compile(rb'"(?:[^"\\]++|\\.)*+(?:"|\\?\Z)|[\[\]{}]', re.DOTALL)
"""A string without an end counts up to the end of the body: no other is looked for in it."""


def loads(body: bytes) -> Any:
    """Parses the body.  Raises orjson.JSONDecodeError if it is not JSON."""
    try:
        return orjson.loads(body)
    except orjson.JSONDecodeError as error:
        if _TOO_DEEP not in str(error):
            raise
    return orjson.loads(_cut(body))


def _cut(body: bytes) -> bytes:
    """Returns the body with null in place of every list and object below `DEEPEST`."""
    pieces, copied, depth = [], 0, 0
    for token in _TOKEN.finditer(body):
        symbol = token[0]
        if symbol in (b"{", b"["):
            depth += 1
            if depth == DEEPEST + 1:
                pieces += [body[copied : token.start()], b"null"]
        elif symbol in (b"}", b"]"):
            depth -= 1
            if depth == DEEPEST:
                copied = token.end()
    return b"".join([*pieces, body[copied:]])
