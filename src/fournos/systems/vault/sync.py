"""Plans a sync from the content of Vault and of the cluster.  Pure: it reads and writes nothing.

Vault is the source.  Only a Secret with our managed-by label is changed.
"""

from __future__ import annotations

import base64
import json
import re
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any, TypeAlias

from fournos.engine.kube.kinds import SECRET
from fournos.engine.kube.patches import merge_patch
from fournos.engine.kube.resource import Obj
from fournos.systems.vault.settings import VaultSettings

MANAGED_BY_LABEL = "app.kubernetes.io/managed-by"
MANAGED_BY = "fournos-vault-sync"
ENTRY_LABEL = "fournos.dev/vault-entry"
ADDR_ANNOTATION = "fournos.dev/vault-addr"
PATH_ANNOTATION = "fournos.dev/vault-path"
SKIP_KEY = "fournos_skip_sync"
"""An entry with this key, whatever its value, is skipped (the published sync script)."""
FOREIGN_KEY_PREFIX = "secretsync/"
"""The prefix of keys that another tool writes into the same Vault; they are never part of a Secret."""

MAX_NAME = 253
MAX_BYTES = 1024 * 1024
"""The maximum size of a Secret's data that Kubernetes accepts, in bytes."""

_LABEL = r"[a-z0-9]([-a-z0-9]*[a-z0-9])?"
_SUBDOMAIN = re.compile(rf"{_LABEL}(\.{_LABEL})*")
_KEY = re.compile(r"[-._a-zA-Z0-9]+")


@dataclass(frozen=True, slots=True)
class VaultEntry:
    """A Vault entry as read."""

    name: str
    data: Mapping[str, Any] = field(repr=False)


@dataclass(frozen=True, slots=True)
class Unreadable:
    """A listed entry that could not be read.

    `gone` is True if Vault reports its latest version as deleted.
    """

    name: str
    reason: str
    gone: bool = False


Read: TypeAlias = VaultEntry | Unreadable


@dataclass(frozen=True, slots=True)
class Desired:
    """A Secret as Vault defines it; values by key."""

    name: str
    entry: str
    values: Mapping[str, bytes] = field(repr=False)

    def key_line(self, key: str) -> str:
        """Returns the line of a report about a key, with the length of its value."""
        # Characters, not bytes, because a person would count characters.
        return f"          {key}: <{len(self.values[key].decode())} chars>"


class Effect(StrEnum):
    """What a change does to a Secret, as the summary of a sync counts it."""

    CREATED = "created"
    UPDATED = "updated"
    UNCHANGED = "unchanged"
    DELETED = "deleted"


@dataclass(frozen=True, slots=True)
class SecretChange:
    """What a sync does with one Secret."""

    effect: Effect
    name: str
    report: str
    """Key names and lengths, never a value."""
    body: Obj | None = field(default=None, repr=False)
    """The Secret to create, or the merge patch of one to update."""
    secret: Desired | None = None
    """None for a deletion."""
    uid: str = ""
    """The precondition of a deletion."""


@dataclass(slots=True)
class Sync:
    """One sync: what Vault defines, and the problems and counts up to now."""

    desired: list[Desired] = field(default_factory=list)
    listed: set[str] = field(default_factory=set)
    """The names of all Secrets whose entry Vault lists, whether or not the entry could be used."""
    notes: list[str] = field(default_factory=list)
    problems: list[str] = field(default_factory=list)
    partial: bool = False
    """True if something was not read or written: then the expected Secrets are not fully known."""
    counts: Counter[Effect] = field(default_factory=Counter)

    def fail(self, problem: str) -> None:
        """Adds a problem that makes the sync a partial one."""
        self.problems.append(problem)
        self.partial = True


def is_managed(secret: Obj) -> bool:
    """Returns True if the Secret has our managed-by label."""
    return (secret["metadata"].get("labels") or {}).get(MANAGED_BY_LABEL) == MANAGED_BY


