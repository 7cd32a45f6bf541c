"""Reading Vault over HTTP, from the stand-in of tests/fakes/vault.py."""

from __future__ import annotations

import socket
from typing import Any

import pytest

from fournos.vault.client import Vault, VaultError
from fournos.vault.settings import VaultSettings
from fournos.vault.sync import Entry, Unreadable
from tests.fakes.vault import TOKEN, FakeVault

PATH = "team/secrets"


def settings(vault: FakeVault, **changes: Any) -> VaultSettings:
    given = {"addr": vault.url, "token": TOKEN, "secret_path": PATH, "kv_mount": vault.mount, **changes}
    return VaultSettings(**given)


def read(vault: FakeVault, **changes: Any) -> dict[str, Entry | Unreadable]:
    with Vault(settings(vault, **changes), backoff_factor=0) as client:
        return {item.name: item for item in client.read_all()}


@pytest.mark.parametrize("version", ["1", "2"])
def test_both_kv_versions_are_found_out_and_read(version: str) -> None:
    entries = {f"{PATH}/a": {"k": "1"}, f"{PATH}/b": {"k": "2"}, f"{PATH}/sub/c": {}, "other/d": {}}
    with FakeVault(entries, version=version) as vault:
        found = read(vault)
    assert found == {
        "a": Entry("a", {"k": "1"}),
        "b": Entry("b", {"k": "2"}),
        "sub/": Unreadable("sub/", "a directory"),
    }


@pytest.mark.parametrize(("version", "stated"), [("2", "auto"), ("1", "1"), ("2", "2")])
def test_a_token_that_may_not_ask_for_the_version_still_reads(version: str, stated: str) -> None:
    with FakeVault({f"{PATH}/a": {"k": "1"}}, version=version, knows_mounts=False) as vault:
        assert read(vault, kv_version=stated)["a"] == Entry("a", {"k": "1"})


def test_odd_names_reach_vault_as_they_are() -> None:
    with FakeVault({f"{PATH}/with space#?": {"k": "1"}}) as vault:
        assert read(vault)["with space#?"] == Entry("with space#?", {"k": "1"})


def test_a_deleted_version_is_told_apart_from_a_failure() -> None:
    with FakeVault({f"{PATH}/a": None}) as vault:
        found = read(vault)["a"]
    assert isinstance(found, Unreadable)
    assert found.gone


@pytest.mark.parametrize("status", [412, 429, 500, 502, 503])
def test_passing_failures_are_tried_again(status: int) -> None:
    entries = {f"{PATH}/a": {"k": "1"}}
    with FakeVault(entries, failures={"/data/": [status] * 3, "/metadata/": [status]}) as vault:
        assert read(vault)["a"] == Entry("a", {"k": "1"})


def test_one_unreadable_entry_does_not_hide_the_others() -> None:
    entries = {f"{PATH}/a": {"k": "1"}, f"{PATH}/b": {"k": "2"}}
    with FakeVault(entries, failures={"secrets/a": [403]}) as vault:
        found = read(vault)
    assert isinstance(found["a"], Unreadable)
    assert "policy lacks" in found["a"].reason
    assert found["b"] == Entry("b", {"k": "2"})


def test_a_refused_token_is_explained_and_not_shown() -> None:
    with FakeVault({f"{PATH}/a": {}}) as vault, pytest.raises(VaultError, match="VAULT_TOKEN") as caught:
        read(vault, token="s.wrong-one")
    assert "s.wrong-one" not in str(caught.value)
    assert len(vault.requests) == len(set(vault.requests)), "a refused token is not tried again"


def test_nothing_at_the_path_is_an_error_that_names_the_settings() -> None:
    with FakeVault({"elsewhere/a": {}}) as vault, pytest.raises(VaultError, match="VAULT_SECRET_PATH"):
        read(vault)


def test_a_version_1_engine_taken_for_version_2_gets_the_hint() -> None:
    with (
        FakeVault({f"{PATH}/a": {}}, version="1", knows_mounts=False) as vault,
        pytest.raises(VaultError, match="VAULT_KV_VERSION=1"),
    ):
        read(vault)


def test_a_sealed_vault_is_named_so() -> None:
    with (
        FakeVault({f"{PATH}/a": {}}, failures={"metadata": [503] * 4}) as vault,
        pytest.raises(VaultError, match="sealed"),
    ):
        read(vault)


def test_a_silent_vault_ends_within_its_limit() -> None:
    with (
        FakeVault({f"{PATH}/a": {}}, silent={"metadata"}) as vault,
        pytest.raises(VaultError, match=r"did not answer within 0\.05 s, 4 times|cannot be reached"),
    ):
        read(vault, timeout_sec=0.05)


def test_an_unreachable_address_is_named() -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
    unreachable = VaultSettings(addr=f"http://127.0.0.1:{port}", token=TOKEN, secret_path=PATH)
    with (
        Vault(unreachable, backoff_factor=0) as client,
        pytest.raises(VaultError, match=f"127.0.0.1:{port}.*VAULT_ADDR"),
    ):
        list(client.read_all())
