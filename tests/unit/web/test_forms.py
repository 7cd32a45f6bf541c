"""Forms from a schema: fields, values as texts and back, and what is refused."""

from __future__ import annotations

from typing import Any

import pytest

from fournos.api.fournosjob import FournosJobSpec
from fournos.engine.api.crd import schema
from fournos.web.forms import LARGEST, Field, InputKind, fields, text_of, value_of, values_of, wanted

FIELDS = {one.path: one for one in fields(schema(FournosJobSpec), skip=("metadata", "kind", "apiVersion"))}


def test_the_fields_are_those_of_the_schema() -> None:
    assert FIELDS["hardware.gpuCount"].kind is InputKind.NUMBER and FIELDS["hardware.gpuCount"].minimum == 1
    assert FIELDS["exclusive"].choices == ("true", "false") and FIELDS["exclusive"].default == "true"
    assert FIELDS["shutdown"].choices == ("Stop", "Terminate")
    assert FIELDS["executionEngine"].kind is InputKind.YAML
    assert FIELDS["env"].kind is InputKind.PAIRS
    assert FIELDS["secretRefs"].kind is InputKind.LINES
    assert {"timeouts.finally", "retry.limit", "displayName"} <= FIELDS.keys()
    assert all(one.help for one in FIELDS.values())


@pytest.mark.parametrize(
    ("path", "value"),
    [
        ("owner", "ann"),
        ("hardware.gpuCount", 4),
        ("exclusive", False),
        ("shutdown", "Stop"),
        ("secretRefs", ["one", "two"]),
        ("env", {"A": "1=2", "B": "two\nlines", "C": '"quoted"', "D": "", "E": "a\u2028b\x0b"}),
        ("executionEngine", {"forge": {"args": ["a: b", 1, None], "text": "x\ny\n"}}),
    ],
)
def test_a_value_survives_the_form(path: str, value: Any) -> None:
    assert value_of(FIELDS[path], text_of(FIELDS[path], value).replace("\n", "\r\n")) == value


@pytest.mark.parametrize("path", FIELDS)
def test_an_empty_input_is_no_value(path: str) -> None:
    assert value_of(FIELDS[path], " \r\n") is None and text_of(FIELDS[path], None) == ""


@pytest.mark.parametrize(
    ("path", "text", "why"),
    [
        ("hardware.gpuCount", "many", "whole number"),
        ("exclusive", "maybe", "one of true, false"),
        ("env", "novalue", "is not NAME=VALUE"),
        ("env", 'A="open', "write it as JSON"),
        ("executionEngine", "a: [", "not YAML: line"),
        ("executionEngine", "- a", "write a map"),
        ("executionEngine", "a: &x [1]\nb: [*x, *x]", "has aliases"),
        ("executionEngine", "[" * 20000, "nested more than 50 levels"),
        ("executionEngine", "a: " + "x" * LARGEST, "longer than"),
    ],
)
def test_what_cannot_be_meant_is_refused(path: str, text: str, why: str) -> None:
    with pytest.raises(ValueError, match=why):
        value_of(FIELDS[path], text)


def test_all_wrong_fields_are_named_at_once() -> None:
    found: list[Field] = list(FIELDS.values())
    values, wrong = values_of(found, {"owner": "ann", "exclusive": "x", "retry.limit": "y"})
    assert values == {"owner": "ann"}
    assert {one.field for one in wrong} == {"spec.exclusive", "spec.retry.limit"}


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("forge: &a [*a]", "it has aliases (*name), which are not accepted; write each value out"),
        ("[" * LARGEST, "it is nested more than 50 levels deep"),
        ("forge: !!bool x", "it is not YAML: a value does not fit its type (KeyError)"),
        ("forge: 2001-13-45", "it is not YAML: a value does not fit its type (ValueError)"),
    ],
)
def test_yaml_that_cannot_be_read_is_refused_at_its_field(text: str, message: str) -> None:
    (wrong,) = wanted({"owner": "ann", "executionEngine": text}, {}, "ns").wrong
    assert (wrong.field, wrong.message) == ("spec.executionEngine", message)
