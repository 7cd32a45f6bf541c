"""What others send: bodies of requests and responses, JSON and YAML; bounded, with typed errors."""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncGenerator, AsyncIterator, Iterator
from contextlib import aclosing
from typing import Any, BinaryIO, Final

import aiohttp
import orjson
import yaml

from fournos.engine.kube.errors import ConnectionLostError, TooLongError

# --- bodies of requests and responses ---------------------------------------------------------------

_PIECE: Final = 2**18
"""Bytes of a file that are read at a time."""
_LONGEST_LINE: Final = 2**24
"""Bytes of a line of text; a file of a container's log is shorter."""


async def whole_body(response: aiohttp.ClientResponse, limit: int | None) -> bytes:
    """Returns the body; raises TooLongError if it is longer than `limit` bytes."""
    if limit is None:
        return await response.read()
    chunks: list[bytes] = []
    room = limit
    async for chunk in response.content.iter_any():
        room -= len(chunk)
        if room < 0:
            raise _too_long(limit)
        chunks.append(chunk)
    return b"".join(chunks)


def _too_long(limit: int) -> TooLongError:
    return TooLongError(f"the answer is longer than {limit // 2**20} MiB")


async def lines_of(
    response: aiohttp.ClientResponse, *, limit: int | None = None
) -> AsyncGenerator[bytes, None]:
    """Yields the lines of an endless body, each of any length or of about `limit` bytes at most.

    Raises ConnectionLostError if the body is cut or a line is too long.
    """
    head: list[bytes] = []
    size = 0
    try:
        async for chunk in response.content.iter_any():
            head.append(chunk)
            if b"\n" not in chunk:
                size += len(chunk)
                if limit is not None and size > limit:
                    raise _too_long(limit)
                continue
            *whole, rest = b"".join(head).split(b"\n")
            head, size = [rest], len(rest)
            for line in whole:
                if line:
                    yield line
    except (aiohttp.ClientError, OSError) as error:
        raise ConnectionLostError(f"stream cut: {error or type(error).__name__}") from error
    if last := b"".join(head):
        yield last


async def text_lines(response: aiohttp.ClientResponse) -> AsyncIterator[str]:
    """Yields the lines of an endless text, and closes the response."""
    async with response, aclosing(lines_of(response, limit=_LONGEST_LINE)) as lines:
        async for line in lines:
            yield line.decode(errors="replace")


async def pieces(response: aiohttp.ClientResponse) -> AsyncGenerator[bytes, None]:
    """Yields a body as it arrives, and closes the response.  Raises ConnectionLostError if it is cut."""
    async with response:
        try:
            async for piece in response.content.iter_any():
                yield piece
        except (aiohttp.ClientError, OSError) as error:
            raise ConnectionLostError(f"the connection was lost: {error}") from error


async def lines_of_text(body: bytes) -> AsyncIterator[str]:
    """Yields the lines of a text that has arrived as a whole."""
    for line in body.decode(errors="replace").splitlines():
        yield line


async def pieces_of_file(file: BinaryIO) -> AsyncIterator[bytes]:
    """Yields a file from its beginning.  Unlike aiohttp it leaves the file open: it may be sent again."""
    file.seek(0)
    while piece := await asyncio.to_thread(file.read, _PIECE):
        yield piece


# --- JSON -------------------------------------------------------------------------------------------
# Parses JSON of API servers, whatever its depth.
#
# An API server stores objects that are nested up to 10,000 levels deep; the parser accepts 1,024.  One such
# object would make every list and every watch event that contains it unreadable, and so hide all objects of
# its type.  Everything below level `DEEPEST` is therefore replaced by null.  The object's metadata stays
# readable, and no object in real use is nested a fifth as deep.

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


# --- YAML -------------------------------------------------------------------------------------------
# Parses, and writes, YAML with content of others: by libyaml, of bounded depth, without aliases.
#
# PyYAML's parser in Python takes 10 s of CPU for a megabyte.  libyaml holds the interpreter's lock, and for
# nested lists takes quadratic time and the whole stack: callers bound the size, and a first pass over the
# events bounds the depth before the document is composed.

