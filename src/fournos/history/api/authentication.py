"""Finds out who calls, from the headers of the API server that forwards the request."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final
from urllib.parse import unquote

from aiohttp import web

from fournos.engine.kube.api import Api
from fournos.engine.kube.resource import Obj
from fournos.engine.runtime.decision import Facts, Unknown, User
from fournos.engine.runtime.fetch_facts import answered
from fournos.history.api.errors import ForbiddenError, UnauthorizedError, UnavailableError
from fournos.systems.jobs.own_job import job_of_pod

_SECONDS: Final = 10.0
_ROUNDS: Final = 6
_FORWARDED: Final = (
    "the history answers to the Kubernetes API server alone: ask at /apis/history.fournos.dev/v1"
)


@dataclass(frozen=True, slots=True)
class FrontProxy:
    """The headers in which an API server names the caller of a request that it forwards (aggregation layer).

    They count only on a connection whose client certificate was verified, for one of `names`.
    """

    names: tuple[str, ...] = ()
    """The common names of the API server's client certificate; empty: any."""
    user_headers: tuple[str, ...] = ("X-Remote-User",)
    uid_headers: tuple[str, ...] = ()
    """None by default: an API server that names none removes none from what its callers send."""
    group_headers: tuple[str, ...] = ("X-Remote-Group",)
    extra_prefixes: tuple[str, ...] = ("X-Remote-Extra-",)

    def user(self, request: web.Request) -> User:
        """Returns the caller.  Raises UnauthorizedError if the request does not come from the API server."""
        caller = _common_name(request)
        if caller is None or (self.names and caller not in self.names):
            raise UnauthorizedError(_FORWARDED)
        headers = request.headers
        user = next((headers[header] for header in self.user_headers if headers.get(header)), "")
        if not user:
            raise UnauthorizedError(_FORWARDED)
        extra: dict[str, tuple[str, ...]] = {}
        for header in headers:
            for prefix in self.extra_prefixes:
                if header.lower().startswith(prefix.lower()):
                    # The API server encodes what a header's name cannot have, such as a slash.
                    name = unquote(header[len(prefix) :].lower())
                    extra[name] = tuple(headers.getall(header))
        return User(
            name=user,
            uid=next((headers[header] for header in self.uid_headers if headers.get(header)), ""),
            groups=tuple(group for header in self.group_headers for group in headers.getall(header, [])),
            extra=tuple(sorted(extra.items())),
        )


def _common_name(request: web.Request) -> str | None:
    transport = request.transport
    # Python's ssl module returns a certificate here only if it has verified it.
    certificate = transport.get_extra_info("peercert") if transport is not None else None
    if not certificate:
        return None
    for part in certificate.get("subject", ()):
        for name, value in part:
            if name == "commonName":
                return str(value)
    return ""


async def own_job(user: User, api: Api) -> Obj:
    """Returns the FournosJob of the calling pod.  Raises ForbiddenError and UnavailableError.

    All tasks of a namespace may share a ServiceAccount, so its name does not tell which job calls.  The pod
    in the token does.
    """

    def decide(facts: Facts) -> Obj | str | Unknown:
        return job_of_pod(user, facts)

    job = await answered(decide, api, seconds=_SECONDS, rounds=_ROUNDS)
    if isinstance(job, Unknown):
        raise UnavailableError("the job of the calling pod cannot be looked up now", retry_after=2)
    if isinstance(job, str):
        raise ForbiddenError(f"only a pod of a FournosJob's run may send to its own job: {job}")
    return job
