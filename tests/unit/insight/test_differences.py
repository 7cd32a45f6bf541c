"""How two specs differ."""

from __future__ import annotations

from typing import Any

import pytest

from fournos.insight.values import SpecDifference, differences


def with_spec(spec: Any) -> dict[str, Any]:
    return {"metadata": {"name": "one"}, "spec": spec}


@pytest.mark.parametrize(
    ("first", "second", "expected"),
    [
        ({}, {}, []),
        ({"a": 1, "b": {"c": 2}}, {"b": {"c": 2}, "a": 1}, []),
        ({"a": 1}, {"a": 2}, [("a", 1, 2)]),
        ({"a": 1}, {}, [("a", 1, None)]),
        ({}, {"b": {"c": 2}}, [("b.c", None, 2)]),
        ({"b": {"d": 1, "c": 2}}, {"b": {"d": 3, "c": 4}}, [("b.c", 2, 4), ("b.d", 1, 3)]),
        ({"l": [1, {"a": 1}]}, {"l": [1, {"a": 2}]}, [("l", [1, {"a": 1}], [1, {"a": 2}])]),
        ({"labels": {"a.b/c": 1}}, {"labels": {"a.b/c": 2}}, [("labels.a\\.b/c", 1, 2)]),
        ({"b": {}}, {}, [("b", {}, None)]),
    ],
)
def test_fields(first: Any, second: Any, expected: list[Any]) -> None:
    assert differences(with_spec(first), with_spec(second)) == [SpecDifference(*one) for one in expected]