DEEPEST_YAML: Final = 32
"""Levels of lists and maps."""
_LONGEST_NUMBER: Final = 400
"""Characters.  The digits of a longer number, such as 1:59:59:…, take quadratic time."""
_NUMBERS: Final = ("tag:yaml.org,2002:int", "tag:yaml.org,2002:float")
_MALFORMED: Final = (ValueError, TypeError, LookupError, AttributeError, ArithmeticError, RecursionError)
"""What PyYAML raises, beside YAMLError, of values that do not fit their tags, such as `!!bool x`."""
_PROBLEM: Final = 100


class YamlError(ValueError):
    """A text that is not accepted.  `brief` is the message without anything that may quote the text."""

    def __init__(self, brief: str, detail: str = "") -> None:
        super().__init__(f"{brief}: {detail}" if detail else brief)
        self.brief = brief


def _loader() -> type[Any] | None:
    """None where PyYAML has no libyaml."""
    base: type[Any] | None = getattr(yaml, "CSafeLoader", None)
    if base is None:
        return None
    loader: type[Any] = type("_Loader", (base,), {})
    for tag in _NUMBERS:
        loader.add_constructor(tag, _bounded(base.yaml_constructors[tag]))
    return loader


def _bounded(construct: Any) -> Any:
    def bounded(loader: Any, node: yaml.Node) -> Any:
        if isinstance(node, yaml.ScalarNode) and len(node.value) > _LONGEST_NUMBER:
            raise ValueError("a number is too long")
        return construct(loader, node)

    return bounded


_LOADER: Final = _loader()
_DUMPER: Final = getattr(yaml, "CSafeDumper", yaml.SafeDumper)


def load_all(text: str, *, deepest: int = DEEPEST_YAML, texts: bool = False) -> list[Any]:
    """Returns the documents of the text; with `texts` all its values are texts, as they are written.

    Raises YamlError; its text has no subject: "is not YAML: line 1, …".
    """
    if _LOADER is None:
        raise YamlError("is YAML, which PyYAML without libyaml does not read here; write JSON")
    try:
        _check_shape(yaml.parse(text, _LOADER), deepest)
        return list(yaml.load_all(text, yaml.CBaseLoader if texts else _LOADER))  # both are safe
    except yaml.YAMLError as error:
        raise YamlError("is not YAML", yaml_problem(error)) from None
    except YamlError:
        raise
    except _MALFORMED as error:
        raise YamlError("is not YAML", f"a value does not fit its type ({type(error).__name__})") from None


def _check_shape(events: Iterator[Any], deepest: int) -> None:
    depth = 0
    for event in events:
        if isinstance(event, yaml.AliasEvent):
            raise YamlError("has aliases (*name), which are not accepted; write each value out")
        depth += isinstance(event, yaml.CollectionStartEvent) - isinstance(event, yaml.CollectionEndEvent)
        if depth > deepest:
            raise YamlError(f"is nested more than {deepest} levels deep")


def dump(value: Any, *, width: int, flow: bool = False) -> str:
    """Returns the value as YAML, written by libyaml where PyYAML has it; its fields stay in their order."""
    return str(
        yaml.dump(
            value,
            Dumper=_DUMPER,
            sort_keys=False,
            allow_unicode=True,
            width=width,
            default_flow_style=flow,
        )
    )


def yaml_problem(error: yaml.YAMLError) -> str:
    """Returns where and what the problem is, on one line, without the text around it."""
    mark = getattr(error, "problem_mark", None)
    problem = str(getattr(error, "problem", None) or error).strip()[:_PROBLEM]
    problem = "".join(character if character.isprintable() else " " for character in problem)
    return f"line {mark.line + 1}, column {mark.column + 1}: {problem}" if mark else problem
