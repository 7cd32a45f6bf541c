"""The claims of a JSON Web Token, unverified: its subject and its end."""

from __future__ import annotations

import base64
import json
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any


def claims(token: str) -> Mapping[str, Any]:
    """Returns the claims; empty for any other token."""
    parts = token.split(".")
    if len(parts) != 3:
        return {}
    try:
        payload = json.loads(base64.urlsafe_b64decode(parts[1] + "=" * (-len(parts[1]) % 4)))
    except (ValueError, RecursionError):
        return {}
    return payload if isinstance(payload, dict) else {}


def time_of(payload: Mapping[str, Any], claim: str) -> datetime | None:
    """Returns the time of a claim such as `exp` or `iat`; None without a valid one."""
    try:
        return datetime.fromtimestamp(payload[claim], UTC)
    except (ValueError, KeyError, TypeError, OverflowError, OSError):
        return None
