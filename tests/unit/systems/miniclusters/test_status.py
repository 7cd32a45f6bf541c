"""The status of a MiniCluster, read by its types."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

from fournos.systems.miniclusters.status import StatusDraft, summary_of

NOW = datetime(2030, 1, 1, tzinfo=UTC)


def draft(**status: Any) -> StatusDraft:
    return StatusDraft({"metadata": {"name": "mc"}, "status": status}, NOW)


def test_an_empty_status() -> None:
    found = draft()
    assert (found.begun, found.maximum, found.size, found.finished, found.ended) == (
        False,
        0,
        0,
        False,
        False,
    )
    assert (found.exit_code, found.started_at) == (None, None)
    assert summary_of({"metadata": {}}).phase is None


def test_from_the_claim_to_the_end() -> None:
    found = draft(exitCode=1, finishedAt="2029-12-31T00:00:00Z").claim(4, "a=b").put(size=3)
    assert (found.begun, found.maximum, found.size) == (True, 4, 3)
    assert (found.ended, found.exit_code) == (False, None), "the result of the start before this one is gone"
    found.put(startedAt="2029-12-31T23:00:00Z").end(0, "Succeeded", "done")
    assert found.started_at == datetime(2029, 12, 31, 23, tzinfo=UTC)
    assert (found.ended, found.exit_code, found.finished) == (True, 0, False)
    found.phased("Finished", "done").unclaim()
    assert (found.finished, found.begun, found.size, found.started_at) == (True, False, 0, None)


def test_an_odd_condition_does_not_hide_the_result() -> None:
    status = {"phase": "Finished", "exitCode": 3, "message": "m", "conditions": [{"type": 1}]}
    found = summary_of({"metadata": {}, "status": status})
    assert (found.phase, found.exit_code, found.message) == ("Finished", 3, "m")
