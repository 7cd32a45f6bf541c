"""The errors that pages show: a status of HTTP, what is wrong, and what to do about it."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

from fournos.client.errors import (
    ApiError,
    ConflictError,
    FournosError,
    HistoryUnavailableError,
    MissingError,
    NoHistoryError,
    NotAllowedError,
    NotInstalledError,
    NotThereError,
    RefusedError,
    UnreachableError,
    from_kube,
)
from fournos.insight.errors import KubeError


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
_AGAIN = "Nothing was lost. Try again in a few seconds."


def page_error(error: Exception) -> PageError | None:
    """Returns what the page shows for an error of API server or client; None for a fault of ours."""
    match from_kube(error) if isinstance(error, KubeError) else error:
        case PageError() as shown:
            return shown
        case NotAllowedError(message=message):
            return PageError(403, _FORBIDDEN, message, ASK)
        case NotThereError(message=message):
            fix = "It may have been deleted, or its name is misspelled."
            return PageError(404, "Not here", message, fix)
        case MissingError(message=message, fix=fix):
            return PageError(404, "Not here", message, fix)
        case NotInstalledError(message=message, fix=fix) | NoHistoryError(message=message, fix=fix):
            return PageError(404, "Not installed", message, fix)
        case ConflictError(message=message):
            return PageError(
                409, "Changed meanwhile", message, "Load the page again, then repeat the action."
            )
        case RefusedError(message=message):
            return PageError(422, "Refused", message)
        case UnreachableError(message=message, cause=HistoryUnavailableError(fix=fix)):
            return PageError(503, "The history does not answer", message, fix)
        case UnreachableError(message=message, status=status) if status in (0, 429) or status >= 500:
            return PageError(503, "The API server does not answer", message, _AGAIN)
        case ApiError(message=message):
            return PageError(502, "The API server refused the request", message)
        case FournosError(message=message, fix=fix):
            return PageError(422, "Not possible", message, fix)
    return None
