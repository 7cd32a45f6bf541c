from __future__ import annotations

import pytest

from fournos.engine.runtime.controller import matcher

LABELS = {"a": "1", "b.io/c": "x", "empty": ""}


@pytest.mark.parametrize(
    ("selector", "expected"),
    [
        ("", True),
        ("a=1", True),
        ("a==1", True),
        ("a = 1 , b.io/c=x", True),
        ("a=2", False),
        ("a!=2", True),
        ("a!=1", False),
        ("missing!=1", True),
        ("a", True),
        ("missing", False),
        ("!missing", True),
        ("! a", False),
        ("empty=", True),
        ("a in (1, 2)", True),
        ("a in (2)", False),
        ("a notin (2,3)", True),
        ("a notin (1)", False),
        ("missing notin (1)", True),
        ("a in (1),b.io/c,!z", True),
    ],
)
def test_matches(selector: str, expected: bool) -> None:
    assert matcher(selector)(LABELS) is expected


@pytest.mark.parametrize("selector", ["a in 1", "=1", "a b", ",", "a in (1"])
def test_what_is_no_selector_is_refused(selector: str) -> None:
    with pytest.raises(ValueError, match="not a label selector"):
        matcher(selector)
