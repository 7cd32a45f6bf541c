"""What a part measured, and how it is written as JSON."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any


@dataclass(frozen=True, slots=True)
class Result:
    """The fields of a subclass are its JSON."""

    def to_json(self) -> dict[str, Any]:
        return asdict(self)


@dataclass(frozen=True, slots=True)
class RangedResult(Result):
    """A result with ratios, which `bench check` compares with their ranges."""

    def quotients(self) -> dict[str, float]:
        """Returns what is compared: a number over that of Kueue alone, or of the same load before."""
        return {}

    def wrong(self) -> dict[str, Sequence[str]]:
        """Returns the cases of each fault that must not happen."""
        return {}

    def ratios(self) -> dict[str, float]:
        """Returns the quotients, and how many cases each fault has, whose range is 0."""
        return {**self.quotients(), **{fault: float(len(cases)) for fault, cases in self.wrong().items()}}

    def to_json(self) -> dict[str, Any]:
        return {**asdict(self), "ratios": self.ratios()}
