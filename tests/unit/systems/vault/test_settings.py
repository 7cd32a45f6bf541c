"""Each variable of the Vault sync is seen by Vault, or in the Secrets that are made."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from fournos.engine.kube.resource import Key, key_of
from fournos.systems.vault.apply import synchronize
from fournos.systems.vault.client import Vault, VaultError
from fournos.systems.vault.settings import VaultSettings
from fournos.systems.vault.sync import Read, VaultEntry, take_in
from tests.fakes.pki import Authority, server_context
from tests.fakes.vault import FakeVault
from tests.unit.systems.vault.secrets import Secrets

PATH = "team/secrets"


def names() -> list[str]:
    """Of the entries that the settings of the environment lead to."""
    return [item.name for item in read()]


def read() -> list[Read]:
    with Vault(VaultSettings(), backoff_factor=0) as client:  # type: ignore[call-arg]
        return list(client.read_all())


@pytest.fixture(autouse=True)
def surroundings(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("VAULT_NAMESPACE", "VAULT_CACERT", "VAULT_KV_MOUNT", "VAULT_KV_VERSION"):
        monkeypatch.delenv(name, raising=False)


def point_at(vault: FakeVault, monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in vault.environment(PATH).items():
        monkeypatch.setenv(name, value)


def test_the_address_the_token_and_the_path(monkeypatch: pytest.MonkeyPatch) -> None:
    """VAULT_ADDR, VAULT_TOKEN, VAULT_SECRET_PATH (addr, token, secret_path)."""
    entries = {f"{PATH}/a": {"k": "1"}, "others/b": {"k": "2"}}
    with FakeVault(entries) as first, FakeVault({f"{PATH}/c": {}}) as second:
        point_at(first, monkeypatch)
        assert names() == ["a"]
        monkeypatch.setenv("VAULT_SECRET_PATH", "others")
        assert names() == ["b"]
        point_at(second, monkeypatch)
        assert names() == ["c"]
        monkeypatch.setenv("VAULT_TOKEN", "s.wrong-one")
        with pytest.raises(VaultError, match="VAULT_TOKEN"):
            read()


def test_the_kv_mount(monkeypatch: pytest.MonkeyPatch) -> None:
    with FakeVault({f"{PATH}/a": {}}, mount="engine") as vault:
        point_at(vault, monkeypatch)
        monkeypatch.setenv("VAULT_KV_MOUNT", "engine")
        assert names() == ["a"]


def test_the_kv_version(monkeypatch: pytest.MonkeyPatch) -> None:
    """The version that is used if the token may not read it."""
    with FakeVault({f"{PATH}/a": {}}, version="1", knows_mounts=False) as vault:
        point_at(vault, monkeypatch)
        with pytest.raises(VaultError, match="VAULT_KV_VERSION=1"):
            read()
        monkeypatch.setenv("VAULT_KV_VERSION", "1")
        assert names() == ["a"]


@pytest.mark.parametrize("namespace", ["", "team-a"])
def test_the_vault_namespace(namespace: str, monkeypatch: pytest.MonkeyPatch) -> None:
    with FakeVault({f"{PATH}/a": {}}) as vault:
        point_at(vault, monkeypatch)
        monkeypatch.setenv("VAULT_NAMESPACE", namespace)
        read()
    assert set(vault.namespaces) == {namespace}


def test_the_ca_cert(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """VAULT_CACERT (ca_cert): without it, a certificate of an unknown authority is refused."""
    authority = Authority("authority")
    file = tmp_path / "ca.pem"
    file.write_bytes(authority.certificate)
    with FakeVault({f"{PATH}/a": {}}, tls=server_context(authority.issue("vault"))) as vault:
        point_at(vault, monkeypatch)
        with pytest.raises(VaultError, match="certificate"):
            read()
        monkeypatch.setenv("VAULT_CACERT", str(file))
        assert names() == ["a"]


def test_the_timeout(monkeypatch: pytest.MonkeyPatch) -> None:
    """FOURNOS_VAULT_TIMEOUT_SEC (timeout_sec), for each of four tries."""
    with FakeVault({f"{PATH}/a": {}}, silent={"metadata"}) as vault:
        point_at(vault, monkeypatch)
        monkeypatch.setenv("FOURNOS_VAULT_TIMEOUT_SEC", "0.05")
        began = time.monotonic()
        with pytest.raises(VaultError, match=r"did not answer|cannot be reached"):
            read()
        assert time.monotonic() - began < 30


async def test_the_namespace_and_the_pattern_of_the_secrets(monkeypatch: pytest.MonkeyPatch) -> None:
    """FOURNOS_SECRETS_NAMESPACE (namespace), FOURNOS_VAULT_SECRET_PATTERN (secret_pattern)."""
    for name, value in (("ADDR", "https://vault.test"), ("TOKEN", "t"), ("SECRET_PATH", PATH)):
        monkeypatch.setenv(f"VAULT_{name}", value)
    monkeypatch.setenv("FOURNOS_SECRETS_NAMESPACE", "safe")
    for name in ("ADDR", "TOKEN", "NAMESPACE", "SECRET_PATTERN"):
        monkeypatch.setenv(name, "of-another-{entry}-program")
    monkeypatch.setenv("FOURNOS_VAULT_SECRET_PATTERN", "of-{entry}-here")
    settings, secrets = VaultSettings(), Secrets()  # type: ignore[call-arg]
    sync = take_in([VaultEntry("a", {"k": "v"})], settings)
    await synchronize(secrets, sync, settings, dry_run=False, report=lambda line: None)  # type: ignore[arg-type]
    (made,) = secrets.stored.values()
    assert key_of(made) == Key("safe", "of-a-here")
