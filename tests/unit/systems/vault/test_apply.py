"""A sync that is carried out: conflicts, partial failures, and its report."""

from __future__ import annotations

import base64

import pytest

from fournos.engine.kube import errors
from fournos.systems.vault.apply import synchronize
from fournos.systems.vault.command import summary
from fournos.systems.vault.settings import VaultSettings
from fournos.systems.vault.sync import Effect, Read, Sync, Unreadable, VaultEntry, take_in
from tests.unit.systems.vault.secrets import Secrets
from tests.unit.systems.vault.test_sync import secret

SETTINGS = VaultSettings.of(addr="https://vault.test", token="t", secret_path="team/secrets")


async def sync(secrets: Secrets, *reads: Read, dry_run: bool = False) -> tuple[Sync, str]:
    messages: list[str] = []
    outcome = take_in(reads, SETTINGS)
    await synchronize(secrets, outcome, SETTINGS, dry_run=dry_run, report=messages.append)  # type: ignore[arg-type]
    return outcome, "\n".join(messages)


def value(secrets: Secrets, name: str, key: str) -> str:
    return base64.b64decode(secrets.stored[name]["data"][key]).decode()


async def test_create_update_and_delete() -> None:
    old = secret("vault-old", {"k": "before", "gone": "x"})
    old["metadata"]["labels"]["team"] = "perf"
    old["metadata"]["annotations"]["note"] = "kept"
    secrets = Secrets(old, secret("vault-absent", {"k": "v"}), secret("vault-same", {"k": "v"}))
    outcome, _ = await sync(
        secrets,
        VaultEntry("new", {"k": "v"}),
        VaultEntry("old", {"k": "after"}),
        VaultEntry("same", {"k": "v"}),
    )
    assert (
        outcome.counts[Effect.CREATED],
        outcome.counts[Effect.UPDATED],
        outcome.counts[Effect.UNCHANGED],
        outcome.counts[Effect.DELETED],
    ) == (1, 1, 1, 1)
    assert not outcome.problems
    assert sorted(secrets.stored) == ["vault-new", "vault-old", "vault-same"]
    assert secrets.stored["vault-old"]["data"].keys() == {"k"}
    assert value(secrets, "vault-old", "k") == "after"
    assert secrets.stored["vault-old"]["metadata"]["labels"]["team"] == "perf"
    assert secrets.stored["vault-old"]["metadata"]["annotations"]["note"] == "kept"
    assert secrets.stored["vault-new"]["metadata"]["labels"] == {
        "fournos.dev/vault-entry": "true",
        "app.kubernetes.io/managed-by": "fournos-vault-sync",
    }
    assert secrets.stored["vault-new"]["metadata"]["annotations"] == {
        "fournos.dev/vault-addr": "https://vault.test",
        "fournos.dev/vault-path": "kv/team/secrets/new",
    }


async def test_a_second_sync_writes_nothing() -> None:
    secrets = Secrets()
    await sync(secrets, VaultEntry("a", {"k": "v"}))
    secrets.writes.clear()
    outcome, _ = await sync(secrets, VaultEntry("a", {"k": "v"}))
    assert (secrets.writes, outcome.counts[Effect.UNCHANGED]) == ([], 1)


async def test_a_dry_run_writes_nothing_and_shows_lengths_only() -> None:
    secrets = Secrets(secret("vault-old", {"k": "before"}), secret("vault-absent", {"k": "v"}))
    outcome, message = await sync(
        secrets, VaultEntry("new", {"password": "hush-hush"}), VaultEntry("old", {"k": "ünï"}), dry_run=True
    )
    assert secrets.writes == []
    assert "password: <9 chars>" in message
    assert "k: <3 chars>" in message
    assert "delete  vault-absent" in message
    assert "hush" not in message and "ünï" not in message and "before" not in message
    assert summary(outcome, dry_run=True).startswith("Dry run, nothing was changed")


