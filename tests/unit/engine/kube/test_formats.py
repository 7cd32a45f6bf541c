"""What is read of the JSON of an API server: its nesting, metadata and patches."""

from __future__ import annotations

import time
from typing import Any
from urllib.parse import quote

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fournos.engine.kube.formats import DEEPEST, loads
from fournos.engine.kube.resource import (
    JOB,
    Obj,
    controls,
    joined,
    json_patch,
    merge_patch,
    nested,
    newest,
    only,
    owner_reference,
    read,
    without_null,
)
from tests.world.server import clone, merge

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


# --- What is read of an object's metadata ------------------------------------------------------------


def made(name: str, **meta: Any) -> Obj:
    return {"metadata": {"name": name, "uid": f"uid-{name}", **meta}}


def test_an_owner_is_its_uid() -> None:
    owner = made("a")
    child = made("b", ownerReferences=[owner_reference(JOB, owner)])
    assert child["metadata"]["ownerReferences"] == [
        {
            "apiVersion": "batch/v1",
            "kind": "Job",
            "name": "a",
            "uid": "uid-a",
            "controller": True,
            "blockOwnerDeletion": True,
        }
    ]
    assert controls(owner, child)
    assert not controls(made("a", uid="another"), child)
    assert not controls(owner, made("c"))


def test_an_owner_that_is_no_controller() -> None:
    owner = made("a")
    reference = owner_reference(JOB, owner, controller=False)
    assert (reference["controller"], reference["blockOwnerDeletion"]) == (False, False)
    assert not controls(owner, made("b", ownerReferences=[reference]))


def test_the_newest_is_the_one_that_was_created_last() -> None:
    times = ("2030-01-02T00:00:00Z", "2030-01-10T00:00:00Z", None)
    old, new, without = (made(str(index), creationTimestamp=time) for index, time in enumerate(times))
    assert newest([old, new, without]) is new
    assert newest([without]) is without
    assert newest([]) is None


@pytest.mark.parametrize("name", ["job-1", "a.b_c~d", "", "a/b", "..%2f", "a b", "käse", "a\n", "a?b#c"])
def test_names_in_a_path_are_quoted(name: str) -> None:
    quoted = quote(name, safe="")
    assert JOB.path(namespace=name or "ns", name=name).split("/")[4:] == [
        "namespaces",
        quoted or "ns",
        "jobs",
        quoted,
    ]


# --- patches ----------------------------------------------------------------------------------------
# Merge patches and JSON patches.


@pytest.mark.parametrize(
    ("old", "new", "patch"),
    [
        ({}, {}, {}),
        ({"a": 1}, {"a": 1}, {}),
        ({"a": 1}, {}, {"a": None}),
        ({"a": 1}, {"a": None}, {"a": None}),
        ({}, {"a": None}, {}),
        ({"a": [1, 2]}, {"a": [1]}, {"a": [1]}),
        ({"a": [{"b": 1}]}, {"a": ({"b": 1, "c": None},)}, {}),
        ({"a": {"b": 1}}, {"a": {}}, {"a": {"b": None}}),
        ({"a": 1}, {"a": {"b": {"c": None, "d": 1}}}, {"a": {"b": {"d": 1}}}),
    ],
)
def test_merge_patch(old: Obj, new: Obj, patch: Obj) -> None:
    assert merge_patch(old, new) == patch


def test_nulls_in_lists_go_only_where_asked() -> None:
    body = {"a": None, "b": {"c": None}, "d": ({"e": None}, None)}
    assert without_null(body) == {"b": {}, "d": [{}, None]}
    assert without_null(body, in_lists=False) == {"b": {}, "d": ({"e": None}, None)}


# --- JSON patches ------------------------------------------------------------------------------------

JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-9, 9) | st.sampled_from(["", "x"]),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from("a/~b"), inner, max_size=3),
    max_leaves=8,
)
OBJECT = st.dictionaries(st.sampled_from("a/~b"), JSON, max_size=4)


def applied(target: dict[str, Any], operations: list[dict[str, Any]]) -> dict[str, Any]:
    for one in operations:
        *way, last = [
            step.replace("~1", "/").replace("~0", "~") for step in one["path"].removeprefix("/").split("/")
        ]
        place: Any = target
        for step in way:
            place = place[step]
        if one["op"] == "remove":
            del place[last]
        else:
            assert (one["op"] == "replace") == (last in place)
            place[last] = one["value"]
    return target


@given(OBJECT, OBJECT)
def test_a_json_patch_equals_the_merge_patch(target: dict[str, Any], patch: dict[str, Any]) -> None:
    wanted = merge(clone(target), patch)
    assert applied(clone(target), json_patch(target, patch)) == wanted
    assert json_patch(wanted, patch) == []


# --- dotted paths ------------------------------------------------------------------------------------


def test_paths() -> None:
    obj = {"spec": {"a": {"b": 1}, "c": 2}}
    assert (read(obj, "spec.a.b"), read(obj, "spec.c.d"), read(obj, "x")) == (1, None, None)
    assert nested("spec.a.b", None) == {"spec": {"a": {"b": None}}}
    assert joined({"s": {"a": 1}}, {"s": {"b": None}}, {"s": {"a": 2}}) == {"s": {"a": 2, "b": None}}
    assert only(obj, ("spec.a", "status.x")) == {"spec": {"a": {"b": 1}}}
