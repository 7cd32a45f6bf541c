"""The command `hacks/sync_vault_secrets.py`: a manual sync of Vault entries to Secrets."""

from __future__ import annotations

import argparse
import asyncio
import logging
import sys
from collections.abc import Sequence
from urllib.parse import urlsplit

from pydantic import ValidationError

from fournos.engine.api.text import escaped
from fournos.engine.kube.client import Client
from fournos.engine.kube.credentials import load
from fournos.engine.kube.errors import CredentialsError, ForbiddenError, KubeError
from fournos.systems.vault.apply import synchronize
from fournos.systems.vault.client import Vault, VaultError
from fournos.systems.vault.settings import VaultSettings
from fournos.systems.vault.sync import Effect, Sync, take_in

DONE, FAILED, USAGE = 0, 1, 2
"""Exit codes: success; something was not synced; wrong arguments or settings, and nothing was attempted."""


_EXAMPLES = {
    "VAULT_ADDR": "https://vault.example.com",
    "VAULT_TOKEN": "s.xxxxx",
    "VAULT_SECRET_PATH": "path/to/secrets",
    "VAULT_KV_MOUNT": "kv",
    "VAULT_KV_VERSION": "2",
    "FOURNOS_VAULT_TIMEOUT_SEC": "10",
    "FOURNOS_SECRETS_NAMESPACE": "psap-secrets",
    "FOURNOS_VAULT_SECRET_PATTERN": "vault-{entry}",
}


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="sync_vault_secrets.py",
        description="Make one Secret of each entry below VAULT_SECRET_PATH; update those that exist; delete"
        " those whose entry left Vault (never when anything failed).",
        epilog="Environment: VAULT_ADDR, VAULT_TOKEN and VAULT_SECRET_PATH are required; VAULT_KV_MOUNT is kv"
        " unless set. Exit codes: 0 all well, 1 something was not synced, 2 wrong arguments or settings.",
    )
    parser.add_argument("-n", "--namespace", help="namespace of the Secrets (default psap-secrets)")
    parser.add_argument("--vault-addr", dest="addr", help="instead of VAULT_ADDR")
    parser.add_argument("--secret-path", dest="secret_path", help="instead of VAULT_SECRET_PATH")
    parser.add_argument("--kv-mount", dest="kv_mount", help="instead of VAULT_KV_MOUNT")
    parser.add_argument(
        "--dry-run",
        action="store_true",
        help="show what would change, change nothing; works without a cluster",
    )
    parser.add_argument(
        "--adopt",
        action="store_true",
        help="take over Secrets of an entry's name that nothing manages: they get Vault's content",
    )
    parser.add_argument("-v", "--verbose", action="store_true", help="log requests (never contents)")
    return parser


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs the command and returns its exit code."""
    parsed = vars(_parser().parse_args(arguments))
    dry_run, adopt, verbose = parsed.pop("dry_run"), parsed.pop("adopt"), parsed.pop("verbose")
    logging.basicConfig(level=logging.INFO if verbose else logging.WARNING, stream=sys.stderr)
    try:
        settings = VaultSettings.of(**{name: value for name, value in parsed.items() if value is not None})
    except ValidationError as error:
        _print_error(_settings_errors(error))
        return USAGE
    if settings.addr.startswith("http://") and urlsplit(settings.addr).hostname not in (
        "localhost",
        "127.0.0.1",
    ):
        _print_error(f"warning: {settings.addr} is not https, the token and all values travel readable")
    try:
        with Vault(settings) as vault:
            sync = take_in(vault.read_all(), settings)
        compared = asyncio.run(_synchronize(sync, settings, dry_run=dry_run, adopt=adopt))
    except (VaultError, KubeError) as error:
        _print_error(f"error: {_explain(error, settings)}")
        return FAILED
    _report(sync, settings)
    print(summary(sync, dry_run=dry_run) if compared else _preview_summary(sync))
    return FAILED if sync.problems else DONE


async def _synchronize(sync: Sync, settings: VaultSettings, *, dry_run: bool, adopt: bool) -> bool:
    """Returns False after a dry run without a cluster, which shows what Vault has and compares nothing."""
    try:
        async with Client(load()) as api:
            await synchronize(api, sync, settings, dry_run=dry_run, adopt=adopt, report=_print)
    except KubeError as error:
        if not dry_run:
            raise
        _print(f"note    the cluster was not compared with: {error.message}")
        for secret in sync.desired:
            _print("\n".join([f"secret  {secret.name}", *map(secret.key_line, secret.values)]))
        return False
    return True


def _report(sync: Sync, settings: VaultSettings) -> None:
    for note in sync.notes:
        _print(f"note    {note}")
    if not sync.listed:
        _print(f"note    no entries at {settings.source_path}; nothing is deleted for that reason alone")
    for problem in sync.problems:
        _print_error(f"error: {problem}")


def summary(sync: Sync, *, dry_run: bool) -> str:
    """Returns the last line: what was done, or would be, and the number of errors."""
    counts = ", ".join(f"{sync.counts[effect]} {effect}" for effect in Effect)
    line = f"{counts}, {len(sync.problems)} errors."
    return f"Dry run, nothing was changed. It would be: {line}" if dry_run else line


def _preview_summary(sync: Sync) -> str:
    return f"Dry run without a cluster: {len(sync.desired)} in Vault, {len(sync.problems)} errors."


def _explain(error: VaultError | KubeError, settings: VaultSettings) -> str:
    match error:
        case VaultError() | CredentialsError():
            return str(error)
        case ForbiddenError():
            return (
                f"the cluster refused to show the Secrets of namespace {settings.namespace}"
                f" (get and list on secrets are needed): {error.message}"
            )
        case _:
            return f"the cluster cannot be reached, check KUBECONFIG: {error}"


def _settings_errors(error: ValidationError) -> str:
    lines = []
    for detail in error.errors(include_input=False, include_url=False):
        name = str(detail["loc"][0]) if detail["loc"] else ""
        missing = detail["type"] in ("missing", "string_too_short", "too_short")
        message = "is not set" if missing else detail["msg"].removeprefix("Value error, ")
        lines.append(f'error: {name} {message}. For example: export {name}="{_EXAMPLES.get(name, "…")}"')
    return "\n".join(lines)


def _print(text: str) -> None:
    print(escaped(text))


def _print_error(text: str) -> None:
    print(escaped(text), file=sys.stderr)
