"""What an object without a pod template asks for, as its annotation says it: "cpu=4,memory=8Gi"."""

from __future__ import annotations

from typing import Final

from fournos.api.quantities import parse_quantity

REQUESTS_ANNOTATION: Final = "fournos.dev/requests"
_RESERVED: Final = "pods"
"""Kueue counts pods under this name itself and refuses Workloads that request it."""


class RequestsError(ValueError):
    """What is asked for cannot be read; the message says what to write."""


def parse_requests(text: str) -> dict[str, str]:
    """ "cpu=4,memory=8Gi" → {"cpu": "4", "memory": "8Gi"}.  Raises RequestsError."""
    found: dict[str, str] = {}
    for part in filter(None, (part.strip() for part in text.split(","))):
        name, equals, amount = (word.strip() for word in part.partition("="))
        if not equals or not name:
            raise RequestsError(f"{part!r} is no request: write name=quantity, as cpu=4,memory=8Gi")
        try:
            number = parse_quantity(amount)
        except ValueError as error:
            raise RequestsError(f"{name}: {error}") from None
        if number < 0:
            raise RequestsError(f"{name}: {amount} is less than nothing")
        if name == _RESERVED:
            raise RequestsError("pods cannot be requested: Kueue counts them itself")
        if name in found:
            raise RequestsError(f"{name} is requested twice")
        found[name] = amount
    if not found:
        raise RequestsError("nothing is requested: write name=quantity, as cpu=4,memory=8Gi")
    return found
