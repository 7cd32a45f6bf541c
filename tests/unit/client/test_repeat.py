"""What a job that repeats another one takes over of its metadata."""

from __future__ import annotations

from fournos.client.submission import repeat
from tests.unit.client.world import NS, SPEC


def test_labels_of_the_operator_are_not_copied() -> None:
    """The copy confirms no regression and is no fire of a schedule; a user may not even claim it."""
    reserved = ("fournos.dev/confirms", "fournos.dev/schedule-uid", "fournos.dev/schedule-time")
    labels = {"fournos.dev/schedule": "nightly", "team": "perf"}
    meta = {"name": "one", "namespace": NS, "uid": "u", "labels": {**labels, **dict.fromkeys(reserved, "x")}}
    made, _ = repeat({"metadata": meta, "spec": SPEC}, {})
    assert made["metadata"]["labels"] == labels
