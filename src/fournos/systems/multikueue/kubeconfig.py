"""The token in a worker's kubeconfig: its ServiceAccount, its renewal time, and its replacement."""

from __future__ import annotations

import base64
import binascii
import json
import re
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, Final

from fournos.engine.kube.credentials import access
from fournos.engine.kube.errors import CredentialsError
from fournos.engine.kube.resource import Key, Obj, key_of, uid_of
from fournos.engine.kube.untrusted_kubeconfig import claims, config_of, time_of
from fournos.engine.runtime.projection import pick
from fournos.systems.multikueue.names import KUBECONFIG

PUT_KUBECONFIG: Final = f"put the worker's kubeconfig into it, under the key {KUBECONFIG}"
_SUBJECT: Final = re.compile(
    r"system:serviceaccount:(?P<namespace>[a-z0-9][-a-z0-9]{0,62}):(?P<name>[a-z0-9][-.a-z0-9]{0,252})"
)
"""The groups are restricted, because both become part of a request path."""


@dataclass(frozen=True, slots=True)
class Token:
    """A bound ServiceAccount token."""

    account: Key
    """The ServiceAccount on the worker."""
    issued: datetime
    ends: datetime

    @property
    def life(self) -> timedelta:
        return self.ends - self.issued

    @property
    def due(self) -> datetime:
        """The time at which to replace the token: after half of its life, so half is left for retries."""
        return self.issued + self.life / 2


def content_of(secret: Obj) -> bytes:
    """Returns the kubeconfig in a Secret.  Raises CredentialsError."""
    encoded = (secret.get("data") or {}).get(KUBECONFIG)
    if not encoded:
        raise CredentialsError(f"Secret {key_of(secret)} has no key {KUBECONFIG}: {PUT_KUBECONFIG}")
    try:
        return base64.b64decode(encoded, validate=True)
    except (binascii.Error, ValueError):
        raise CredentialsError(f"Secret {key_of(secret)}: {KUBECONFIG} is not base64") from None


def version_of(secret: Obj) -> str:
    """Returns the version of a Secret that `project_secret` has projected."""
    return f"{uid_of(secret)}/{secret['version']}"


def project_secret(secret: Obj) -> Obj:
    """Projects a Secret to its metadata; its content is never cached."""
    meta: dict[str, Any] = pick(
        secret["metadata"], ("name", "namespace", "uid", "resourceVersion", "deletionTimestamp", "labels")
    )
    return {
        "metadata": meta,
        "version": meta.get("resourceVersion"),
        "hasKubeconfig": bool((secret.get("data") or {}).get(KUBECONFIG)),
    }


def token_of(text: str) -> Token:
    """Parses a bound ServiceAccount token.  Raises CredentialsError for any other token."""
    token_claims = claims(text)
    subject = _SUBJECT.fullmatch(str(token_claims.get("sub")))
    if subject is None:
        raise CredentialsError("its token is none of a ServiceAccount")
    issued, ends = time_of(token_claims, "iat"), time_of(token_claims, "exp")
    if issued is None or ends is None or ends <= issued:
        raise CredentialsError("its token has no end; use one of: kubectl create token")
    return Token(Key(subject["namespace"], subject["name"]), issued, ends)


def token_in(content: bytes) -> Token:
    """Returns the token in a kubeconfig.  Raises CredentialsError."""
    return token_of(access(config_of(content)).token or "")


def server_in(content: bytes) -> str:
    """Returns the server URL in a kubeconfig.  Raises CredentialsError."""
    return access(config_of(content)).server


def with_token(content: bytes, token: str) -> bytes:
    """Returns the kubeconfig with the token in use replaced by this one.  Raises CredentialsError.

    The result is JSON, in which no text can be mistaken for another type.
    """
    config = config_of(content)
    old = access(config).token
    users = []
    for entry in config.get("users") or ():
        user = entry.get("user") or {}
        held = str(user.get("token") or "").strip()
        users.append({**entry, "user": {**user, "token": token}} if held == old else entry)
    return json.dumps({**config, "users": users}, indent=2, default=str).encode()
