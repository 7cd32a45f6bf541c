"""The persons of a cluster: who a request comes from.  The page has no logins: a proxy in front of it has.

The proxy passes on the person's token, or proves itself by a secret and names user and groups, whom the page
then impersonates.  Reads of watched objects are checked by SubjectAccessReviews; everything else goes to the
API server with the person's own token, or as the person.
"""

from __future__ import annotations

import asyncio
import base64
import binascii
import hashlib
import hmac
import logging
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final, Protocol

from aiohttp import web
from multidict import MultiMapping

from fournos.client.asynchronous import AsyncClient
from fournos.engine.kube.api import Api
from fournos.engine.kube.client import Client
from fournos.engine.kube.resource import SELF_SUBJECT_RULES_REVIEW, Resource
from fournos.engine.runtime.decision import User
from fournos.engine.runtime.reviews import BusyError, Reviewer, TtlCache, names_allowed, rules_review
from fournos.insight.source import Source, may
from fournos.web.errors import LoginNeededError, PageError
from fournos.web.rights import Permitted, Questions, SubjectRights
from fournos.web.site import Viewer

log = logging.getLogger(__name__)

TOKEN_HEADER: Final = "X-Forwarded-Access-Token"  # noqa: S105 - a name
USER_HEADER: Final = "X-Forwarded-User"
GROUPS_HEADER: Final = "X-Forwarded-Groups"
"""Names with commas between them."""
SHORTEST_SECRET: Final = 16
"""Bytes of a proxy's secret at least."""
RESERVED: Final = "system:"
"""Names of Kubernetes itself: of components, of ServiceAccounts, and of groups with every right."""
MOST_GROUPS: Final = 200
"""Groups of a person that are looked at: each may cost a request."""
_GROUP: Final = Resource("", "v1", "Group", "groups", namespaced=False)
_ANYWHERE: Final = "kube-public"
"""Rules for what has no namespace are listed with those of any one."""
_CLIENTS: Final = 1024
_CLIENT_SECONDS: Final = 600.0
_GROUP_SECONDS: Final = 60.0
_LONGEST_TOKEN: Final = 16_384


class People(Protocol):
    """A way to find the person of a request: behind a proxy in a cluster, or the one of `fournos web`."""

    def routes(self) -> list[web.RouteDef]:
        """Returns routes of its own."""
        ...

    async def viewer(self, request: web.Request) -> Viewer:
        """Returns the person of a request.  Raises LoginNeededError, PageError, KubeError."""
        ...


@dataclass(frozen=True, slots=True)
class TrustedProxy:
    """A proxy that names users and groups: it shows a secret as the password of `Authorization: Basic`."""

    secret: Path
    """The file with the secret; it is read each time, because it may be renewed."""
    prefix: str = "oidc:"
    """Put before the names of users and groups, as with the API server's own OIDC flags."""

    def read(self) -> bytes:
        """Returns the secret.  Raises ValueError if there is none that could be shown."""
        try:
            secret = self.secret.read_bytes().strip()
        except OSError as error:
            raise ValueError(f"the secret of the proxy cannot be read: {error}") from None
        if len(secret) < SHORTEST_SECRET:
            raise ValueError(f"the secret in {self.secret} is shorter than {SHORTEST_SECRET} bytes")
        if b":" in secret:  # names of users may have colons, too
            raise ValueError(f"the secret in {self.secret} has a colon")
        return secret

    def user(self, password: str, headers: MultiMapping[str]) -> User:
        """Returns the user that the headers name.  Raises PageError if the password is not the secret."""
        try:
            secret = self.read()
        except ValueError as error:
            log.error("%s", error)
            raise PageError(
                503, "Not ready", "The page has no secret of its proxy.", "See its log."
            ) from None
        shown, expected = (hashlib.sha256(one).digest() for one in (password.encode(), secret))
        if not hmac.compare_digest(shown, expected):
            raise LoginNeededError("The proxy before this page does not have the page's secret.")
        return self._named(headers)

    def _named(self, headers: MultiMapping[str]) -> User:
        names = headers.getall(USER_HEADER, [])
        if len(names) != 1 or not names[0].strip():
            raise LoginNeededError("The proxy before this page does not name one user.")
        given = ",".join(headers.getall(GROUPS_HEADER, [])).split(",")
        groups = tuple(self.prefix + group.strip() for group in given if group.strip())
        user = User(self.prefix + names[0].strip(), groups=groups)
        subjects = (user.name, *user.groups)
        if any(subject.lower().startswith(RESERVED) for subject in subjects):
            raise _refused(f'Users and groups that begin with "{RESERVED}" are refused.')
        if not all(subject.isprintable() and subject.isascii() for subject in subjects):
            raise _refused("The name of the user or of a group has other characters than ASCII.")
        return user


