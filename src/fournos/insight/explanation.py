"""The result of every explain function: why an object of any kind waits, and what to do.  Pure."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from fournos.engine.kube.resource import Obj, key_of
from fournos.insight.quota import Quota, rows
from fournos.insight.values import name_of, phase_of


@dataclass(frozen=True, slots=True)
class Explanation:
    """Why an object waits, and what to do."""

    verdict: str
    """One sentence."""
    because: tuple[str, ...] = ()
    """Messages and conditions of the objects that support the verdict."""
    advice: tuple[str, ...] = ()
    """What to do, the best advice first."""
    holders: tuple[Obj, ...] = ()
    """Jobs on the clusters in question."""
    quota: Quota | None = None
    ahead: tuple[str, ...] | None = None
    """The keys of the Workloads ahead in the queue; None if it is not queued or the order is not known."""
    in_line: int = 0
    """The number of pending Workloads, this one included."""
    kept: str = field(default="", compare=False)
    """What keeps it whatever its place in the queue, as a sentence without its end mark.

    "" if it waits for its turn, or for quota whose end is not known.
    """

    @property
    def by_turn(self) -> bool:
        """True if it waits for quota, or its turn, alone: then its place says when it starts."""
        return self.quota is not None and not self.quota.never


def as_data(obj: Obj, explanation: Explanation) -> dict[str, Any]:
    """Returns the explanation as plain values for JSON and YAML output."""
    result: dict[str, Any] = {
        "name": name_of(obj),
        "namespace": obj["metadata"].get("namespace"),
        "phase": phase_of(obj),
        "verdict": explanation.verdict,
        "because": list(explanation.because),
        "advice": list(explanation.advice),
        "holders": [str(key_of(holder)) for holder in explanation.holders],
    }
    if explanation.ahead is not None:
        result |= {
            "position": len(explanation.ahead) + 1,
            "waiting": explanation.in_line,
            "ahead": list(explanation.ahead),
        }
    if explanation.quota:
        keys = ("flavor", "resource", "asks", "free", "used", "nominal")
        result["quota"] = [dict(zip(keys, row, strict=True)) for row in rows(explanation.quota)]
    return result
