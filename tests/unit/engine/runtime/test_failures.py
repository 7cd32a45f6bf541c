"""A failed step that is tried again: what is reported of it, and when."""

from __future__ import annotations

import pytest

from fournos.engine.runtime.decision import Decision, Delete, EventRecord, StepFailure
from fournos.engine.runtime.events import lasts, retried
from tests.unit.engine.runtime.toy import TOY, TOY_KEY

NOTE = EventRecord("Warning", "ServerError", "Delete failed 3 times in a row, retrying: no quorum")


@pytest.mark.parametrize(
    ("count", "long", "events"),
    [(1, False, ()), (2, False, ()), (3, True, (NOTE,)), (4, True, ()), (40, True, ())],
)
def test_the_third_failure_in_a_row_is_reported_once(
    count: int, long: bool, events: tuple[EventRecord, ...]
) -> None:
    failure = StepFailure(Delete(TOY, TOY_KEY, "u"), "ServerError", "no quorum", transient=True, count=count)
    assert lasts(failure) is long
    assert retried(failure) == Decision(events=events, retry=True)
