"""Sessions in encrypted cookies: every replica can read them, and no replica stores them."""

from __future__ import annotations

import hashlib
import hmac
import json
import zlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, TypeVar

from aiohttp import web
from cryptography.fernet import Fernet, InvalidToken, MultiFernet

from fournos.engine.runtime.decision import User
from fournos.web.errors import PageError

R = TypeVar("R", bound=web.StreamResponse)

_PART: Final = 3800
"""Bytes of one cookie: browsers keep 4,096 with its name and attributes."""
_PARTS: Final = 3
_AFTER: Final = 86_400
"""Seconds for which a browser keeps an ended session, so that the page can say that it has ended."""


@dataclass(frozen=True, slots=True, repr=False)
class Session:
    """Who is logged in.  Holds a token: no repr."""

    token: str
    """The person's token at the API server; empty if the page impersonates `user`."""
    csrf: str
    ends: float
    """Seconds since the epoch."""
    way: str
    """How the person logged in: "token" or "provider"."""
    user: User | None = None


class Sealer:
    """Encrypts and authenticates small values for cookies.  The first key encrypts, all decrypt."""

    def __init__(self, keys: Sequence[bytes]) -> None:
        self._fernet = MultiFernet([Fernet(key) for key in keys])
        self._mark = keys[0]

    def seal(self, purpose: str, value: Mapping[str, Any]) -> str:
        packed = zlib.compress(json.dumps([purpose, value]).encode())
        return self._fernet.encrypt(packed).decode()

    def open(self, purpose: str, text: str) -> dict[str, Any] | None:
        """Returns the value; None if it was not sealed for this purpose with one of the keys."""
        try:
            sealed_for, value = json.loads(zlib.decompress(self._fernet.decrypt(text.encode())))
        except (InvalidToken, UnicodeEncodeError):
            return None
        return dict(value) if sealed_for == purpose else None

    def mark(self, text: str) -> str:
        """Returns a keyed digest of the text (HMAC-SHA256, hexadecimal digits)."""
        return hmac.new(self._mark, f"mark {text}".encode(), hashlib.sha256).hexdigest()


class Cookies:
    """The session of a browser, in one cookie or, for a long token, in several."""

    def __init__(self, *, secure: bool = True) -> None:
        """`secure` is False only in tests, which serve over http."""
        self._secure = secure
        # A browser takes a cookie with this prefix from the host itself by https alone: a neighbour in the
        # same domain cannot plant one.
        self._name = "__Host-fournos" if secure else "fournos"

    def write(self, response: R, sealer: Sealer, session: Session, now: float) -> R:
        """Raises PageError if the token is too long."""
        user = session.user
        text = sealer.seal(
            "session",
            {
                "token": session.token,
                "csrf": session.csrf,
                "ends": session.ends,
                "way": session.way,
                "user": [user.name, user.uid, user.groups, user.extra] if user else None,
            },
        )
        if len(text) > _PART * _PARTS:
            raise PageError(
                422, "Not possible", "This token is too long for a session.", "Log in by another token."
            )
        for number in range(_PARTS):
            if part := text[number * _PART : (number + 1) * _PART]:
                self.set(response, self._part(number), part, max(1, int(session.ends - now)) + _AFTER)
            else:
                self.delete(response, self._part(number))
        return response

    def read(self, request: web.Request, sealer: Sealer) -> Session | None:
        """Returns the session, which may have ended; None if there is none, or it is not ours."""
        text = "".join(request.cookies.get(self._part(number), "") for number in range(_PARTS))
        session = sealer.open("session", text) if text else None
        if session is None:
            return None
        user = session.pop("user")
        return Session(**session, user=_user(user) if user else None)

    def clear(self, response: R) -> R:
        for number in range(_PARTS):
            self.delete(response, self._part(number))
        return response

    def set(self, response: web.StreamResponse, name: str, value: str, seconds: int) -> None:
        response.set_cookie(
            name, value, max_age=seconds, httponly=True, secure=self._secure, samesite="Lax", path="/"
        )

    def delete(self, response: web.StreamResponse, name: str) -> None:
        response.del_cookie(name, httponly=True, secure=self._secure, samesite="Lax", path="/")

    def name(self, suffix: str) -> str:
        return f"{self._name}-{suffix}"

    def _part(self, number: int) -> str:
        return self.name(str(number)) if number else self._name


def _user(fields: Sequence[Any]) -> User:
    name, uid, groups, extra = fields
    return User(name, uid, tuple(groups), tuple((key, tuple(values)) for key, values in extra))
