"""Who calls, and what the caller may read: the API server names the caller, and reviews the rights.

A client needs only its kubeconfig: the API server authenticates it, whatever its credentials are, and
forwards the request to us with the user in headers.  `runs`, `runs/logs`, `runs/artifacts`, `runs/results`
and `estimates` of the group history.fournos.dev exist in no API server; rules name them, so the history has
rights that outlive the objects.  A namespace is its UID: where it is gone, or another one has its name, only
a right in all namespaces reads its runs.
"""

from __future__ import annotations

import asyncio
import base64
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import unquote

import orjson
from aiohttp import web

from fournos.engine.kube.api import Api
from fournos.engine.kube.errors import KubeError, NotFoundError
from fournos.engine.kube.resource import NAMESPACE, Key, Obj, Resource, key_of, uid_of
from fournos.engine.runtime.decision import Facts, Unknown, User
from fournos.engine.runtime.fetch_facts import answered
from fournos.engine.runtime.reviews import Reviewer, TtlCache
from fournos.history.api.routes import (
    GROUP,
    Access,
    ForbiddenError,
    UnauthorizedError,
    UnavailableError,
)
from fournos.history.records import Scope
from fournos.systems.jobs.own_job import job_of_pod

if TYPE_CHECKING:
    from fournos.history.store import HistoryStore


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


API_SERVICE: Final = Resource("apiregistration.k8s.io", "v1", "APIService", "apiservices", namespaced=False)
NAME: Final = "v1.history.fournos.dev"
_CONFIG_MAP: Final = Resource("", "v1", "ConfigMap", "configmaps")
_AUTHENTICATION: Final = Key("kube-system", "extension-apiserver-authentication")


def front_proxy(config_map: Obj) -> tuple[bytes, FrontProxy]:
    """Returns the authority of the API server's client certificates and its headers.

    Raises ValueError for a ConfigMap that cannot be read, or of an API server that forwards no requests.
    """
    data = config_map.get("data") or {}
    authority = str(data.get("requestheader-client-ca-file") or "").encode()
    if not authority:
        raise ValueError("the API server forwards no requests: it has no --requestheader-client-ca-file")

    def names(key: str) -> tuple[str, ...]:
        listed = orjson.loads(data.get(key) or "[]")
        if not isinstance(listed, list):
            raise ValueError(f"{key} is not a list")
        return tuple(map(str, listed))

    headers = FrontProxy()
    return authority, FrontProxy(
        names=names("requestheader-allowed-names"),
        user_headers=names("requestheader-username-headers") or headers.user_headers,
        uid_headers=names("requestheader-uid-headers"),
        group_headers=names("requestheader-group-headers") or headers.group_headers,
        extra_prefixes=names("requestheader-extra-headers-prefix") or headers.extra_prefixes,
    )


async def read_front_proxy(api: Api) -> tuple[bytes, FrontProxy]:
    """Reads the ConfigMap in which an API server describes itself.  Raises KubeErrors and ValueError."""
    return front_proxy(await api.get(_CONFIG_MAP, _AUTHENTICATION))


async def publish(api: Api, bundle: bytes, *, namespace: str) -> None:
    """Writes our authorities into the APIService, if there is one that names a Service of this namespace.

    Raises KubeErrors.
    """
    try:
        service = await api.get(API_SERVICE, Key("", NAME))
    except NotFoundError:
        return
    if patch := correction(service, bundle, namespace=namespace):
        await api.patch(API_SERVICE, Key("", NAME), patch)


def correction(service: Obj, bundle: bytes, *, namespace: str) -> dict[str, Any] | None:
    """Returns the merge patch to the APIService; None if it is right or not ours."""
    spec = service.get("spec") or {}
    ours = (spec.get("service") or {}).get("namespace") == namespace
    ca_bundle = base64.b64encode(bundle).decode()
    if not ours or spec.get("caBundle") == ca_bundle:
        return None
    return {
        "metadata": {"resourceVersion": service["metadata"]["resourceVersion"]},
        "spec": {"caBundle": ca_bundle},
    }


_NAMESPACES: Final = 10.0
"""Seconds for which the list of namespaces is cached."""


class HistoryAuthorizer:
    """Checks rights by SubjectAccessReviews, whose results are cached."""

    def __init__(
        self,
        api: Api,
        store: Callable[[], Awaitable[HistoryStore]],
        *,
        cluster: str,
        monotonic: Callable[[], float],
    ) -> None:
        """`store()` returns the open store.

        `cluster`: the own one, as in `Identity.cluster`; rights are those that its API server knows."""
        self._api = api
        self._cluster = cluster
        self._store = store
        self._reviewer = Reviewer(api, monotonic=monotonic)
        self._uids: TtlCache[None, dict[str, str]] = TtlCache(1, monotonic=monotonic)

    async def scope(self, user: User, access: Access, namespace: str = "") -> Scope:
        """Returns what the user may read in the namespace, or anywhere in the own cluster.

        Rights are checked before anything is looked up, so that no response shows what exists.  Raises
        ForbiddenError and UnavailableError.
        """
        if await self.may(user, access, ""):
            return Scope(None, self._cluster)
        if not namespace:
            return Scope(await self._allowed(user, access))
        if not await self.may(user, access, namespace):
            raise ForbiddenError(f'{_cannot(user, access)} in the namespace "{namespace}"')
        uid = (await self._current()).get(namespace)
        return Scope((uid,) if uid else ())

    async def _allowed(self, user: User, access: Access) -> tuple[str, ...]:
        current = await self._current()
        recorded = await (await self._store()).namespaces()
        present = [(name, uid) for name, uid in recorded if current.get(name) == uid]
        rights = await asyncio.gather(*(self.may(user, access, name) for name, _ in present))
        return tuple(uid for (_, uid), right in zip(present, rights, strict=True) if right)

    async def may(self, user: User, access: Access, namespace: str) -> bool:
        """True if the user has the right in the namespace; "" means in all.  Raises UnavailableError."""
        try:
            return await self._reviewer.may(user, access.attributes(namespace))
        except KubeError as error:
            raise UnavailableError("the API server cannot review the access now", retry_after=2) from error

    async def _current(self) -> dict[str, str]:
        """Returns the UID of each namespace that exists, by name."""
        uids = self._uids.get(None)
        if uids is None:
            try:
                items = (await self._api.list(NAMESPACE)).items
            except KubeError as error:
                raise UnavailableError("the namespaces cannot be read now", retry_after=2) from error
            uids = self._uids.put(None, {key_of(item).name: uid_of(item) for item in items}, _NAMESPACES)
        return uids


def _cannot(user: User, access: Access) -> str:
    return f'User "{user.name}" cannot {access.verb} resource "{access.resource}" in API group "{GROUP}"'