@pytest.mark.parametrize(
    "failure",
    [
        errors.ServerError("down", status=503),
        errors.ForbiddenError("no", status=403),
        errors.InvalidError("refused: data: hush-hush", status=422),
        errors.ConnectionLostError("cut"),
    ],
)
async def test_a_failed_write_deletes_nothing_and_lets_the_others_through(failure: Exception) -> None:
    secrets = Secrets(secret("vault-absent", {"k": "v"}))

    def fail(verb: str, name: str) -> None:
        if name == "vault-bad":
            raise failure

    secrets.before_write = fail
    outcome, message = await sync(
        secrets, VaultEntry("bad", {"k": "hush-hush"}), VaultEntry("good", {"k": "v"})
    )
    assert sorted(secrets.stored) == ["vault-absent", "vault-good"]
    assert (outcome.counts[Effect.CREATED], outcome.counts[Effect.DELETED], len(outcome.problems)) == (
        1,
        0,
        1,
    )
    assert "Not deleted" in message and "vault-absent" in message
    assert "hush" not in message + outcome.problems[0]


async def test_an_unreadable_entry_deletes_nothing() -> None:
    secrets = Secrets(secret("vault-absent", {"k": "v"}), secret("vault-bad", {"k": "v"}))
    outcome, _ = await sync(secrets, Unreadable("bad", "timed out"), VaultEntry("good", {"k": "v"}))
    assert sorted(secrets.stored) == ["vault-absent", "vault-bad", "vault-good"]
    assert outcome.problems


async def test_a_concurrent_change_is_read_again_and_kept() -> None:
    secrets = Secrets(secret("vault-a", {"k": "old"}))
    calls: list[str] = []

    def interfere(verb: str, name: str) -> None:
        calls.append(verb)
        if len(calls) == 1:
            secrets.touch(name)

    secrets.before_write = interfere
    outcome, _ = await sync(secrets, VaultEntry("a", {"k": "new"}))
    assert (calls, outcome.counts[Effect.UPDATED], value(secrets, "vault-a", "k")) == (
        ["patch", "patch"],
        1,
        "new",
    )


async def test_a_secret_that_is_created_meanwhile_is_not_taken_over() -> None:
    secrets = Secrets()

    def interfere(verb: str, name: str) -> None:
        if verb == "create":
            secrets.stored[name] = secret(name, {"k": "theirs"}, labels={})

    secrets.before_write = interfere
    outcome, _ = await sync(secrets, VaultEntry("a", {"k": "ours"}))
    assert value(secrets, "vault-a", "k") == "theirs"
    assert (outcome.counts[Effect.CREATED], len(outcome.problems)) == (0, 1)


async def test_endless_conflicts_end_in_an_error() -> None:
    secrets = Secrets(secret("vault-a", {"k": "old"}))
    secrets.before_write = lambda verb, name: secrets.touch(name)
    outcome, _ = await sync(secrets, VaultEntry("a", {"k": "new"}))
    assert (outcome.counts[Effect.UPDATED], len(outcome.problems)) == (0, 1)
    assert len(secrets.writes) == 3


async def test_a_secret_made_anew_meanwhile_is_not_deleted() -> None:
    secrets = Secrets(secret("vault-absent", {"k": "v"}))

    def interfere(verb: str, name: str) -> None:
        if verb == "delete":
            secrets.stored[name]["metadata"]["uid"] = "another"

    secrets.before_write = interfere
    outcome, _ = await sync(secrets, VaultEntry("a", {"k": "v"}))
    assert "vault-absent" in secrets.stored
    assert (outcome.counts[Effect.DELETED], len(outcome.problems)) == (0, 1)


async def test_a_missing_namespace_is_named_with_the_fix() -> None:
    secrets = Secrets()

    def fail(verb: str, name: str) -> None:
        raise errors.NotFoundError('namespaces "psap-secrets" not found', status=404)

    secrets.before_write = fail
    outcome, _ = await sync(secrets, VaultEntry("a", {"k": "v"}))
    assert "kubectl create namespace psap-secrets" in outcome.problems[0]


async def test_a_secret_of_another_tool_deletes_nothing() -> None:
    foreign = secret("vault-a", {"k": "theirs"}, labels={"app.kubernetes.io/managed-by": "fournos-mock"})
    secrets = Secrets(foreign, secret("vault-absent", {"k": "v"}))
    outcome, message = await sync(secrets, VaultEntry("a", {"k": "ours"}))
    assert (secrets.writes, outcome.partial, len(outcome.problems)) == ([], True, 1)
    assert "Not deleted" in message and "vault-absent" in message