def take_in(reads: Iterable[Read], settings: VaultSettings) -> Sync:
    """Classifies the entries that were read into desired Secrets, problems and notes."""
    sync = Sync()
    for read in reads:
        if read.name.endswith("/"):
            sync.notes.append(
                f"{read.name}: a directory, not synced (only entries directly below the path are)"
            )
            continue
        sync.listed.add(settings.secret_name(read.name))
        if isinstance(read, VaultEntry):
            _take_entry(read, sync, settings)
        elif read.gone:
            sync.notes.append(f"{read.name}: {read.reason}; its Secret, if any, is kept")
        else:
            sync.fail(f"{read.name}: {read.reason}")
    return sync


def _take_entry(entry: VaultEntry, sync: Sync, settings: VaultSettings) -> None:
    if SKIP_KEY in entry.data:
        sync.notes.append(f"{entry.name}: skipped, it has the key {SKIP_KEY}")
        return
    name = settings.secret_name(entry.name)
    if len(name) > MAX_NAME or not _SUBDOMAIN.fullmatch(name) or not _SUBDOMAIN.fullmatch(entry.name):
        text = (
            f"{entry.name}: skipped, {name!r} cannot name a Secret; rename the entry in Vault (lower-case"
            f" letters, digits, '-' and '.', at most {MAX_NAME} characters with the prefix),"
            f" or give it the key {SKIP_KEY}"
        )
        sync.problems.append(text)
        return
    values: dict[str, bytes] = {}
    for key, value in entry.data.items():
        if key.startswith(FOREIGN_KEY_PREFIX):
            continue
        if len(key) > MAX_NAME or key.startswith("..") or key == "." or not _KEY.fullmatch(key):
            text = (
                f"{entry.name}: key {key!r} skipped, it cannot be a key of a Secret; rename it in Vault"
                " (letters, digits, '-', '_' and '.')"
            )
            sync.problems.append(text)
            continue
        values[key] = _bytes(value)
    size = sum(map(len, values.values()))
    if not values:
        sync.notes.append(f"{entry.name}: nothing to sync in it; its Secret, if any, is kept")
    elif size > MAX_BYTES:
        text = f"{entry.name}: skipped, {size} bytes are more than the {MAX_BYTES} that a Secret may hold"
        sync.problems.append(f"{text}; split the entry in Vault")
    else:
        sync.desired.append(Desired(name, entry.name, values))


def _bytes(value: object) -> bytes:
    """Returns strings unchanged, and all other JSON values as JSON text."""
    text = value if isinstance(value, str) else json.dumps(value, separators=(",", ":"), ensure_ascii=False)
    return text.encode()


def plan(
    sync: Sync, existing: Mapping[str, Obj], settings: VaultSettings, *, adopt: bool = False
) -> tuple[list[SecretChange], list[str]]:
    """Returns the changes that make the namespace match Vault, and why a Secret cannot be changed.

    `existing` contains, by name, every Secret with our labels and every other one of a desired name.  With
    `adopt`, a Secret of a desired name without a managing tool and without an owner is taken over.  Deletions
    come last; the caller omits them if an earlier change failed.
    """
    changes: list[SecretChange] = []
    refusals: list[str] = []
    for secret in sync.desired:
        present = existing.get(secret.name)
        if present is None:
            changes.append(_create(secret, settings))
        elif not is_managed(present) and not (adopt and not _manager(present)):
            refusals.append(f"{secret.entry}: {_not_ours(secret, present, settings)}")
        else:
            changes.append(_update(secret, present, settings))
    return changes + _deletes(sync, existing, settings), refusals


def _manager(secret: Obj) -> str:
    """Returns the manager or owner of a Secret that is not ours, or ""."""
    meta = secret["metadata"]
    owner = next(iter(meta.get("ownerReferences") or ()), None)
    if owner is not None:
        return f"{owner['kind']} {owner['name']}"
    return str((meta.get("labels") or {}).get(MANAGED_BY_LABEL) or "")