class Members:
    """People behind a proxy."""

    def __init__(
        self,
        api: Client,
        source: Source,
        questions: Questions,
        *,
        namespace: str,
        monotonic: Callable[[], float],
        proxy: TrustedProxy | None = None,
    ) -> None:
        """`api` reviews tokens and rights, and impersonates where a proxy names users."""
        self._api = api
        self._source = source
        self._questions = questions
        self._namespace = namespace
        self._proxy = proxy
        self._reviewer = Reviewer(api, monotonic=monotonic)
        self._clients: TtlCache[str, Client] = TtlCache(_CLIENTS, monotonic=monotonic)
        self._groups: TtlCache[tuple[str, ...], tuple[str, ...]] = TtlCache(_CLIENTS, monotonic=monotonic)

    def routes(self) -> list[web.RouteDef]:
        return []

    async def viewer(self, request: web.Request) -> Viewer:
        scheme, _, credentials = request.headers.get("Authorization", "").strip().partition(" ")
        if scheme.lower() == "basic" and self._proxy is not None:
            user = self._proxy.user(_password(credentials), request.headers)
            return self._viewer(replace(user, groups=await self._permitted(user.groups)), "")
        bearer = credentials.strip() if scheme.lower() == "bearer" else ""
        token = bearer or request.headers.get(TOKEN_HEADER, "").strip()
        if not token:
            raise LoginNeededError
        return self._viewer(await self._user(token), token)

    async def _user(self, token: str) -> User:
        refusal = LoginNeededError("Your token is not valid in this cluster, or has ended.")
        if len(token) > _LONGEST_TOKEN or not token.isascii() or not token.isprintable():
            raise refusal
        try:
            user = await self._reviewer.user(token)
        except BusyError:
            raise PageError(
                429,
                "Too many logins",
                "Too many tokens are being reviewed.",
                "Try again in a second.",
                headers={"Retry-After": "1"},
            ) from None
        if user is None:
            raise refusal
        return user

    async def _permitted(self, groups: tuple[str, ...]) -> tuple[str, ...]:
        if (found := self._groups.get(groups)) is None:
            found = self._groups.put(groups, await permitted(self._api, groups), _GROUP_SECONDS)
        return found

    def _viewer(self, user: User, token: str) -> Viewer:
        key = hashlib.sha256((token or repr(user)).encode()).hexdigest()
        own = self._client(key, user, token)
        # As the API server authorizes an impersonated user: with the group that it adds.
        reviewed = user if token else replace(user, groups=(*user.groups, "system:authenticated"))
        rights = SubjectRights(self._reviewer, reviewed, self._questions, own=own)
        # A page that waits for the history shows nothing of the rest.
        client = AsyncClient(api=own, namespace=self._namespace, owner=user.name, patience=0)
        source = Permitted(self._source, rights.may, self._questions.spaces)
        return Viewer(user.name, source, client, rights, key)

    def _client(self, key: str, user: User, token: str) -> Client:
        """Returns the person's client, the same one for some time: it has a rate limit."""
        if (found := self._clients.get(key)) is None:
            found = self._api.bearing(token) if token else self._api.impersonating(_as(user))
        return self._clients.put(key, found, _CLIENT_SECONDS)


async def permitted(api: Api, groups: Sequence[str]) -> tuple[str, ...]:
    """Returns the groups that our ServiceAccount may impersonate: an administrator lists them in its role.

    One request for all groups, wherever the API server can list our rules.  Raises KubeError.
    """
    asked = groups[:MOST_GROUPS]
    review = await api.create(SELF_SUBJECT_RULES_REVIEW, rules_review(_ANYWHERE))
    found = names_allowed(review, asked, "impersonate", _GROUP.group, _GROUP.plural)
    if found is not None:
        return found
    rights = await asyncio.gather(*(may(api, _GROUP, "impersonate", name=name) for name in asked))
    return tuple(name for name, right in zip(asked, rights, strict=True) if right)


def _as(user: User) -> tuple[tuple[str, str], ...]:
    """Returns the headers of requests that act as the user."""
    return (("Impersonate-User", user.name), *(("Impersonate-Group", group) for group in user.groups))


def _password(credentials: str) -> str:
    try:
        return base64.b64decode(credentials, validate=True).decode().rpartition(":")[2]
    except (binascii.Error, ValueError):
        return ""


def _refused(message: str) -> PageError:
    return PageError(403, "Not logged in", message, "Ask an administrator of the page.")
