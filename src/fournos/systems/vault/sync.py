"""The command `hacks/sync_vault_secrets.py`: Vault entries to Secrets, one after the other.

Vault is the source.  An entry that cannot be synced stops none of the others.  Values appear in no output.
"""

from __future__ import annotations

import argparse
import asyncio
import base64
import json
import re
import sys
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any, Final, Literal
from urllib.parse import urlsplit, urlunsplit

import hvac
import requests
from hvac import exceptions
from pydantic import Field, SecretStr, ValidationError, field_validator
from pydantic_settings import BaseSettings, SettingsConfigDict
from requests.adapters import HTTPAdapter
from urllib3.util.retry import Retry

from fournos.engine.api.values import escaped, with_placeholder
from fournos.engine.kube import errors
from fournos.engine.kube.api import Api
from fournos.engine.kube.client import Client
from fournos.engine.kube.credentials import load
from fournos.engine.kube.resource import SECRET, Key, merge_patch

DONE, FAILED, USAGE = 0, 1, 2
"""Exit codes: success; something was not synced; wrong arguments or settings, and nothing was attempted."""

MANAGED_BY_LABEL: Final = "app.kubernetes.io/managed-by"
LABELS: Final = {MANAGED_BY_LABEL: "fournos-vault-sync", "fournos.dev/vault-entry": "true"}
SKIP_KEY: Final = "fournos_skip_sync"
"""An entry with this key, whatever its value, is skipped (the published sync script)."""
FOREIGN_KEY_PREFIX: Final = "secretsync/"
"""The prefix of keys that another tool writes into the same Vault; they are never part of a Secret."""

MAX_NAME: Final = 253
MAX_BYTES: Final = 1024 * 1024
"""The maximum size of a Secret's data that Kubernetes accepts, in bytes."""
RETRIES: Final = 3
"""How often a failed request to Vault is repeated, and a write to a Secret that others change meanwhile."""
TIMEOUT: Final = 10.0
"""Seconds for one request to Vault."""

_LABEL = r"[a-z0-9]([-a-z0-9]*[a-z0-9])?"
_SUBDOMAIN = re.compile(rf"{_LABEL}(\.{_LABEL})*")
_KEY = re.compile(r"[-._a-zA-Z0-9]+")

_EXAMPLES = {
    "VAULT_ADDR": "https://vault.example.com",
    "VAULT_TOKEN": "s.xxxxx",
    "VAULT_SECRET_PATH": "path/to/secrets",
    "FOURNOS_VAULT_SECRET_PATTERN": "vault-{entry}",
}


class VaultSettings(BaseSettings):
    """Which directory of which Vault becomes the Secrets of which namespace (the Fournos README)."""

    # Not populated by field names: these would be variables, too, and NAMESPACE means something else.
    model_config = SettingsConfigDict(extra="ignore")

    addr: str = Field(min_length=1, validation_alias="VAULT_ADDR", description="Vault server URL (required)")
    token: SecretStr = Field(
        min_length=1,
        validation_alias="VAULT_TOKEN",
        description="A token that may list and read the directory (required)",
    )
    secret_path: str = Field(
        min_length=1,
        validation_alias="VAULT_SECRET_PATH",
        description="Directory path within the KV engine (required)",
    )
    kv_mount: str = Field(
        "kv", min_length=1, validation_alias="VAULT_KV_MOUNT", description="Mount point of the KV engine"
    )
    kv_version: Literal["1", "2"] = Field(
        "2", validation_alias="VAULT_KV_VERSION", description="Version of the KV engine"
    )
    vault_namespace: str = Field(
        "", validation_alias="VAULT_NAMESPACE", description="Vault Enterprise namespace"
    )
    ca_cert: str = Field(
        "",
        validation_alias="VAULT_CACERT",
        description="File with the authority of Vault's certificate, when the system does not know it",
    )
    namespace: str = Field(
        "psap-secrets",
        min_length=1,
        validation_alias="FOURNOS_SECRETS_NAMESPACE",
        description="Namespace of the Secrets",
    )
    secret_pattern: str = Field(
        "vault-{entry}",
        validation_alias="FOURNOS_VAULT_SECRET_PATTERN",
        description="Pattern for naming vault-synced Secrets",
    )

    @field_validator("addr")
    @classmethod
    def _is_url(cls, value: str) -> str:
        parts = urlsplit(value)
        if parts.scheme not in ("http", "https") or not parts.hostname:
            raise ValueError("must be a URL like https://vault.example.com")
        # Error messages name the address, where a password in it would be readable.
        return urlunsplit((parts.scheme, parts.netloc.rpartition("@")[2], parts.path.rstrip("/"), "", ""))

    @field_validator("secret_path", "kv_mount")
    @classmethod
    def _without_outer_slashes(cls, value: str) -> str:
        stripped = value.strip("/")
        if not stripped:
            raise ValueError("must name a path, not only slashes")
        return stripped

    @field_validator("secret_pattern")
    @classmethod
    def _names_entry(cls, value: str) -> str:
        return with_placeholder(value, "entry", example="vault")


