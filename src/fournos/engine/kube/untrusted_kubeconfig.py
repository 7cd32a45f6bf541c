"""An untrusted kubeconfig: checked completely before any connection is made with it.

Inline data alone, as for Kueue's MultiKueueCluster: no program, no file, no proxy, no basic authentication,
no unverified TLS, in no entry of the file.
"""

from __future__ import annotations

import base64
import binascii
import json
import re
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, Final
from urllib.parse import urlsplit

from cryptography import x509

from fournos.engine.kube.auth import Proof
from fournos.engine.kube.credentials import Config, Credentials, checked, credentials_of, proof_of
from fournos.engine.kube.errors import CredentialsError
from fournos.engine.kube.formats import YamlError, load_all

MAX_BYTES: Final = 128 * 1024
"""Maximum bytes.  One context has about 6 KiB; the worst content of this size is read in half a second."""

_CREDENTIALS: Final = "use a token or client-certificate-data with client-key-data"
_ACCEPTED: Final = {
    "users": ("user", {"token", "client-certificate-data", "client-key-data"}),
    "clusters": (
        "cluster",
        {"server", "certificate-authority-data", "tls-server-name", "disable-compression", "extensions"},
    ),
}
"""List of a kubeconfig → its entries, and their fields that hold inline data and nothing else."""
_SERVER: Final = re.compile(
    r"https://(\[[0-9a-fA-F:.]+\]|[A-Za-z0-9]([A-Za-z0-9._-]{0,251}[A-Za-z0-9.])?)(:[0-9]{1,5})?(/[A-Za-z0-9._~/-]*)?"
)
_TOKEN: Final = re.compile(r"[!-~]+")


class KubeconfigRefusedError(CredentialsError):
    """`reason` is CamelCase for a condition; the message contains the fix and no secret."""

    def __init__(self, reason: str, message: str) -> None:
        super().__init__(message, reason=reason)


@dataclass(frozen=True, slots=True)
class CheckedKubeconfig:
    """The credentials of a checked kubeconfig and their end (None: unknown)."""

    credentials: Credentials
    expires: datetime | None
    by_certificate: bool
    """True if the client certificate ends then, False if the token does."""


def check(content: bytes, *, now: datetime) -> CheckedKubeconfig:
    """Checks the kubeconfig and returns the credentials of its context.  Raises KubeconfigRefusedError.

    Without current-context the first context is used.  The content may be base64 a second time, as when a
    user puts encoded text into a Secret's stringData.
    """
    config = config_of(content)
    try:
        proof = proof_of(config)
        if not proof.token and not proof.certificate:
            raise KubeconfigRefusedError(
                "NoCredentials", f"kubeconfig: the user has no credentials; {_CREDENTIALS}"
            )
        expires, by_certificate = _end(proof)
        if expires is not None and expires <= now:
            raise expired(expires, by_certificate=by_certificate)
        credentials = credentials_of(config)
    except KubeconfigRefusedError:
        raise
    except CredentialsError as error:
        reason, problem = error.reason or "InvalidKubeconfig", error.message.removeprefix("kubeconfig: ")
        raise KubeconfigRefusedError(reason, f"kubeconfig: {problem}") from None
    return CheckedKubeconfig(credentials, expires, by_certificate)


def config_of(content: bytes) -> Config:
    """Returns the parsed file, if its entries hold inline data alone.  Raises KubeconfigRefusedError."""
    config = _with_context(_parsed(content))
    for plural, (singular, accepted) in _ACCEPTED.items():
        for entry in config.get(plural) or ():
            name, body = f"{singular} {str(entry['name'])[:80]!r}", entry.get(singular) or {}
            for field in body:
                if body[field] and field not in accepted:
                    raise _not_accepted(name, str(field)[:80], accepted)
            if singular == "cluster":
                _check_server(name, body)
            else:
                _check_token(name, body)
    return config


def _not_accepted(name: str, field: str, accepted: set[str]) -> KubeconfigRefusedError:
    words = re.findall(r"[A-Za-z0-9]+", field)
    reason = "".join(word[0].upper() + word[1:] for word in words) + "NotAllowed"
    return KubeconfigRefusedError(
        reason,
        f"kubeconfig: {name} has {field!r}, and may have inline data alone: " + ", ".join(sorted(accepted)),
    )


