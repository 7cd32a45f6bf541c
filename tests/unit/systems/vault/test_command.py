"""The command's arguments, settings and exit codes; its work is tested beside."""

from __future__ import annotations

import json
import socket
from pathlib import Path

import pytest

from fournos.systems.vault.command import DONE, FAILED, USAGE, main
from tests.fakes.vault import FakeVault

VARIABLES = ("VAULT_ADDR", "VAULT_TOKEN", "VAULT_SECRET_PATH", "VAULT_KV_MOUNT", "VAULT_KV_VERSION")


@pytest.fixture(autouse=True)
def _bare_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in VARIABLES:
        monkeypatch.delenv(name, raising=False)


def test_every_missing_variable_is_named_at_once(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["-n", "psap-secrets"]) == USAGE
    output = capsys.readouterr().err
    for name in ("VAULT_ADDR", "VAULT_TOKEN", "VAULT_SECRET_PATH"):
        assert f"{name} is not set. For example: export {name}=" in output


@pytest.mark.parametrize(
    ("name", "value", "expected"),
    [
        ("VAULT_ADDR", "vault.example.com", "VAULT_ADDR must be a URL"),
        ("VAULT_TOKEN", "", "VAULT_TOKEN is not set"),
        ("VAULT_SECRET_PATH", "/", "VAULT_SECRET_PATH must name a path"),
        ("VAULT_KV_VERSION", "3", "VAULT_KV_VERSION"),
    ],
)
def test_a_wrong_setting_is_named_and_nothing_is_tried(
    name: str, value: str, expected: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("VAULT_ADDR", "https://vault.test")
    monkeypatch.setenv("VAULT_TOKEN", "s.hush")
    monkeypatch.setenv("VAULT_SECRET_PATH", "team")
    monkeypatch.setenv(name, value)
    assert main([]) == USAGE
    output = capsys.readouterr()
    assert expected in output.err
    assert "hush" not in output.err + output.out


def test_a_path_that_vault_does_not_know_fails_before_the_cluster_is_asked(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("KUBECONFIG", "/nonexistent")
    with FakeVault({"elsewhere/a": {}}) as vault:
        for name, value in vault.environment().items():
            monkeypatch.setenv(name, value)
        assert main([]) == FAILED
    assert "check VAULT_SECRET_PATH" in capsys.readouterr().err


def test_an_unusable_kubeconfig_is_explained(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("KUBECONFIG", "/nonexistent")
    monkeypatch.delenv("KUBERNETES_SERVICE_HOST", raising=False)
    with FakeVault({"team/secrets/a": {"k": "hush"}}) as vault:
        for name, value in vault.environment().items():
            monkeypatch.setenv(name, value)
        assert main([]) == FAILED
    output = capsys.readouterr()
    assert "KUBECONFIG names /nonexistent" in output.err
    assert "hush" not in output.err + output.out


@pytest.mark.parametrize("why", ["no kubeconfig", "nobody answers"])
def test_a_dry_run_needs_no_cluster(
    why: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("KUBECONFIG", "/nonexistent" if why == "no kubeconfig" else str(deaf(tmp_path)))
    monkeypatch.delenv("KUBERNETES_SERVICE_HOST", raising=False)
    with FakeVault(
        {"team/secrets/a": {"k": "hush", "word": "hush-hush"}, "team/secrets/B": {"k": "v"}}
    ) as vault:
        for name, value in vault.environment().items():
            monkeypatch.setenv(name, value)
        assert main(["--dry-run"]) == FAILED, "an entry cannot be synced"
        output = capsys.readouterr()
        assert "note    the cluster was not compared with: " in output.out
        assert "secret  vault-a\n          k: <4 chars>\n          word: <9 chars>\n" in output.out
        assert output.out.splitlines()[-1] == "Dry run without a cluster: 1 in Vault, 1 errors."
        assert "rename the entry" in output.err
        assert "hush" not in output.err + output.out
        vault.entries.pop("team/secrets/B")
        assert main(["--dry-run"]) == DONE
        assert main([]) == FAILED, "a sync needs one"


def deaf(directory: Path) -> Path:
    """A kubeconfig of a port without a listener."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    config = {
        "current-context": "c",
        "contexts": [{"name": "c", "context": {"cluster": "c", "user": "u"}}],
        "clusters": [{"name": "c", "cluster": {"server": f"http://127.0.0.1:{port}"}}],
        "users": [{"name": "u", "user": {}}],
    }
    (directory / "config").write_text(json.dumps(config))
    return directory / "config"


def test_user_and_password_in_the_address_stay_out_of_annotations() -> None:
    from fournos.systems.vault.settings import VaultSettings

    settings = VaultSettings.of(addr="https://user:pw@vault.test:8200/x/", token="t", secret_path="/a/b/")
    assert settings.addr == "https://vault.test:8200/x"
    assert settings.source_path == "kv/a/b"