class SyncError(Exception):
    """Why something is not synced.  The message says what to change and never contains a value."""


# --- Vault ---------------------------------------------------------------------------------------------


class Vault:
    """Reads one directory of a KV engine."""

    def __init__(self, settings: VaultSettings, *, backoff_factor: float = 0.5) -> None:
        self._settings = settings
        session = requests.Session()
        # hvac prefers the verify value of a given session to its own reading of VAULT_CACERT.
        session.verify = settings.ca_cert or True
        retry = Retry(
            total=RETRIES,
            backoff_factor=backoff_factor,
            # 412: an eventually consistent node; 472, 473: a standby that cannot answer (Vault's HTTP API).
            status_forcelist=(412, 429, 472, 473, 500, 502, 503, 504),
            allowed_methods=("GET", "LIST"),
            raise_on_status=False,
        )
        for scheme in ("https://", "http://"):
            session.mount(scheme, HTTPAdapter(max_retries=retry))
        client = hvac.Client(
            url=settings.addr,
            token=settings.token.get_secret_value(),
            namespace=settings.vault_namespace or None,
            timeout=TIMEOUT,
            session=session,
            allow_redirects=False,  # a redirect would take the token to another server
        )
        self._engine = getattr(client.secrets.kv, f"v{settings.kv_version}")

    def entries(self) -> list[str]:
        """Returns the names below the path; those of directories end with a slash.  Raises SyncError."""
        settings = self._settings
        try:
            answer = self._engine.list_secrets(path=settings.secret_path, mount_point=settings.kv_mount)
        except exceptions.InvalidPath:
            raise SyncError(
                f"Vault holds nothing at {settings.kv_mount}/{settings.secret_path}: check VAULT_SECRET_PATH,"
                f" VAULT_KV_MOUNT ({settings.kv_mount}) and VAULT_KV_VERSION ({settings.kv_version})"
            ) from None
        except (exceptions.VaultError, requests.RequestException) as error:
            raise SyncError(self._explain(error, f"list {settings.secret_path}")) from None
        names = (answer.get("data") or {}).get("keys") if isinstance(answer, dict) else None
        if not isinstance(names, list) or not all(isinstance(name, str) for name in names):
            raise SyncError(f"{settings.addr} gave no list of entries: is it the Vault server itself?")
        return sorted(names)

    def read(self, name: str) -> Mapping[str, Any]:
        """Returns the keys and values of an entry.  Raises SyncError."""
        settings, path = self._settings, f"{self._settings.secret_path}/{name}"
        try:
            if settings.kv_version == "1":
                data = self._engine.read_secret(path=path, mount_point=settings.kv_mount)["data"]
            else:
                answer = self._engine.read_secret_version(
                    path=path, mount_point=settings.kv_mount, raise_on_deleted_version=True
                )
                data = answer["data"]["data"]
        except exceptions.InvalidPath:
            raise SyncError("its latest version is deleted in Vault; its Secret, if any, is kept") from None
        except (exceptions.VaultError, requests.RequestException) as error:
            raise SyncError(self._explain(error, f"read {path}")) from None
        except (KeyError, TypeError):
            data = None
        if not isinstance(data, dict):
            raise SyncError(f"Vault's answer for {path} has no keys and values")
        return data

    def _explain(self, error: Exception, doing: str) -> str:
        addr = self._settings.addr
        match error:
            case exceptions.Forbidden() | exceptions.Unauthorized():
                return (
                    f"Vault refused to {doing}: VAULT_TOKEN has expired or its policy lacks list and read"
                    " there. Get a new token (vault login) or ask for the policy."
                )
            case exceptions.VaultDown():
                return f"Vault at {addr} is sealed or down for maintenance (could not {doing})"
            case requests.exceptions.SSLError():
                return (
                    f"The certificate of {addr} is not trusted (could not {doing}). Name its authority:"
                    " VAULT_CACERT=/path/to/ca.pem"
                )
            case requests.RequestException():
                return f"Vault cannot be reached at {addr} (could not {doing}): check VAULT_ADDR"
            case _:
                return f"Vault failed to {doing}: {type(error).__name__}"


