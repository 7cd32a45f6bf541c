"""JSON that is nested deeper than the parser goes."""

from __future__ import annotations

import time

import orjson
import pytest

from fournos.engine.kube.formats import DEEPEST, loads

# --- JSON -------------------------------------------------------------------------------------------


def deep(levels: int, *, opening: bytes = b'{"a":', closing: bytes = b"}") -> bytes:
    return opening * levels + b"1" + closing * levels


def depth_of(value: object) -> int:
    levels = 0
    while isinstance(value, dict | list) and value:
        value = next(iter(value.values())) if isinstance(value, dict) else value[0]
        levels += 1
    return levels


@pytest.mark.parametrize("levels", [1, DEEPEST, DEEPEST + 1, 1000])
def test_what_the_parser_takes_is_whole(levels: int) -> None:
    assert depth_of(loads(deep(levels))) == levels


@pytest.mark.parametrize("levels", [1025, 1500, 10_000])
@pytest.mark.parametrize(
    ("opening", "closing"), [(b'{"a":', b"}"), (b"[", b"]"), (b'[{"a":', b',"b":"}]\\"{"}]')]
)
def test_what_is_deeper_is_cut_and_the_rest_stays(levels: int, opening: bytes, closing: bytes) -> None:
    spec = deep(levels, opening=opening, closing=closing)
    body = b'{"items":[{"metadata":{"name":"a\\"}{["},"spec":%s,"status":{"x":[1]}},{"n":2}]}' % spec
    first, second = loads(body)["items"]
    assert first["metadata"] == {"name": 'a"}{['} and first["status"] == {"x": [1]} and second == {"n": 2}
    assert 0 < depth_of(first["spec"]) <= DEEPEST
    assert orjson.loads(orjson.dumps(first)) == first, "what is kept can be written again"


@pytest.mark.parametrize("body", [b"", b"{", b'{"a":' * 2000, b"[" * 2000 + b"}" * 2000, b'"' + b"[" * 2000])
def test_what_is_no_json_is_an_error(body: bytes) -> None:
    with pytest.raises(orjson.JSONDecodeError):
        loads(body)


def test_the_cut_takes_time_in_proportion_to_the_length() -> None:
    began = time.process_time()
    loads(deep(10_000)[:-10_000] + b',"b":"' + b"\\\\" * 700_000 + b'"' + b"}" * 10_000)
    assert time.process_time() - began < 1.0
