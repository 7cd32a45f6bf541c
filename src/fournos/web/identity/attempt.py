"""A login at a provider that is under way."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class LoginAttempt:
    """A login that has begun; it is kept in an encrypted cookie until the browser comes back."""

    state: str
    nonce: str
    verifier: str
    next: str
    """The path to go to afterwards."""
