"""The part of the tests that runs on the other set of versions exists."""

from __future__ import annotations

import pytest

from dev.second_set import ROOT, WITH_PODS, WITHOUT_PODS


@pytest.mark.parametrize("test", (*WITHOUT_PODS, *WITH_PODS))
def test_a_chosen_test_exists(test: str) -> None:
    file, _, function = test.partition("::")
    assert f"def {function or 'test_'}" in (ROOT / file).read_text()
