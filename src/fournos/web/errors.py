"""The errors that pages show: a status of HTTP, what is wrong, and what to do about it."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

from fournos.client.errors import (
    ApiError,
    ConflictError,
    FournosError,
    MissingError,
    NoHistoryError,
    NotAllowedError,
    NotInstalledError,
    RefusedError,
    UnreachableError,
)
from fournos.engine.kube import errors as kube


class PageError(Exception):
    """Shown in place of the page."""

    def __init__(
        self,
        status: int,
        title: str,
        message: str,
        fix: str = "",
        *,
        headers: Mapping[str, str] = MappingProxyType({}),
    ) -> None:
        super().__init__(message)
        self.status = status
        self.title = title
        self.message = message
        self.fix = fix
        self.headers = headers


_NO_LOGIN: Final = "This page has no logins of its own, and your request names nobody."
_PROXY: Final = (
    "An administrator puts a proxy with logins in front, such as oauth2-proxy. It sends your token of the "
    "cluster as Authorization: Bearer or X-Forwarded-Access-Token; or the page's secret, and your name as "
    "X-Forwarded-User (docs/web.md). On your own machine, fournos web needs no login."
)


class LoginNeededError(PageError):
    """Nobody is named by the request."""

    def __init__(self, message: str = _NO_LOGIN, fix: str = _PROXY) -> None:
        super().__init__(401, "Log in", message, fix)


_FORBIDDEN = "You may not see this"
ASK = "Ask an administrator of the cluster for the right, or log in with an account that has it."
_AWAY = "The API server does not answer"
_AGAIN = "Nothing was lost. Try again in a few seconds."


def page_error(error: Exception) -> PageError | None:
    """Returns what the page shows for an error of API server or client; None for a fault of ours."""
    match error:
        case PageError():
            return error
        case kube.ForbiddenError() | NotAllowedError():
            return PageError(403, _FORBIDDEN, error.message, ASK)
        case kube.NotFoundError() | kube.GoneError():
            return PageError(
                404, "Not here", error.message, "It may have been deleted, or its name is misspelled."
            )
        case MissingError():
            return PageError(404, "Not here", error.message, error.fix)
        case kube.NoSuchResourceError() | NotInstalledError() | NoHistoryError():
            fix = error.fix if isinstance(error, FournosError) else "Ask an administrator to install it."
            return PageError(404, "Not installed", error.message, fix)
        case kube.AlreadyExistsError() | kube.ConflictError() | ConflictError():
            return PageError(
                409, "Changed meanwhile", error.message, "Load the page again, then repeat the action."
            )
        case kube.InvalidError() | RefusedError():
            return PageError(422, "Refused", error.message)
        case kube.TransientError() | UnreachableError():
            return PageError(503, _AWAY, error.message, _AGAIN)
        case ApiError() | kube.KubeError():
            return PageError(502, "The API server refused the request", error.message)
        case FournosError():
            return PageError(422, "Not possible", error.message, error.fix)
    return None
