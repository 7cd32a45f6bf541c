"""Values of fields as texts.  Pure."""

from __future__ import annotations

from typing import Any

import yaml


def text(value: Any) -> str:
    """The value on one line: a text as it is, anything else as YAML."""
    if isinstance(value, str):
        return value
    return (
        yaml.safe_dump(value, default_flow_style=True, width=10_000, allow_unicode=True)
        .removesuffix("\n...\n")
        .strip()
    )
