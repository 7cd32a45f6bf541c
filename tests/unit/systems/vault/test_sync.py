"""Which changes a sync decides on: tables over pure functions."""

from __future__ import annotations

import base64
from typing import Any

import pytest

from fournos.systems.jobs.rules import check_manifest
from fournos.systems.vault.settings import VaultSettings
from fournos.systems.vault.sync import (
    Desired,
    Effect,
    Unreadable,
    VaultEntry,
    plan,
    take_in,
)
from tests.rule_cases import job, shared

SETTINGS = VaultSettings.of(addr="https://vault.test", token="t", secret_path="team/secrets")


def secret(name: str, data: dict[str, str], **changes: Any) -> dict[str, Any]:
    entry = name.removeprefix("vault-")
    return {
        "metadata": {
            "name": name,
            "uid": f"uid-{name}",
            "resourceVersion": "7",
            "labels": changes.get(
                "labels",
                {
                    "fournos.dev/vault-entry": "true",
                    "app.kubernetes.io/managed-by": "fournos-vault-sync",
                },
            ),
            "annotations": {
                "fournos.dev/vault-addr": changes.get("addr", "https://vault.test"),
                "fournos.dev/vault-path": changes.get("path", f"kv/team/secrets/{entry}"),
            },
        },
        "data": {key: base64.b64encode(value.encode()).decode() for key, value in data.items()},
    }


def by_name(*secrets: dict[str, Any]) -> dict[str, Any]:
    return {item["metadata"]["name"]: item for item in secrets}


def test_an_entry_becomes_a_secret_without_foreign_bookkeeping() -> None:
    sync = take_in([VaultEntry("my-creds", {"username": "u", "secretsync/target": "x"})], SETTINGS)
    assert sync.problems == []
    assert sync.desired == [Desired("vault-my-creds", "my-creds", {"username": b"u"})]


@pytest.mark.parametrize(
    ("value", "stored"),
    [
        ("plain", b"plain"),
        ("ünï", "ünï".encode()),
        (5, b"5"),
        (True, b"true"),
        ({"a": [1]}, b'{"a":[1]}'),
    ],
)
def test_values_that_are_not_text_are_stored_as_json(value: object, stored: bytes) -> None:
    sync = take_in([VaultEntry("e", {"k": value})], SETTINGS)
    assert sync.desired[0].values == {"k": stored}


@pytest.mark.parametrize("name", ["Upper", "under_score", "-dash", "dash-", "a..b", "a b", "x" * 248])
def test_an_entry_that_cannot_name_a_secret_is_skipped_with_an_error(name: str) -> None:
    sync = take_in([VaultEntry(name, {"k": "v"})], SETTINGS)
    assert sync.desired == []
    assert (len(sync.problems), sync.partial) == (1, False)
    assert name in sync.problems[0]
    assert "rename the entry" in sync.problems[0]


@pytest.mark.parametrize("name", ["a", "my-creds", "a.b-c.d", "9", "x" * 247])
def test_dns_1123_subdomains_are_taken(name: str) -> None:
    sync = take_in([VaultEntry(name, {"k": "v"})], SETTINGS)
    assert [item.entry for item in sync.desired] == [name]


@pytest.mark.parametrize("name", ["a.b", "x" * 247])
def test_a_job_can_refer_to_every_entry_that_is_synced(name: str) -> None:
    assert take_in([VaultEntry(name, {"k": "v"})], SETTINGS).notes == []
    assert check_manifest(job(shared(secretRefs=[name]))) == []


@pytest.mark.parametrize("key", ["with space", "slash/y", "..", "..x", ".", "ü", "k" * 254])
def test_a_key_that_a_secret_cannot_hold_is_skipped_with_an_error(key: str) -> None:
    sync = take_in([VaultEntry("e", {key: "v", "good.key-1_": "w"})], SETTINGS)
    assert sync.desired[0].values == {"good.key-1_": b"w"}
    assert len(sync.problems) == 1


def test_skip_marker_leaves_the_entry_alone_whatever_its_name() -> None:
    sync = take_in([VaultEntry("Bad_Name", {"fournos_skip_sync": "", "k": "v"})], SETTINGS)
    assert sync.desired == []
    assert sync.problems == []
    assert "fournos_skip_sync" in sync.notes[0]


def test_an_entry_with_nothing_to_sync_keeps_its_secret() -> None:
    sync = take_in([VaultEntry("e", {"secretsync/x": "y"})], SETTINGS)
    existing = by_name(secret("vault-e", {"k": "v"}))
    assert plan(sync, existing, SETTINGS) == ([], [])
    assert sync.problems == []


def test_too_much_for_a_secret_is_refused() -> None:
    sync = take_in([VaultEntry("e", {"k": "x" * (1024 * 1024 + 1)})], SETTINGS)
    assert sync.desired == []
    assert "split the entry" in sync.problems[0]


def test_equal_secrets_are_left_alone() -> None:
    sync = take_in([VaultEntry("e", {"k": "v"})], SETTINGS)
    actions, problems = plan(sync, by_name(secret("vault-e", {"k": "v"})), SETTINGS)
    assert [action.effect for action in actions] == [Effect.UNCHANGED]
    assert problems == []