def _not_ours(secret: Desired, present: Obj, settings: VaultSettings) -> str:
    manager = _manager(present)
    if not manager:
        return (
            f"Secret {secret.name} exists without the label {MANAGED_BY_LABEL}={MANAGED_BY}, left as it is;"
            " run again with --adopt to give it Vault's content and the label (--dry-run --adopt shows the"
            " difference), or delete it"
        )
    return (
        f"Secret {secret.name} exists and belongs to {manager}, left as it is; delete it, or hand it over:"
        f" kubectl label secret {secret.name} -n {settings.namespace}"
        f" {MANAGED_BY_LABEL}={MANAGED_BY} --overwrite"
    )


def _marks(secret: Desired, settings: VaultSettings) -> Obj:
    """Returns the labels and annotations that show the source of a Secret."""
    source = {ADDR_ANNOTATION: settings.addr, PATH_ANNOTATION: f"{settings.source_path}/{secret.entry}"}
    return {"labels": {ENTRY_LABEL: "true", MANAGED_BY_LABEL: MANAGED_BY}, "annotations": source}


def _encoded(secret: Desired) -> dict[str, str]:
    """Returns the values as a Secret's `data` contains them (base64)."""
    return {key: base64.b64encode(value).decode() for key, value in secret.values.items()}


def _create(secret: Desired, settings: VaultSettings) -> SecretChange:
    body = {
        "apiVersion": SECRET.api_version,
        "kind": SECRET.kind,
        "metadata": {"name": secret.name, "namespace": settings.namespace, **_marks(secret, settings)},
        "type": "Opaque",
        "data": _encoded(secret),
    }
    report = "\n".join([f"create  {secret.name}", *map(secret.key_line, secret.values)])
    return SecretChange(Effect.CREATED, secret.name, report, body, secret)


def _update(secret: Desired, present: Obj, settings: VaultSettings) -> SecretChange:
    """Returns a merge patch: other labels and annotations stay, keys that are no longer in Vault are removed.

    resourceVersion is a precondition, so that the patch applies to the Secret that was compared.
    """
    data = merge_patch(present.get("data") or {}, _encoded(secret))
    meta, marks = present["metadata"], _marks(secret, settings)
    marked = all(wanted.items() <= (meta.get(name) or {}).items() for name, wanted in marks.items())
    if not data and marked:
        return SecretChange(Effect.UNCHANGED, secret.name, f"same    {secret.name}", secret=secret)
    changed = [secret.key_line(key) for key in secret.values if key in data]
    removed = [f"          {key}: removed" for key, value in data.items() if value is None]
    report = "\n".join([f"update  {secret.name}", *changed, *removed])
    body = {"metadata": {"resourceVersion": str(meta["resourceVersion"]), **marks}, "data": data}
    return SecretChange(Effect.UPDATED, secret.name, report, body, secret)


def _deletes(sync: Sync, existing: Mapping[str, Obj], settings: VaultSettings) -> list[SecretChange]:
    """Returns the deletions of Secrets from this directory whose entry is not in Vault's list.

    An empty list deletes nothing, because a wrong path is far more likely than an emptied Vault.
    """
    if not sync.listed:
        return []
    deletes = []
    for name, secret in sorted(existing.items()):
        meta = secret["metadata"]
        notes: Mapping[str, str] = meta.get("annotations") or {}
        same_source = (
            notes.get(ADDR_ANNOTATION) == settings.addr
            and notes.get(PATH_ANNOTATION, "").rpartition("/")[0] == settings.source_path
        )
        entry_label = (meta.get("labels") or {}).get(ENTRY_LABEL)
        if name not in sync.listed and is_managed(secret) and entry_label == "true" and same_source:
            report = f"delete  {name} (its entry is no longer in Vault at {settings.source_path})"
            deletes.append(SecretChange(Effect.DELETED, name, report, uid=str(meta["uid"])))
    return deletes
