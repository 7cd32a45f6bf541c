"""The resource requests of an object without a pod template, from its annotation: "cpu=4,memory=8Gi"."""

from __future__ import annotations

import re
from collections.abc import Mapping
from decimal import Decimal
from typing import Final

from fournos.engine.api.values import parse_quantity

REQUESTS_ANNOTATION: Final = "fournos.dev/requests"
_RESERVED: Final = "pods"
"""Kueue counts pods under this name itself and refuses Workloads that request it."""
_TEXT_MAX: Final = 4096
_AMOUNT_MAX: Final = 32
_LARGEST: Final = Decimal(2**63 - 1)
"""The largest quantity that the API server and Kueue can count."""
_NAME: Final = re.compile(
    r"([a-z0-9]([-a-z0-9.]{0,251}[a-z0-9])?/)?[A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?", re.ASCII
)


class RequestsError(ValueError):
    """The requests cannot be read; the message contains the correct form."""


def parse_requests(text: str) -> dict[str, str]:
    """ "cpu=4,memory=8Gi" → {"cpu": "4", "memory": "8Gi"}.  Raises RequestsError."""
    if len(text) > _TEXT_MAX:
        raise RequestsError(f"at most {_TEXT_MAX} characters, these are {len(text)}")
    amounts: dict[str, str] = {}
    for part in filter(None, (part.strip() for part in text.split(","))):
        name, equals, amount = (word.strip() for word in part.partition("="))
        if not equals or not name:
            raise RequestsError(f"{part!r} is not a request: write name=quantity, as cpu=4,memory=8Gi")
        if not _NAME.fullmatch(name):
            raise RequestsError(f"{name!r} is not a resource name such as cpu or nvidia.com/gpu")
        amount_of(name, amount)
        if name == _RESERVED:
            raise RequestsError("pods cannot be requested: Kueue counts them itself")
        if name in amounts:
            raise RequestsError(f"{name} is requested twice")
        amounts[name] = amount
    if not amounts:
        raise RequestsError("nothing is requested: write name=quantity, as cpu=4,memory=8Gi")
    return amounts


def amount_of(name: str, amount: object) -> Decimal:
    """Returns the requested amount of a resource as a number.  Raises RequestsError."""
    text = str(amount)
    if len(text) > _AMOUNT_MAX:
        raise RequestsError(f"{name}: a quantity has at most {_AMOUNT_MAX} characters")
    try:
        number = parse_quantity(text)
    except ValueError as error:
        raise RequestsError(f"{name}: {error}") from None
    if number < 0:
        raise RequestsError(f"{name}: {text} is negative")
    if number > _LARGEST:
        raise RequestsError(f"{name}: {text} is more than can be counted")
    return number


def beyond(wanted: Mapping[str, str], stated: Mapping[str, Decimal]) -> dict[str, str]:
    """Returns what must be added to the stated amounts so that they reach the wanted ones."""
    missing = {name: amount_of(name, amount) - stated.get(name, 0) for name, amount in wanted.items()}
    return {name: f"{amount:f}" for name, amount in missing.items() if amount > 0}