def expired(at: datetime, *, by_certificate: bool) -> KubeconfigRefusedError:
    """Returns the error for credentials that have expired."""
    what = "client certificate" if by_certificate else "token"
    return KubeconfigRefusedError(
        "CertificateExpired" if by_certificate else "TokenExpired",
        f"kubeconfig: its {what} expired at {at:%Y-%m-%dT%H:%M:%SZ}; "
        "put a kubeconfig with a new one in place",
    )


def _parsed(content: bytes) -> Config:
    if len(content) > MAX_BYTES:
        raise KubeconfigRefusedError(
            "KubeconfigTooLarge",
            f"kubeconfig: more than {MAX_BYTES // 1024} KiB; keep one context "
            "(kubectl config view --minify --flatten)",
        )
    with suppress(binascii.Error):
        # Every kubeconfig contains a colon, and base64 never does.
        content = base64.b64decode(b"".join(content.split()), validate=True) or content
    try:
        documents = load_all(content.decode())
        return checked(documents[0] if len(documents) == 1 else None)
    except CredentialsError as error:
        raise KubeconfigRefusedError("InvalidKubeconfig", error.message) from None
    except YamlError as error:
        raise KubeconfigRefusedError("InvalidKubeconfig", f"kubeconfig {error.brief}") from None
    except UnicodeDecodeError:
        raise KubeconfigRefusedError("InvalidKubeconfig", "kubeconfig is not UTF-8 text") from None


def _with_context(config: Config) -> Config:
    if config.get("current-context"):
        return config
    contexts = config.get("contexts")
    if not contexts:
        raise KubeconfigRefusedError("NoContext", "kubeconfig has no contexts; add one with cluster and user")
    return {**config, "current-context": contexts[0]["name"]}


def _check_server(name: str, cluster: Mapping[str, Any]) -> None:
    server = str(cluster.get("server") or "")
    try:
        usable = _SERVER.fullmatch(server) and urlsplit(server).hostname and urlsplit(server).port != 0
    except ValueError:
        usable = False
    if not usable:
        # It is not quoted: it may hold a password.
        raise KubeconfigRefusedError(
            "InvalidServer",
            f"kubeconfig: server of {name} must be https://HOST:PORT with an IP address or DNS name",
        )
    if not isinstance(cluster.get("tls-server-name") or "", str):
        raise KubeconfigRefusedError(
            "InvalidServer", f"kubeconfig: tls-server-name of {name} must be a DNS name"
        )


def _check_token(name: str, user: Mapping[str, Any]) -> None:
    token = user.get("token")
    if token and not (isinstance(token, str) and _TOKEN.fullmatch(token.strip())):
        raise KubeconfigRefusedError(
            "InvalidToken",
            f"kubeconfig: token of {name} is not a bearer token; give it as a quoted word",
        )


def _end(credentials: Proof) -> tuple[datetime | None, bool]:
    """Returns the end of the last valid credential: an API server accepts whichever is valid."""
    of_certificate = _certificate_end(credentials.certificate) if credentials.certificate else None
    if not credentials.token:
        return of_certificate, True
    of_token = _token_end(credentials.token)
    if of_certificate and of_token and of_certificate >= of_token:
        return of_certificate, True
    return of_token, False


def _certificate_end(pem: bytes) -> datetime:
    try:
        return x509.load_pem_x509_certificate(pem).not_valid_after_utc
    except ValueError:
        raise KubeconfigRefusedError(
            "InvalidCertificate", "kubeconfig: client-certificate-data is not a PEM certificate"
        ) from None


def _token_end(token: str) -> datetime | None:
    """Returns the end of a JSON Web Token, such as a ServiceAccount's; None for any other token."""
    return time_of(claims(token), "exp")


# --- JSON Web Tokens --------------------------------------------------------------------------------
# The claims of a JSON Web Token, unverified: its subject and its end.


def claims(token: str) -> Mapping[str, Any]:
    """Returns the claims; empty for any other token."""
    parts = token.split(".")
    if len(parts) != 3:
        return {}
    try:
        payload = json.loads(base64.urlsafe_b64decode(parts[1] + "=" * (-len(parts[1]) % 4)))
    except (ValueError, RecursionError):
        return {}
    return payload if isinstance(payload, dict) else {}


def time_of(payload: Mapping[str, Any], claim: str) -> datetime | None:
    """Returns the time of a claim such as `exp` or `iat`; None without a valid one."""
    try:
        return datetime.fromtimestamp(payload[claim], UTC)
    except (ValueError, KeyError, TypeError, OverflowError, OSError):
        return None
