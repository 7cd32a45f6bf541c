"""The status draft of a FournosJob."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

from fournos.jobs.status import StatusDraft

NOW = datetime(2026, 3, 1, tzinfo=UTC)


def draft(**status: Any) -> StatusDraft:
    meta = {"name": "job", "generation": 3}
    return StatusDraft({"metadata": meta, "spec": {"displayName": "Job"}, "status": status}, NOW)


def test_a_status_is_rendered_with_generation_and_display_name() -> None:
    found = draft(phase="Pending")
    assert found.render() == {"phase": "Pending", "observedGeneration": 3, "displayName": "Job"}
    found.put(phase=None)
    assert found.render() == {}, "the rendered fields are not part of the draft"


def test_nothing_is_rendered_of_an_empty_status() -> None:
    assert draft().render() == {}
