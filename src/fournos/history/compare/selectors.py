"""How a person names a run of a comparison: by name, UID or labels, @last or @baseline.  Pure."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Final

from fournos.insight.errors import FournosError
from fournos.insight.selection import wanted_labels

LAST: Final = ("@last", "@latest")
BASELINE: Final = "@baseline"
JOB_KIND: Final = "FournosJob"


class By(StrEnum):
    """What a selector goes by."""

    NAME = "name"
    """The newest run of a name, or the one of a UID."""
    LABELS = "labels"
    """The newest job with these labels that succeeded."""
    LAST = "last"
    """The newest job that succeeded; of the person who asks, where that is known."""
    BASELINE = "baseline"
    """The pinned baseline of the runs that are selected beside it."""


@dataclass(frozen=True, slots=True)
class Selector:
    """A parsed selector."""

    text: str
    by: By
    labels: dict[str, str] = field(default_factory=dict)

    @property
    def filters(self) -> dict[str, object]:
        """The filters of the list of runs whose first one is selected; for By.LABELS and By.LAST."""
        return {"kind": JOB_KIND, "phase": "Succeeded", **({"labels": self.labels} if self.labels else {})}


class SelectorError(FournosError):
    """A selector that cannot be read, or that is not clear."""


def parse(text: str) -> Selector:
    """Reads a selector.  Raises SelectorError.

    No name of an object has a character = or @, so no name is taken for another selector.
    """
    if text in LAST:
        return Selector(text, By.LAST)
    if text == BASELINE:
        return Selector(text, By.BASELINE)
    if text.startswith("@"):
        raise SelectorError(f"{text}: write a name, labels as name=value, {LAST[0]} or {BASELINE}")
    if "=" not in text:
        return Selector(text, By.NAME)
    try:
        return Selector(text, By.LABELS, wanted_labels(text))
    except FournosError as error:
        raise SelectorError(error.message, fix=error.fix) from None


def parse_all(texts: Iterable[str]) -> tuple[Selector, ...]:
    """Reads the selectors of one comparison.  Raises SelectorError, also if only baselines are selected."""
    selectors = tuple(map(parse, texts))
    if selectors and all(one.by is By.BASELINE for one in selectors):
        raise SelectorError(f"{BASELINE} is that of another run: name one beside it")
    return selectors


def baseline_for(fingerprints: Sequence[str]) -> str:
    """Returns the fingerprint whose baseline is meant beside runs of these.  Raises SelectorError."""
    distinct = dict.fromkeys(one for one in fingerprints if one)
    if len(distinct) != 1:
        what = (
            "none of the runs beside it has a fingerprint"
            if not distinct
            else "the runs measure several things"
        )
        raise SelectorError(f"{BASELINE} is not clear: {what}")
    return next(iter(distinct))
