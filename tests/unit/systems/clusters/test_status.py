"""The status draft of a FournosCluster."""

from __future__ import annotations

from datetime import UTC, datetime

from fournos.systems.clusters.status import StatusDraft

NOW = datetime(2026, 3, 1, tzinfo=UTC)


def test_rendering_does_not_change_the_draft() -> None:
    draft = StatusDraft({"metadata": {"generation": 7}, "status": {"lockState": "Held"}}, NOW)
    assert draft.render() == {"lockState": "Held", "observedGeneration": 7}
    assert draft.group("observedGeneration") == {}


def test_without_a_generation_none_is_written() -> None:
    assert StatusDraft({"metadata": {}, "status": {"lockState": "Held"}}, NOW).render() == {
        "lockState": "Held"
    }
