"""Compares the ratios that a measurement wrote with the committed ranges.

A range is for a ratio, never for a time: of a system to Kueue alone in the same session, or of a fault to the
same load before it.  So a slow machine does not break it.  Counts of what must not happen are ranges, too.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping, Sequence
from math import inf
from pathlib import Path
from typing import Final, TypeAlias

import yaml

RANGES: Final = Path(__file__).with_name("ranges.yaml")
Range: TypeAlias = Mapping[str, float]
"""`at_least`, `at_most` or both."""


def ranges() -> dict[str, dict[str, Range]]:
    """Returns part → ratio → its range."""
    loaded: dict[str, dict[str, Range]] = yaml.safe_load(RANGES.read_text(encoding="utf-8"))
    return loaded


def outside(part: str, measured: Mapping[str, float], limits: Mapping[str, Range]) -> list[str]:
    """Returns a sentence for each ratio outside its range or without one, and for each that is missing."""
    sentences = []
    for ratio in (*limits, *(each for each in measured if each not in limits)):
        value, limit = measured.get(ratio), limits.get(ratio)
        if limit is None:
            sentences.append(f"{part}: {ratio} is {value:.3g} and has no range in {RANGES.name}.")
            continue
        words = " and ".join(f"{name.replace('_', ' ')} {number:g}" for name, number in limit.items())
        if value is None:
            sentences.append(f"{part}: {ratio} was not measured, its range is {words}.")
        elif not limit.get("at_least", -inf) <= value <= limit.get("at_most", inf):
            sentences.append(f"{part}: {ratio} is {value:.3g}, its range is {words}.")
    return sentences


def main(files: Sequence[Path]) -> int:
    """Prints what is outside of its range.  Returns 1 if anything is, or if no file has a ratio."""
    limits = ranges()
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