# --- an entry as a Secret ------------------------------------------------------------------------------


def secret_name(entry: str, settings: VaultSettings) -> str:
    """Returns the name of an entry's Secret.  Raises SyncError if it cannot be one."""
    name = settings.secret_pattern.replace("{entry}", entry)
    if len(name) > MAX_NAME or not _SUBDOMAIN.fullmatch(name) or not _SUBDOMAIN.fullmatch(entry):
        raise SyncError(
            f"skipped, {name!r} cannot name a Secret; rename the entry in Vault (lower-case letters, digits,"
            f" '-' and '.', at most {MAX_NAME} characters with the prefix), or give it the key {SKIP_KEY}"
        )
    return name


def usable_key(key: str) -> bool:
    """True if a Secret may have this key."""
    return len(key) <= MAX_NAME and not key.startswith("..") and key != "." and bool(_KEY.fullmatch(key))


def values_of(entry: Mapping[str, Any]) -> dict[str, bytes]:
    """Returns the values by key, without keys that a Secret cannot have.  Raises SyncError.

    Strings are stored as they are, all other values as JSON.
    """
    try:
        values = {
            key: (value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)).encode()
            for key, value in entry.items()
            if usable_key(key)
        }
    except UnicodeEncodeError:
        raise SyncError("skipped, one of its values is no valid text; write it to Vault again") from None
    if (size := sum(map(len, values.values()))) > MAX_BYTES:
        raise SyncError(f"skipped, {size} bytes are more than the {MAX_BYTES} of a Secret; split it in Vault")
    return values


async def write(api: Api, name: str, values: Mapping[str, bytes], namespace: str) -> str:
    """Creates or patches a Secret; returns `created`, `updated` or `unchanged`.  Raises SyncError, KubeError.

    Labels, annotations and the type of an existing Secret stay; keys that left Vault go.
    """
    data = {key: base64.b64encode(value).decode() for key, value in values.items()}
    for attempt in range(RETRIES):
        try:
            try:
                live = await api.get(SECRET, Key(namespace, name))
            except errors.NotFoundError:
                meta = {"name": name, "namespace": namespace, "labels": LABELS}
                body = {
                    "apiVersion": "v1",
                    "kind": "Secret",
                    "type": "Opaque",
                    "metadata": meta,
                    "data": data,
                }
                await api.create(SECRET, body)
                return "created"
            labels = live["metadata"].get("labels") or {}
            if labels.get(MANAGED_BY_LABEL) != LABELS[MANAGED_BY_LABEL]:
                raise SyncError(
                    f"Secret {name} was not made by the sync, left as it is; delete it, or hand it over:"
                    f" kubectl label --overwrite secret {name} -n {namespace}"
                    f" {MANAGED_BY_LABEL}={LABELS[MANAGED_BY_LABEL]}"
                )
            change = merge_patch(live.get("data") or {}, data)
            if not change and LABELS.items() <= labels.items():
                return "unchanged"
            version = live["metadata"]["resourceVersion"]  # the patch is for the Secret that was compared
            patch = {"metadata": {"resourceVersion": version, "labels": LABELS}, "data": change}
            await api.patch(SECRET, Key(namespace, name), patch)
            return "updated"
        except (errors.ConflictError, errors.AlreadyExistsError):
            if attempt == RETRIES - 1:
                raise
    raise AssertionError("unreachable")


def _kube_problem(error: errors.KubeError, namespace: str) -> str:
    match error:
        case errors.NotFoundError():
            return f"namespace {namespace} does not exist: kubectl create namespace {namespace}"
        case errors.ForbiddenError():
            return f"the sync needs get, create and patch on secrets in namespace {namespace}"
        case errors.InvalidError():
            # The API server's message for a refused Secret may quote its content.
            return "the API server refused the Secret (is it marked immutable? then delete it first)"
        case _:
            return f"{type(error).__name__}: {error.message}"


