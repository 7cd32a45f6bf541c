"""Execution of a sync: reads the Secrets, makes a plan, and applies its changes one by one."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field

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
    Intake,
    SecretChange,
    SyncProblem,
    plan,
)

ATTEMPTS = 3
"""The maximum number of attempts for a Secret that other clients change at the same time."""

Report = Callable[[str], None]


@dataclass(slots=True)
class SyncResult:
    """The counts and problems of one sync."""

    problems: list[SyncProblem]
    counts: Counter[Effect] = field(default_factory=Counter)
    previewed: int | None = None
    """The number of Secrets that Vault defines, if no cluster was read; else None."""

    def summary(self, *, dry_run: bool) -> str:
        if self.previewed is not None:
            return f"Dry run without a cluster: {self.previewed} in Vault, {len(self.problems)} errors."
        counts = ", ".join(f"{self.counts[effect]} {effect}" for effect in Effect)
        parts = f"{counts}, {len(self.problems)} errors."
        return f"Dry run, nothing was changed. It would be: {parts}" if dry_run else parts


async def synchronize(
    api: Api, intake: Intake, settings: VaultSettings, *, dry_run: bool, report: Report, adopt: bool = False
) -> SyncResult:
    """Makes the namespace's Secrets match `intake`; with `dry_run` only reads and reports.

    Raises KubeError if the Secrets cannot be read at all.  A Secret that cannot be written becomes a problem
    of the result, and then nothing is deleted.
    """
    changes, problems = plan(intake, await _existing(api, intake, settings), settings, adopt=adopt)
    result = SyncResult([*intake.problems, *problems])

    async def apply(batch: Iterable[SecretChange]) -> None:
        for change in batch:
            report(change.report)
            try:
                done = change if dry_run else await _write(api, change, settings, adopt=adopt)
            except errors.KubeError as error:
                result.problems.append(
                    SyncProblem(f"{change.name}: {_explain(error, settings)}", partial=True)
                )
            else:
                result.counts[done.effect] += 1

    await apply(change for change in changes if change.effect is not Effect.DELETED)
    # Deletions come last, and only after a complete sync: a partial one does not show what should exist.
    deletes = [change for change in changes if change.effect is Effect.DELETED]
    if deletes and any(problem.partial for problem in result.problems):
        names = ", ".join(change.name for change in deletes)
        report(f"Not deleted, because something above failed: {names}")
    else:
        await apply(deletes)
    return result


def preview(intake: Intake, *, report: Report) -> SyncResult:
    """Reports the content of Vault for a dry run without a cluster, without a comparison."""
    for secret in intake.desired:
        report("\n".join([f"secret  {secret.name}", *map(secret.key_line, secret.values)]))
    return SyncResult(list(intake.problems), previewed=len(intake.desired))


async def _existing(api: Api, intake: Intake, settings: VaultSettings) -> dict[str, Obj]:
    selector = f"{MANAGED_BY_LABEL}={MANAGED_BY},{ENTRY_LABEL}=true"
    listing = await api.list(SECRET, namespace=settings.namespace, selector=selector)
    ours = {str(secret["metadata"]["name"]): secret for secret in listing.items}
    others = [secret.name for secret in intake.desired if secret.name not in ours]
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
        replanned, problems = plan(Intake([change.secret]), existing, settings, adopt=adopt)
        if problems:
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
