"""Values of fields as texts.  Pure."""

from __future__ import annotations

from typing import Any

from fournos.engine.kube.formats import dump


def text(value: Any) -> str:
    """The value on one line: a text as it is, anything else as YAML."""
    if isinstance(value, str):
        return value
    return dump(value, width=10_000, flow=True).removesuffix("\n...\n").strip()


def direction(higher_is_better: bool | None) -> str:
    """Which values of a KPI are better; "" if it is not stated."""
    return {True: "higher is better", False: "lower is better", None: ""}[higher_is_better]
