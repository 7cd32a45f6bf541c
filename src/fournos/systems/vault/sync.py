"""Plans a sync from the content of Vault and of the cluster.  Pure: it reads and writes nothing.

Vault is the source.  Only a Secret with our managed-by label is changed.
"""

from __future__ import annotations

import base64
import json
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeAlias

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
class Entry:
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


Read: TypeAlias = Entry | Unreadable


@dataclass(frozen=True, slots=True)
class Problem:
    """A problem of a sync.

    `partial` is True if something was not read or written, so the set of expected Secrets is not fully known.
    """

    text: str
    partial: bool = False


@dataclass(frozen=True, slots=True)
class Desired:
    """A Secret as Vault defines it; values by key."""

    name: str
    entry: str
    values: Mapping[str, bytes] = field(repr=False)


@dataclass(frozen=True, slots=True)
class Create:
    """Creates a Secret."""

    secret: Desired


@dataclass(frozen=True, slots=True)
class Update:
    """Updates a Secret in place.

    `resource_version` is the precondition that it is unchanged since the plan.
    """

    secret: Desired
    resource_version: str
    removed_keys: tuple[str, ...]
    changed_keys: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Unchanged:
    """Leaves a Secret as it is."""

    secret: Desired


@dataclass(frozen=True, slots=True)
class Delete:
    """Deletes a Secret; `uid` is a precondition."""

    name: str
    uid: str


Action: TypeAlias = Create | Update | Unchanged | Delete


@dataclass(frozen=True, slots=True)
class Intake:
    """The result of reading Vault, before the cluster is read."""

    desired: tuple[Desired, ...]
    listed: frozenset[str]
    """The names of all Secrets whose entry Vault lists, whether or not the entry could be used."""
    problems: tuple[Problem, ...]
    notes: tuple[str, ...]


def is_managed(secret: Obj) -> bool:
    """Returns True if the Secret has our managed-by label."""
    return (secret["metadata"].get("labels") or {}).get(MANAGED_BY_LABEL) == MANAGED_BY


def take_in(reads: Iterable[Read], settings: VaultSettings) -> Intake:
    """Classifies the entries that were read into desired Secrets, problems and notes."""
    desired: list[Desired] = []
    listed: set[str] = set()
    problems: list[Problem] = []
    notes: list[str] = []
    for read in reads:
        if read.name.endswith("/"):
            notes.append(f"{read.name}: a directory, not synced (only entries directly below the path are)")
            continue
        listed.add(settings.secret_name(read.name))
        if isinstance(read, Unreadable):
            if read.gone:
                notes.append(f"{read.name}: {read.reason}; its Secret, if any, is kept")
            else:
                problems.append(Problem(f"{read.name}: {read.reason}", partial=True))
            continue
        secret, found, found_notes = _desired(read, settings)
        problems += found
        notes += found_notes
        if secret:
            desired.append(secret)
    return Intake(tuple(desired), frozenset(listed), tuple(problems), tuple(notes))


def _desired(entry: Entry, settings: VaultSettings) -> tuple[Desired | None, list[Problem], list[str]]:
    if SKIP_KEY in entry.data:
        return None, [], [f"{entry.name}: skipped, it has the key {SKIP_KEY}"]
    name = settings.secret_name(entry.name)
    if len(name) > MAX_NAME or not _SUBDOMAIN.fullmatch(name) or not _SUBDOMAIN.fullmatch(entry.name):
        text = (
            f"{entry.name}: skipped, {name!r} cannot name a Secret; rename the entry in Vault (lower-case"
            f" letters, digits, '-' and '.', at most {MAX_NAME} characters with the prefix),"
            f" or give it the key {SKIP_KEY}"
        )
        return None, [Problem(text)], []
    values: dict[str, bytes] = {}
    problems: list[Problem] = []
    for key, value in entry.data.items():
        if key.startswith(FOREIGN_KEY_PREFIX):
            continue
        if len(key) > MAX_NAME or key.startswith("..") or key == "." or not _KEY.fullmatch(key):
            problems.append(
                Problem(
                    f"{entry.name}: key {key!r} skipped, it cannot be a key of a Secret; rename it in Vault"
                    " (letters, digits, '-', '_' and '.')"
                )
            )
            continue
        values[key] = _bytes(value)
    if not values:
        return None, problems, [f"{entry.name}: nothing to sync in it; its Secret, if any, is kept"]
    size = sum(len(value) for value in values.values())
    if size > MAX_BYTES:
        text = f"{entry.name}: skipped, {size} bytes are more than the {MAX_BYTES} that a Secret may hold"
        return None, [*problems, Problem(f"{text}; split the entry in Vault")], []
    return Desired(name, entry.name, values), problems, []


