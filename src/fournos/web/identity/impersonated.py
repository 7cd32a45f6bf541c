"""Persons whom the page impersonates, because the API server does not take their provider's tokens."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from fournos.engine.kube.api import Api
from fournos.engine.kube.resource import SELF_SUBJECT_RULES_REVIEW, Resource
from fournos.engine.runtime.decision import User
from fournos.engine.runtime.reviews import names_allowed, rules_review
from fournos.insight.access import may
from fournos.web.errors import PageError

GROUP: Final = Resource("", "v1", "Group", "groups", namespaced=False)
MOST: Final = 200
"""Groups of a person that are looked at: each may cost a request."""
_ANYWHERE: Final = "kube-public"
"""Rules for what has no namespace are listed with those of any one."""
RESERVED: Final = "system:"
"""Names of Kubernetes itself: of components, of ServiceAccounts, and of groups with every right."""


@dataclass(frozen=True, slots=True)
class Mapped:
    """How claims of an ID token become a user, as with the API server's own OIDC flags."""

    user_claim: str = "sub"
    user_prefix: str = "oidc:"
    groups_claim: str = "groups"
    groups_prefix: str = "oidc:"

    def user(self, claims: Mapping[str, Any]) -> User:
        """Raises PageError if the claims name no user, or one that is reserved."""
        name = claims.get(self.user_claim)
        if not isinstance(name, str) or not name:
            raise _refused(f"The provider's ID token has no {self.user_claim}.")
        if self.user_claim == "email" and claims.get("email_verified") is not True:
            raise _refused("The provider has not verified the e-mail address.")
        given = claims.get(self.groups_claim) or ()
        groups = [given] if isinstance(given, str) else list(given)
        user = User(
            self.user_prefix + name, groups=tuple(self.groups_prefix + str(group) for group in groups)
        )
        if any(subject.lower().startswith(RESERVED) for subject in (user.name, *user.groups)):
            raise _refused(f'Users and groups that begin with "{RESERVED}" are refused.')
        if not all(subject.isprintable() for subject in (user.name, *user.groups)):
            raise _refused("The provider's ID token has control characters in a name.")
        return user


async def permitted(api: Api, groups: Sequence[str]) -> tuple[str, ...]:
    """Returns the groups that our ServiceAccount may impersonate: an administrator lists them in its role.

    One request for all groups, wherever the API server can list our rules.  Raises KubeError.
    """
    asked = groups[:MOST]
    review = await api.create(SELF_SUBJECT_RULES_REVIEW, rules_review(_ANYWHERE))
    found = names_allowed(review, asked, "impersonate", GROUP.group, GROUP.plural)
    if found is not None:
        return found
    rights = await asyncio.gather(*(may(api, GROUP, "impersonate", name=name) for name in asked))
    return tuple(name for name, right in zip(asked, rights, strict=True) if right)


def reviewed_as(user: User) -> User:
    """Returns the user as the API server authorizes it when it is impersonated: with its added group."""
    return User(user.name, user.uid, (*user.groups, "system:authenticated"), user.extra)


def headers(user: User) -> tuple[tuple[str, str], ...]:
    """Returns the headers of requests that act as the user."""
    return (("Impersonate-User", user.name), *(("Impersonate-Group", group) for group in user.groups))


def _refused(message: str) -> PageError:
    return PageError(403, "Not logged in", message, "Ask an administrator of the page.")