def test_an_update_is_conditional_and_removes_keys_that_left_vault() -> None:
    sync = take_in([VaultEntry("e", {"k": "new", "same": "s"})], SETTINGS)
    existing = by_name(secret("vault-e", {"k": "old", "same": "s", "gone": "g"}))
    (action,), _ = plan(sync, existing, SETTINGS)
    assert action.effect is Effect.UPDATED
    assert action.body is not None
    assert action.body["metadata"]["resourceVersion"] == "7"
    assert action.body["data"] == {"k": base64.b64encode(b"new").decode(), "gone": None}


def test_a_changed_source_alone_is_an_update() -> None:
    sync = take_in([VaultEntry("e", {"k": "v"})], SETTINGS)
    (action,), _ = plan(sync, by_name(secret("vault-e", {"k": "v"}, addr="https://old.test")), SETTINGS)
    assert action.effect is Effect.UPDATED


UNLABELLED = ({}, {"fournos.dev/vault-entry": "true"}, {"team": "perf"})


@pytest.mark.parametrize("labels", UNLABELLED)
def test_a_secret_without_the_label_is_explained_and_taken_over_on_demand(labels: dict[str, str]) -> None:
    sync = take_in([VaultEntry("e", {"k": "v"})], SETTINGS)
    existing = by_name(secret("vault-e", {"k": "theirs", "more": "x"}, labels=labels))
    actions, (problem,) = plan(sync, existing, SETTINGS)
    assert actions == []
    assert "without the label app.kubernetes.io/managed-by=fournos-vault-sync" in problem
    assert "--adopt" in problem
    (action,), problems = plan(sync, existing, SETTINGS, adopt=True)
    assert problems == []
    assert action.effect is Effect.UPDATED
    assert action.body is not None
    assert action.body["data"] == {"k": base64.b64encode(b"v").decode(), "more": None}


MANAGED = {
    "by another tool": ({"labels": {"app.kubernetes.io/managed-by": "fournos-mock"}}, "fournos-mock"),
    "by its owner": ({"labels": {}, "owner": {"kind": "FournosJob", "name": "j"}}, "FournosJob j"),
}


@pytest.mark.parametrize("adopt", [True, False])
@pytest.mark.parametrize("how", MANAGED)
def test_a_foreign_secret_is_refused_not_taken_over(how: str, adopt: bool) -> None:
    changes, whose = MANAGED[how]
    present = secret("vault-e", {"k": "theirs"}, labels=changes["labels"])
    present["metadata"]["ownerReferences"] = [changes["owner"]] if "owner" in changes else []
    sync = take_in([VaultEntry("e", {"k": "v"})], SETTINGS)
    actions, (problem,) = plan(sync, by_name(present), SETTINGS, adopt=adopt)
    assert actions == []
    assert f"belongs to {whose}" in problem
    assert "kubectl label secret vault-e -n psap-secrets" in problem


def test_only_names_positively_absent_from_the_list_are_deleted() -> None:
    """A read error, an emptied entry, a bad name, a deleted version: none of them is absence."""
    sync = take_in(
        [
            Unreadable("unread", "timed out"),
            Unreadable("deleted-version", "deleted", gone=True),
            VaultEntry("empty", {}),
            VaultEntry("skipped", {"fournos_skip_sync": "1"}),
            VaultEntry("kept", {"k": "v"}),
        ],
        SETTINGS,
    )
    names = ["unread", "deleted-version", "empty", "skipped", "kept", "absent"]
    existing = by_name(*(secret(f"vault-{name}", {"k": "v"}) for name in names))
    actions, _ = plan(sync, existing, SETTINGS)
    deletions = [action for action in actions if action.effect is Effect.DELETED]
    assert [(action.name, action.uid) for action in deletions] == [("vault-absent", "uid-vault-absent")]
    assert (len(sync.problems), sync.partial) == (1, True)


@pytest.mark.parametrize(
    "foreign",
    [
        {"path": "kv/other/team/absent"},
        {"path": "kv/team/secrets/deeper/absent"},
        {"addr": "https://other.test"},
        {"labels": {"app.kubernetes.io/managed-by": "fournos-vault-sync"}},
        {"labels": {"fournos.dev/vault-entry": "true"}},
    ],
)
def test_secrets_of_another_source_or_owner_are_never_deleted(foreign: dict[str, Any]) -> None:
    sync = take_in([VaultEntry("kept", {"k": "v"})], SETTINGS)
    existing = by_name(secret("vault-absent", {"k": "v"}, **foreign))
    actions, _ = plan(sync, existing, SETTINGS)
    assert [action.effect for action in actions] == [Effect.CREATED]


def test_an_empty_list_deletes_nothing() -> None:
    assert plan(take_in([], SETTINGS), by_name(secret("vault-a", {"k": "v"})), SETTINGS) == ([], [])


def test_directories_are_noted_and_left() -> None:
    sync = take_in([Unreadable("sub/", "a directory")], SETTINGS)
    assert (sync.desired, sync.problems) == ([], [])
    assert "directory" in sync.notes[0]


def test_nothing_that_is_printed_of_an_entry_shows_values() -> None:
    sync = take_in([VaultEntry("e", {"k": "hush-hush"})], SETTINGS)
    actions, _ = plan(sync, {}, SETTINGS)
    assert "hush" not in f"{VaultEntry('e', {'k': 'hush-hush'})} {sync} {actions}"
