"""How good estimates were: what was predicted, against what happened.  Pure."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime
from statistics import median
from typing import Final

MIN_SCORED: Final = 10


@dataclass(frozen=True, slots=True)
class Prediction:
    """An estimate as it was made.  One of the start and one of the end are two predictions."""

    event: str
    """start or end."""
    made_at: datetime
    median: datetime
    p90: datetime
    happened_at: datetime | None = None
    """None: not yet, or never."""


@dataclass(frozen=True, slots=True)
class Accuracy:
    """How good the predictions of an event were."""

    event: str
    scored: int
    median_error: float
    """Seconds: half of the predictions were off by less than that."""
    relative_error: float
    """The same, as a part of the time that was left when the prediction was made."""
    before_median: float
    """The share of events that came before the predicted median; 0.5 is ideal."""
    before_p90: float
    """The share that came before the predicted p90; 0.9 is ideal."""

    def __str__(self) -> str:
        return (
            f"{self.event}: half of {self.scored} estimates were off by less than {self.median_error:.0f} s "
            f"({self.relative_error:.0%}); {self.before_p90:.0%} of the jobs were there by the later time"
        )


def accuracy(event: str, predictions: Iterable[Prediction]) -> Accuracy | None:
    """Scores the predictions of an event that has happened; None if there are fewer than MIN_SCORED."""
    scored = [
        (prediction, prediction.happened_at)
        for prediction in predictions
        if prediction.event == event
        and prediction.happened_at is not None
        and prediction.happened_at >= prediction.made_at
    ]
    if len(scored) < MIN_SCORED:
        return None
    errors = [abs((happened - prediction.median).total_seconds()) for prediction, happened in scored]
    left = [max(1.0, (happened - prediction.made_at).total_seconds()) for prediction, happened in scored]
    return Accuracy(
        event,
        len(scored),
        median(errors),
        median(error / time for error, time in zip(errors, left, strict=True)),
        sum(happened <= prediction.median for prediction, happened in scored) / len(scored),
        sum(happened <= prediction.p90 for prediction, happened in scored) / len(scored),
    )
