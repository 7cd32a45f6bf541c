"""Compares the ratios that a measurement wrote with the committed ranges.

A range is for a ratio, never for a time: of a system to Kueue alone in the same session, or of a fault to the
same load before it.  So a slow machine does not break it.  Counts of what must not happen are ranges, too.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import yaml

RANGES: Final = Path(__file__).with_name("ranges.yaml")


@dataclass(frozen=True, slots=True)
class Range:
    """The limits of a ratio; None where there is none."""

    at_least: float | None = None
    at_most: float | None = None

    def __str__(self) -> str:
        limits = (("at least", self.at_least), ("at most", self.at_most))
        return " and ".join(f"{words} {limit:g}" for words, limit in limits if limit is not None)

    def holds(self, value: float) -> bool:
        low = self.at_least is None or value >= self.at_least
        return low and (self.at_most is None or value <= self.at_most)


def ranges(content: Mapping[str, Any]) -> dict[str, dict[str, Range]]:
    """Returns part → ratio → its range, of the file's content.

    Raises ValueError for a range without a limit or with a limit that does not exist.
    """
    parsed: dict[str, dict[str, Range]] = {}
    for part, limits in content.items():
        parsed[part] = {}
        for ratio, range_ in limits.items():
            if not range_ or not range_.keys() <= {"at_least", "at_most"}:
                raise ValueError(f"{part}: {ratio} needs at_least, at_most or both, not {range_!r}")
            parsed[part][ratio] = Range(**range_)
    return parsed


def outside(part: str, measured: Mapping[str, float], limits: Mapping[str, Range]) -> list[str]:
    """Returns a sentence for each ratio outside its range or without one, and for each that is missing."""
    sentences = [
        f"{part}: {ratio} is {measured[ratio]:.3g}, its range is {range_}."
        for ratio, range_ in limits.items()
        if ratio in measured and not range_.holds(measured[ratio])
    ]
    sentences += [
        f"{part}: {ratio} was not measured, its range is {range_}."
        for ratio, range_ in limits.items()
        if ratio not in measured
    ]
    sentences += [
        f"{part}: {ratio} is {value:.3g} and has no range in {RANGES.name}."
        for ratio, value in measured.items()
        if ratio not in limits
    ]
    return sentences


def main(files: Sequence[Path]) -> int:
    """Prints what is outside of its range.  Returns 1 if anything is, or if no file has a ratio."""
    limits = ranges(yaml.safe_load(RANGES.read_text(encoding="utf-8")))
    sentences, compared = [], 0
    for file in files:
        for part, numbers in json.loads(file.read_text(encoding="utf-8")).items():
            if part in limits:
                compared += len(numbers["ratios"])
                sentences += outside(part, numbers["ratios"], limits[part])
    if not compared:
        sentences.append(f"No ratio of {', '.join(map(str, files))} has a range in {RANGES.name}.")
    for sentence in sentences:
        print(sentence, file=sys.stderr)
    if not sentences:
        print(f"{compared} ratios are within their ranges.")
    return 1 if sentences else 0
