"""Execution of a sync: reads the Secrets, makes a plan, and applies its actions one by one."""

from __future__ import annotations

from collections.abc import Callable
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
    Action,
    Create,
    Delete,
    Desired,
    Intake,
    Problem,
    Unchanged,
    Update,
    encode,
    labels,
    plan,
    source_annotations,
)

ATTEMPTS = 3
"""The maximum number of attempts for a Secret that other clients change at the same time."""

Report = Callable[[str], None]


@dataclass(slots=True)
class Outcome:
    """The counts and problems of one sync."""

    created: int = 0
    updated: int = 0
    unchanged: int = 0
    deleted: int = 0
    problems: list[Problem] = field(default_factory=list)
    previewed: int | None = None
    """The number of Secrets that Vault defines, if no cluster was read; else None."""

    def summary(self, *, dry_run: bool) -> str:
        if self.previewed is not None:
            return f"Dry run without a cluster: {self.previewed} in Vault, {len(self.problems)} errors."
        parts = (
            f"{self.created} created, {self.updated} updated, {self.unchanged} unchanged,"
            f" {self.deleted} deleted, {len(self.problems)} errors."
        )
        return f"Dry run, nothing was changed. It would be: {parts}" if dry_run else parts


async def synchronize(
    api: Api, intake: Intake, settings: VaultSettings, *, dry_run: bool, report: Report, adopt: bool = False
) -> Outcome:
    """Makes the namespace's Secrets match `intake`; with `dry_run` only reads and reports.

    Raises KubeError if the Secrets cannot be read at all.  A Secret that cannot be written becomes a problem
    of the outcome, and then nothing is deleted.
    """
    outcome = Outcome(problems=list(intake.problems))
    existing = await _existing(api, intake, settings)
    actions, problems = plan(intake, existing, settings, adopt=adopt)
    outcome.problems += problems
    for action in actions:
        if isinstance(action, Delete):
            continue
        report(_summary(action, settings))
        try:
            done = action if dry_run else await _write(api, action, settings, adopt=adopt)
        except errors.KubeError as error:
            name = action.secret.name
            outcome.problems.append(Problem(f"{name}: {_explain(error, settings)}", partial=True))
            continue
        _count(outcome, done)
    # Deletions come last, and only after a complete sync: a partial one does not show what should exist.
    deletes = [action for action in actions if isinstance(action, Delete)]
    if deletes and any(problem.partial for problem in outcome.problems):
        names = ", ".join(action.name for action in deletes)
        report(f"Not deleted, because something above failed: {names}")
        return outcome
    for action in deletes:
        report(_summary(action, settings))
        try:
            if not dry_run:
                await _delete(api, action, settings)
        except errors.KubeError as error:
            outcome.problems.append(Problem(f"{action.name}: {_explain(error, settings)}", partial=True))
            continue
        outcome.deleted += 1
    return outcome


def preview(intake: Intake, *, report: Report) -> Outcome:
    """Reports the content of Vault for a dry run without a cluster, without a comparison."""
    for secret in intake.desired:
        report("\n".join([f"secret  {secret.name}", *(_key(secret, key) for key in secret.values)]))
    return Outcome(problems=list(intake.problems), previewed=len(intake.desired))


async def _existing(api: Api, intake: Intake, settings: VaultSettings) -> dict[str, Obj]:
    selector = f"{MANAGED_BY_LABEL}={MANAGED_BY},{ENTRY_LABEL}=true"
    listing = await api.list(SECRET, namespace=settings.namespace, selector=selector)
    found = {str(secret["metadata"]["name"]): secret for secret in listing.items}
    for desired in intake.desired:
        if desired.name not in found:
            try:
                found[desired.name] = await api.get(SECRET, Key(settings.namespace, desired.name))
            except errors.NotFoundError:
                continue
    return found


async def _write(
    api: Api, action: Create | Update | Unchanged, settings: VaultSettings, *, adopt: bool
) -> Action:
    """Applies an action.  If the Secret has changed meanwhile, plans again for its current state."""
    for last in (False,) * (ATTEMPTS - 1) + (True,):
        secret = action.secret
        try:
            if isinstance(action, Create):
                await api.create(SECRET, _object(secret, settings))
            elif isinstance(action, Update):
                await api.patch(SECRET, Key(settings.namespace, secret.name), _patch(action, settings))
            return action
        except (errors.ConflictError, errors.AlreadyExistsError, errors.NotFoundError) as error:
            # NotFound for a Create means that the namespace is missing: another attempt cannot succeed.
            if last or (isinstance(action, Create) and isinstance(error, errors.NotFoundError)):
                raise
        action = await _again(api, secret, settings, adopt=adopt)
    raise AssertionError("the last attempt returns or raises")


async def _again(
    api: Api, secret: Desired, settings: VaultSettings, *, adopt: bool
) -> Create | Update | Unchanged:
    intake = Intake((secret,), frozenset({secret.name}), (), ())
    try:
        present = {secret.name: await api.get(SECRET, Key(settings.namespace, secret.name))}
    except errors.NotFoundError:
        present = {}
    actions, problems = plan(intake, present, settings, adopt=adopt)
    if problems:
        raise errors.AlreadyExistsError("somebody else made a Secret of this name meanwhile", status=409)
    (action,) = actions
    assert not isinstance(action, Delete)
    return action


async def _delete(api: Api, action: Delete, settings: VaultSettings) -> None:
    try:
        await api.delete(SECRET, Key(settings.namespace, action.name), uid=action.uid)
    except errors.NotFoundError:
        return


def _object(secret: Desired, settings: VaultSettings) -> Obj:
    return {
        "apiVersion": SECRET.api_version,
        "kind": SECRET.kind,
        "metadata": {
            "name": secret.name,
            "namespace": settings.namespace,
            "labels": labels(),
            "annotations": source_annotations(secret.entry, settings),
        },
        "type": "Opaque",
        "data": encode(secret.values),
    }


def _patch(action: Update, settings: VaultSettings) -> Obj:
    """Returns a merge patch: other labels and annotations stay, keys that are no longer in Vault are removed.

    resourceVersion is a precondition, so that the patch applies to the Secret that was compared.
    """
    return {
        "metadata": {
            "resourceVersion": action.resource_version,
            "labels": labels(),
            "annotations": source_annotations(action.secret.entry, settings),
        },
        "data": {**encode(action.secret.values), **dict.fromkeys(action.removed_keys)},
    }


def _count(outcome: Outcome, done: Action) -> None:
    match done:
        case Create():
            outcome.created += 1
        case Update():
            outcome.updated += 1
        case Unchanged():
            outcome.unchanged += 1


def _summary(action: Action, settings: VaultSettings) -> str:
    """Returns the report of an action: key names and lengths, never a value."""
    match action:
        case Create(secret):
            return "\n".join([f"create  {secret.name}", *(_key(secret, key) for key in secret.values)])
        case Update(secret, _, removed, changed):
            lines = [f"update  {secret.name}", *(_key(secret, key) for key in changed)]
            lines += [f"          {key}: removed" for key in removed]
            return "\n".join(lines)
        case Unchanged(secret):
            return f"same    {secret.name}"
        case Delete(name):
            return f"delete  {name} (its entry is no longer in Vault at {settings.source_path})"


def _key(secret: Desired, key: str) -> str:
    # Characters, not bytes, because a person would count characters.
    return f"          {key}: <{len(secret.values[key].decode())} chars>"


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
