"""docs/security.md names the test that proves each promise: every one of them exists."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
PAGE = ROOT / "docs" / "security.md"
NAMED = re.compile(r"`(tests/[\w/]+\.py)::(\w+)`")
ROW = re.compile(r"^\| (?!promise |---)(.+?) \| (.+) \|$", re.MULTILINE)


def named() -> list[tuple[str, str]]:
    return sorted(set(NAMED.findall(PAGE.read_text(encoding="utf-8"))))


@pytest.mark.parametrize(("path", "test"), named())
def test_a_test_that_is_named_exists(path: str, test: str) -> None:
    tree = ast.parse((ROOT / path).read_text(encoding="utf-8"))
    found = (one.name for one in tree.body if isinstance(one, ast.FunctionDef | ast.AsyncFunctionDef))
    assert test in found


def test_every_promise_is_proven() -> None:
    text = PAGE.read_text(encoding="utf-8")
    table = text[text.index("## Promises") :].partition("\n## ")[0] or text
    rows = ROW.findall(table)
    assert len(rows) >= 11
    assert [promise for promise, proof in rows if not NAMED.search(proof)] == []
