"""Execution of a sync: reads the Secrets, makes a plan, and applies its changes one by one."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from fournos.engine.kube import errors
from fournos.engine.kube.api import Api
from fournos.engine.kube.kinds import SECRET
from fournos.engine.kube.resource import Key, Obj
from fournos.systems.vault.settings import VaultSettings
from fournos.systems.vault.sync import (
    ENTRY_LABEL,
    MANAGED_BY,
    MANAGED_BY_LABEL,
    Effect,
    SecretChange,
    Sync,
    plan,
)

ATTEMPTS = 3
"""The maximum number of attempts for a Secret that other clients change at the same time."""

Report = Callable[[str], None]


async def synchronize(
    api: Api, sync: Sync, settings: VaultSettings, *, dry_run: bool, report: Report, adopt: bool = False
) -> None:
    """Makes the namespace's Secrets match `sync`; with `dry_run` only reads and reports.

    Raises KubeError if the Secrets cannot be read at all.  A Secret that cannot be written becomes a problem
    of `sync`, and then nothing is deleted.
    """
    changes, refusals = plan(sync, await _existing(api, sync, settings), settings, adopt=adopt)
    for refusal in refusals:
        sync.fail(refusal)

    async def apply(batch: Iterable[SecretChange]) -> None:
        for change in batch:
            report(change.report)
            try:
                done = change if dry_run else await _write(api, change, settings, adopt=adopt)
            except errors.KubeError as error:
                sync.fail(f"{change.name}: {_explain(error, settings)}")
            else:
                sync.counts[done.effect] += 1

    await apply(change for change in changes if change.effect is not Effect.DELETED)
    # Deletions come last, and only after a complete sync: a partial one does not show what should exist.
    deletes = [change for change in changes if change.effect is Effect.DELETED]
    if deletes and sync.partial:
        names = ", ".join(change.name for change in deletes)
        report(f"Not deleted, because something above failed: {names}")
    else:
        await apply(deletes)


async def _existing(api: Api, sync: Sync, settings: VaultSettings) -> dict[str, Obj]:
    selector = f"{MANAGED_BY_LABEL}={MANAGED_BY},{ENTRY_LABEL}=true"
    listing = await api.list(SECRET, namespace=settings.namespace, selector=selector)
    ours = {str(secret["metadata"]["name"]): secret for secret in listing.items}
    others = [secret.name for secret in sync.desired if secret.name not in ours]
    return ours | await _named(api, others, settings)


async def _named(api: Api, names: Iterable[str], settings: VaultSettings) -> dict[str, Obj]:
    """Returns those of the Secrets that exist."""
    secrets = {}
    for name in names:
        try:
            secrets[name] = await api.get(SECRET, Key(settings.namespace, name))
        except errors.NotFoundError:
            continue
    return secrets


async def _write(api: Api, change: SecretChange, settings: VaultSettings, *, adopt: bool) -> SecretChange:
    """Applies a change.  If the Secret has changed meanwhile, plans again for its current state."""
    for _ in range(ATTEMPTS - 1):
        try:
            await _send(api, change, settings)
            return change
        except (errors.ConflictError, errors.AlreadyExistsError, errors.NotFoundError) as error:
            # NotFound for a creation means that the namespace is missing: another attempt cannot succeed.
            hopeless = change.effect is Effect.CREATED and isinstance(error, errors.NotFoundError)
            if hopeless or change.secret is None:
                raise
        existing = await _named(api, (change.name,), settings)
        replanned, refusals = plan(Sync([change.secret]), existing, settings, adopt=adopt)
        if refusals:
            raise errors.AlreadyExistsError("somebody else made a Secret of this name meanwhile", status=409)
        (change,) = replanned
    await _send(api, change, settings)
    return change


async def _send(api: Api, change: SecretChange, settings: VaultSettings) -> None:
    key = Key(settings.namespace, change.name)
    match change.effect:
        case Effect.CREATED:
            await api.create(SECRET, change.body or {})
        case Effect.UPDATED:
            await api.patch(SECRET, key, change.body or {})
        case Effect.DELETED:
            try:
                await api.delete(SECRET, key, uid=change.uid)
            except errors.NotFoundError:
                return


def _explain(error: errors.KubeError, settings: VaultSettings) -> str:
    match error:
        case errors.NotFoundError():
            name = settings.namespace
            return f"namespace {name} does not exist: kubectl create namespace {name}"
        case errors.ForbiddenError():
            return (
                f"not allowed in namespace {settings.namespace}: the sync needs get, list, create, patch"
                " and delete on secrets there"
            )
        case errors.InvalidError():
            # The API server's message for a refused Secret may quote its content.
            return "the API server refused the Secret (is it marked immutable? then delete it first)"
        case _:
            return f"{type(error).__name__}: {error.message}"