def _bytes(value: object) -> bytes:
    """Returns strings unchanged, and all other JSON values as JSON text."""
    text = value if isinstance(value, str) else json.dumps(value, separators=(",", ":"), ensure_ascii=False)
    return text.encode()


def plan(
    intake: Intake, existing: Mapping[str, Obj], settings: VaultSettings, *, adopt: bool = False
) -> tuple[tuple[Action, ...], tuple[Problem, ...]]:
    """Returns the changes that make the namespace match Vault, and the problems.

    `existing` contains, by name, every Secret with our labels and every other one of a desired name.  With
    `adopt`, a Secret of a desired name without a managing tool and without an owner is taken over.  Deletions
    come last; the caller omits them if an earlier action failed.
    """
    actions: list[Action] = []
    problems: list[Problem] = []
    for secret in intake.desired:
        present = existing.get(secret.name)
        if present is None:
            actions.append(Create(secret))
        elif not is_managed(present) and not (adopt and not _manager(present)):
            problems.append(Problem(f"{secret.entry}: {_not_ours(secret, present, settings)}", partial=True))
        else:
            actions.append(_update(secret, present, settings))
    actions += _deletes(intake, existing, settings)
    return tuple(actions), tuple(problems)


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


def _update(secret: Desired, present: Obj, settings: VaultSettings) -> Update | Unchanged:
    encoded = encode(secret.values)
    held: Mapping[str, str] = present.get("data") or {}
    changed = tuple(key for key, value in encoded.items() if held.get(key) != value)
    removed = tuple(key for key in held if key not in encoded)
    meta = present["metadata"]
    marked = _holds(meta.get("labels"), labels()) and _holds(
        meta.get("annotations"), source_annotations(secret.entry, settings)
    )
    if not changed and not removed and marked:
        return Unchanged(secret)
    return Update(secret, str(meta["resourceVersion"]), removed, changed)


def _deletes(intake: Intake, existing: Mapping[str, Obj], settings: VaultSettings) -> Sequence[Delete]:
    """Returns the deletions of Secrets from this directory whose entry is not in Vault's list.

    An empty list deletes nothing, because a wrong path is far more likely than an emptied Vault.
    """
    if not intake.listed:
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
        if name not in intake.listed and is_managed(secret) and entry_label == "true" and same_source:
            deletes.append(Delete(name, str(meta["uid"])))
    return deletes


def labels() -> dict[str, str]:
    return {ENTRY_LABEL: "true", MANAGED_BY_LABEL: MANAGED_BY}


def source_annotations(entry: str, settings: VaultSettings) -> dict[str, str]:
    return {ADDR_ANNOTATION: settings.addr, PATH_ANNOTATION: f"{settings.source_path}/{entry}"}


def encode(values: Mapping[str, bytes]) -> dict[str, str]:
    """Returns the values as a Secret's `data` contains them (base64)."""
    return {key: base64.b64encode(value).decode() for key, value in values.items()}


def _holds(present: Mapping[str, str] | None, wanted: Mapping[str, str]) -> bool:
    return wanted.items() <= (present or {}).items()
