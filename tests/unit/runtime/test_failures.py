"""A failed step that is tried again: what is reported of it, and when."""

from __future__ import annotations

import pytest

from fournos.runtime.decision import Decision, Note, StepFailure
from fournos.runtime.failures import lasts, retried
from fournos.runtime.steps import Delete
from tests.unit.runtime.toy import TOY, TOY_KEY

NOTE = Note("Warning", "ServerError", "Delete failed 3 times in a row, retrying: no quorum")


@pytest.mark.parametrize(
    ("count", "long", "notes"),
    [(1, False, ()), (2, False, ()), (3, True, (NOTE,)), (4, True, ()), (40, True, ())],
)
def test_the_third_failure_in_a_row_is_reported_once(count: int, long: bool, notes: tuple[Note, ...]) -> None:
    failure = StepFailure(Delete(TOY, TOY_KEY, "u"), "ServerError", "no quorum", transient=True, count=count)
    assert lasts(failure) is long
    assert retried(failure) == Decision(notes=notes, retry=True)
