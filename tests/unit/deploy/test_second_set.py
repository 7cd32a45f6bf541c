"""The part of the tests that runs on the other set of versions exists."""

from __future__ import annotations

import re

import pytest

from dev.second_set import KUEUES_OWN, ROOT, WITH_PODS, WITHOUT_PODS


@pytest.mark.parametrize("test", (*WITHOUT_PODS, *WITH_PODS))
def test_a_chosen_test_exists(test: str) -> None:
    file, _, function = test.partition("::")
    assert f"def {function or 'test_'}" in (ROOT / file).read_text()


def test_all_that_holds_for_an_older_kueue_alone_is_chosen() -> None:
    """No other run has it."""
    marked = {
        f"{path.name}::{name}"
        for path in (ROOT / "tests" / "integration" / "multikueue").glob("test_*.py")
        for name in re.findall(r"^@BEFORE_019\nasync def (\w+)\(", path.read_text(), re.MULTILINE)
    }
    assert marked == set(KUEUES_OWN)