# --- the command ---------------------------------------------------------------------------------------


async def sync(vault: Vault, settings: VaultSettings, api: Api | None) -> bool:
    """Syncs every entry, or without an API server prints what there is; returns whether all went well."""
    counts: Counter[str] = Counter()

    def problem(name: str, text: str) -> None:
        counts["errors"] += 1
        print(escaped(f"error: {name}: {text}"), file=sys.stderr)

    for name in vault.entries():
        if name.endswith("/"):
            print(
                escaped(f"note    {name}: a directory, not synced (only entries directly below the path are)")
            )
            continue
        try:
            secret, entry = secret_name(name, settings), vault.read(name)
            if SKIP_KEY in entry:
                print(escaped(f"note    {name}: skipped, it has the key {SKIP_KEY}"))
                continue
            entry = {key: entry[key] for key in entry if not key.startswith(FOREIGN_KEY_PREFIX)}
            for key in entry:
                if not usable_key(key):
                    problem(
                        name, f"key {key!r} skipped, a Secret has letters, digits, '-', '_' and '.' in keys"
                    )
            values = values_of(entry)
            if not values:
                print(escaped(f"note    {name}: nothing to sync in it; its Secret, if any, is kept"))
                continue
            effect = "secret" if api is None else await write(api, secret, values, settings.namespace)
        except SyncError as error:
            problem(name, str(error))
        except errors.KubeError as error:
            problem(name, _kube_problem(error, settings.namespace))
        else:
            counts[effect] += 1
            lengths = [f"          {key}: <{len(value.decode())} chars>" for key, value in values.items()]
            print(escaped("\n".join([f"{effect:9} {secret}", *lengths])))
    if api is None:
        print(f"Dry run, nothing was changed: {counts['secret']} in Vault, {counts['errors']} errors.")
    else:
        kinds = ("created", "updated", "unchanged", "errors")
        print(", ".join(f"{counts[kind]} {kind}" for kind in kinds) + ".")
    return not counts["errors"]


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs the command and returns its exit code."""
    parser = argparse.ArgumentParser(
        prog="sync_vault_secrets.py",
        description="Make one Secret of each entry below VAULT_SECRET_PATH, and update those that exist.",
        epilog="Environment: VAULT_ADDR, VAULT_TOKEN and VAULT_SECRET_PATH are required; VAULT_KV_MOUNT is kv"
        " unless set. Exit codes: 0 all well, 1 something was not synced, 2 wrong arguments or settings.",
    )
    parser.add_argument("-n", "--namespace", help="namespace of the Secrets (default psap-secrets)")
    parser.add_argument("--dry-run", action="store_true", help="show what Vault has; asks no cluster")
    parsed = parser.parse_args(arguments)
    try:
        settings = VaultSettings(
            **({"FOURNOS_SECRETS_NAMESPACE": parsed.namespace} if parsed.namespace else {})
        )
    except ValidationError as error:
        print(_settings_errors(error), file=sys.stderr)
        return USAGE
    if settings.addr.startswith("http://") and urlsplit(settings.addr).hostname not in (
        "localhost",
        "127.0.0.1",
    ):
        print(
            f"warning: {settings.addr} is not https, the token and all values travel readable",
            file=sys.stderr,
        )
    try:
        return DONE if asyncio.run(_run(settings, dry_run=parsed.dry_run)) else FAILED
    except (SyncError, errors.KubeError) as error:
        print(escaped(f"error: {error}"), file=sys.stderr)
        return FAILED


async def _run(settings: VaultSettings, *, dry_run: bool) -> bool:
    vault = Vault(settings)
    if dry_run:
        return await sync(vault, settings, None)
    async with Client(load()) as api:
        return await sync(vault, settings, api)


def _settings_errors(error: ValidationError) -> str:
    lines = []
    for detail in error.errors(include_input=False, include_url=False):
        name = str(detail["loc"][0]) if detail["loc"] else ""
        missing = detail["type"] in ("missing", "string_too_short", "too_short")
        message = "is not set" if missing else detail["msg"].removeprefix("Value error, ")
        lines.append(f'error: {name} {message}. For example: export {name}="{_EXAMPLES.get(name, "…")}"')
    return "\n".join(lines)
