"""Client for a directory of Vault's KV engine, versions 1 and 2."""

from __future__ import annotations

from collections.abc import Iterator
from types import TracebackType
from typing import Any, Self
from urllib.parse import quote, urljoin

import hvac
import requests
from hvac import exceptions
from requests.adapters import HTTPAdapter
from urllib3.exceptions import LocationParseError
from urllib3.util import parse_url
from urllib3.util.retry import Retry

from fournos.systems.vault.settings import VaultSettings
from fournos.systems.vault.sync import Read, Unreadable, VaultEntry

RETRIES = 3


class VaultError(Exception):
    """The directory cannot be read.  The message states what to change and never contains the token."""


class _ForeignRedirectError(requests.RequestException):
    """A redirect to another server, which must not receive the token."""

    def __init__(self, origin: str) -> None:
        super().__init__(f"redirect to {origin}")
        self.origin = origin


class _Session(requests.Session):
    """A session that follows redirects only to the same server.

    Vault's token is in a header that requests would send to any redirect target.
    """

    def get_redirect_target(self, resp: requests.Response) -> str | None:
        target = super().get_redirect_target(resp)
        if target is not None and resp.url is not None:
            there = _origin(resp.url, target)
            if there != _origin(resp.url):
                resp.close()
                raise _ForeignRedirectError(there)
        return target


def _origin(url: str, target: str = "") -> str:
    """Returns scheme, host and port, parsed by the library that makes the connection."""
    try:
        parts = parse_url(urljoin(url, target))
    except (LocationParseError, ValueError):
        return "an address that cannot be read"
    port = parts.port or {"https": 443, "http": 80}.get(parts.scheme or "")
    return f"{parts.scheme}://{parts.host}:{port}"


class Vault:
    """Reads one directory.  A context manager.

    Every request has a time limit and is attempted four times in total.
    """

    def __init__(self, settings: VaultSettings, *, backoff_factor: float = 0.5) -> None:
        self._settings = settings
        self._session = _Session()
        # hvac prefers the verify value of a given session to its own reading of VAULT_CACERT.
        self._session.verify = settings.ca_cert or True
        retry = Retry(
            total=RETRIES,
            backoff_factor=backoff_factor,
            backoff_max=10,
            # 412: an eventually consistent node; 472, 473: a standby that cannot answer (Vault's HTTP API).
            status_forcelist=(412, 429, 472, 473, 500, 502, 503, 504),
            allowed_methods=("GET", "LIST"),
            raise_on_status=False,
        )
        for scheme in ("https://", "http://"):
            self._session.mount(scheme, HTTPAdapter(max_retries=retry))
        self._client = hvac.Client(
            url=settings.addr,
            token=settings.token.get_secret_value(),
            namespace=settings.vault_namespace or None,
            timeout=settings.timeout_sec,
            session=self._session,
        )

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._session.close()

    def read_all(self) -> Iterator[Read]:
        """Yields every listed entry, read.  Raises VaultError if the directory cannot be listed."""
        version, sure = self._version()
        for name in self._list(version, sure):
            yield Unreadable(name, "a directory") if name.endswith("/") else self._read(version, name)

    def _version(self) -> tuple[str, bool]:
        """Returns the engine's version, and True if it comes from the settings or from Vault.

        Vault's own command line requests the same path.  A token without any read
        permission on the mount gets 403.
        """
        if self._settings.kv_version != "auto":
            return self._settings.kv_version, True
        try:
            answer = self._get(f"sys/internal/ui/mounts/{quote(self._settings.kv_mount)}")
        except (exceptions.Forbidden, exceptions.InvalidPath, exceptions.InvalidRequest):
            return "2", False
        except (exceptions.VaultError, requests.RequestException) as error:
            raise VaultError(self._explain(error, "ask for the KV engine's version")) from None
        options = (answer.get("data") or {}).get("options") or {}
        return ("2" if options.get("version") == "2" else "1"), True

    def _list(self, version: str, sure: bool) -> list[str]:
        settings = self._settings
        path = self._path(version, "metadata", None)
        try:
            answer = self._client.adapter.list(f"/v1/{path}")
        except exceptions.InvalidPath:
            hint = "" if sure else ", and VAULT_KV_VERSION=1 if it is a version 1 engine"
            raise VaultError(
                f"Vault holds nothing at {settings.source_path}: check VAULT_SECRET_PATH"
                f" ({settings.secret_path}) and VAULT_KV_MOUNT ({settings.kv_mount}){hint}."
                " Nothing was changed."
            ) from None
        except (exceptions.VaultError, requests.RequestException) as error:
            raise VaultError(self._explain(error, f"list {path}")) from None
        names = (_json(answer).get("data") or {}).get("keys")
        if not isinstance(names, list) or not all(isinstance(name, str) for name in names):
            raise VaultError(f"Vault's list of {path} has no keys: is {settings.addr} a Vault server?")
        return sorted(names)

    def _read(self, version: str, name: str) -> Read:
        path = self._path(version, "data", name)
        try:
            data = self._get(path).get("data")
        except exceptions.InvalidPath:
            data = None
        except (exceptions.VaultError, requests.RequestException) as error:
            return Unreadable(name, self._explain(error, f"read {path}"))
        if version == "2" and isinstance(data, dict):
            data = data.get("data")
        if data is None:
            return Unreadable(name, "its latest version is deleted in Vault", gone=True)
        if not isinstance(data, dict):
            return Unreadable(name, f"Vault's answer for {path} has no key-value data")
        return VaultEntry(name, data)

    def _path(self, version: str, kind: str, name: str | None) -> str:
        middle = f"/{kind}" if version == "2" else ""
        base = f"{self._settings.kv_mount}{middle}/{self._settings.secret_path}"
        return quote(f"{base}/{name}" if name else base)

    def _get(self, path: str) -> dict[str, Any]:
        return _json(self._client.adapter.get(f"/v1/{path}"))

    def _explain(self, error: Exception, doing: str) -> str:
        addr = self._settings.addr
        match error:
            case exceptions.Forbidden() | exceptions.Unauthorized():
                return (
                    f"Vault refused to {doing}: VAULT_TOKEN has expired or its policy lacks list and read"
                    " there. Get a new token (vault login) or ask for the policy."
                )
            case exceptions.VaultDown():
                return (
                    f"Vault at {addr} is sealed or down for maintenance (could not {doing}). Try again later."
                )
            case exceptions.RateLimitExceeded():
                return f"Vault limits the request rate (could not {doing}). Try again later."
            case requests.exceptions.SSLError():
                return (
                    f"The certificate of {addr} is not trusted (could not {doing}). Name its authority:"
                    " VAULT_CACERT=/path/to/ca.pem"
                )
            case _ForeignRedirectError():
                return (
                    f"{addr} redirects to {error.origin} (could not {doing}): the token is not sent there."
                    " If that is your Vault, set VAULT_ADDR to it."
                )
            case requests.Timeout():
                return (
                    f"Vault at {addr} did not answer within {self._settings.timeout_sec:g} s, {RETRIES + 1}"
                    f" times (could not {doing})."
                )
            case requests.RequestException():
                return (
                    f"Vault cannot be reached at {addr} (could not {doing}):"
                    " check VAULT_ADDR and the network."
                )
            case _:
                return f"Vault failed to {doing}: {type(error).__name__}."


def _json(answer: Any) -> dict[str, Any]:
    """Returns the parsed JSON of an answer; hvac returns the plain response if the body is not JSON."""
    return answer if isinstance(answer, dict) else {}
