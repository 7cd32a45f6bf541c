"""The sync of Vault entries, against stand-ins for Vault and for the API server."""

from __future__ import annotations

import asyncio
import base64
import http.server
import threading
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest

from fournos.engine.kube import errors
from fournos.engine.kube.resource import Key, Obj, Resource
from fournos.systems.vault.sync import (
    DONE,
    FAILED,
    LABELS,
    MAX_BYTES,
    USAGE,
    SyncError,
    Vault,
    VaultSettings,
    main,
    sync,
)
from tests.fakes.pki import Authority, server_context
from tests.fakes.vault import TOKEN, FakeVault

PATH = "team/secrets"


class Secrets:
    """Secrets of one namespace in memory.  `before_write` may raise, or change what is stored."""

    def __init__(self, **stored: Any) -> None:
        self.stored: dict[str, Any] = {name.replace("_", "-"): body for name, body in stored.items()}
        self.writes: list[str] = []
        self.created_in: set[str] = set()
        self.before_write: Callable[[str, str], None] = lambda verb, name: None

    async def get(self, resource: Resource, key: Key) -> Obj:
        if key.name not in self.stored:
            raise errors.NotFoundError("not found", status=404)
        return dict(self.stored[key.name])

    async def create(self, resource: Resource, body: Any) -> None:
        name = str(body["metadata"]["name"])
        self.before_write("create", name)
        if name in self.stored:
            raise errors.AlreadyExistsError("exists", status=409)
        self.created_in.add(body["metadata"]["namespace"])
        self.writes.append(f"create {name}")
        self.stored[name] = {**body, "metadata": {**body["metadata"], "resourceVersion": "1"}}

    async def patch(self, resource: Resource, key: Key, body: Any) -> None:
        self.before_write("patch", key.name)
        present = self.stored[key.name]
        if body["metadata"]["resourceVersion"] != present["metadata"]["resourceVersion"]:
            raise errors.ConflictError("changed", status=409)
        self.writes.append(f"patch {key.name}")
        data = {**present["data"], **body["data"]}
        meta = {
            **present["metadata"],
            "labels": {**present["metadata"]["labels"], **body["metadata"]["labels"]},
        }
        self.stored[key.name] = {
            **present,
            "metadata": meta,
            "data": {name: value for name, value in data.items() if value is not None},
        }

    def values(self, name: str) -> dict[str, str]:
        return {key: base64.b64decode(value).decode() for key, value in self.stored[name]["data"].items()}


def secret(labels: Mapping[str, str] = LABELS, **data: str) -> Obj:
    encoded = {key: base64.b64encode(value.encode()).decode() for key, value in data.items()}
    return {"metadata": {"labels": dict(labels), "resourceVersion": "7"}, "data": encoded}


@pytest.fixture(autouse=True)
def _bare_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("VAULT_NAMESPACE", "VAULT_CACERT", "VAULT_KV_MOUNT", "VAULT_KV_VERSION"):
        monkeypatch.delenv(name, raising=False)
    for name in ("VAULT_ADDR", "VAULT_TOKEN", "VAULT_SECRET_PATH", "FOURNOS_SECRETS_NAMESPACE"):
        monkeypatch.delenv(name, raising=False)


@pytest.fixture
def point_at(monkeypatch: pytest.MonkeyPatch) -> Callable[[FakeVault], None]:
    def point(vault: FakeVault) -> None:
        for name, value in vault.environment(PATH).items():
            monkeypatch.setenv(name, value)

    return point


def settings() -> VaultSettings:
    return VaultSettings()  # type: ignore[call-arg]


def client() -> Vault:
    return Vault(settings(), backoff_factor=0)


def names() -> list[str]:
    return client().entries()


def synced(point_at: Any, entries: Any, secrets: Secrets | None, **changes: Any) -> bool:
    """Syncs once; without Secrets it is a dry run."""
    with FakeVault({f"{PATH}/{name}": data for name, data in entries.items()}, **changes) as vault:
        point_at(vault)
        return asyncio.run(sync(client(), settings(), secrets))  # type: ignore[arg-type]


# --- one entry, one Secret -----------------------------------------------------------------------------


def test_an_entry_becomes_a_secret_and_then_follows_it(point_at: Any, capsys: Any) -> None:
    secrets = Secrets()
    assert synced(
        point_at, {"my-creds": {"username": "u", "word": "hush", "n": 7, "secretsync/x": "y"}}, secrets
    )
    made = secrets.stored["vault-my-creds"]
    assert (made["type"], made["metadata"]["labels"]) == ("Opaque", LABELS)
    assert secrets.values("vault-my-creds") == {"username": "u", "word": "hush", "n": "7"}
    made["metadata"]["labels"]["team"] = "perf"
    assert synced(point_at, {"my-creds": {"username": "v"}}, secrets)
    assert secrets.values("vault-my-creds") == {"username": "v"}, "what has left Vault goes"
    assert secrets.stored["vault-my-creds"]["metadata"]["labels"] == {**LABELS, "team": "perf"}
    assert synced(point_at, {"my-creds": {"username": "v"}}, secrets)
    assert secrets.writes == ["create vault-my-creds", "patch vault-my-creds"], "an equal one is not written"
    output = capsys.readouterr()
    assert "created   vault-my-creds\n          username: <1 chars>\n          word: <4 chars>" in output.out
    assert output.out.splitlines()[-1] == "0 created, 0 updated, 1 unchanged, 0 errors."
    assert "hush" not in output.out + output.err


@pytest.mark.parametrize(
    ("name", "entry", "problem"),
    [
        ("Bad_Name", {"k": "hush"}, "rename the entry in Vault"),
        ("x" * 250, {"k": "hush"}, "cannot name a Secret"),
        ("big", {"k": "hush" * (MAX_BYTES // 4), "l": "x"}, "split it in Vault"),
        ("keys", {"bad key": "hush", "good": "v"}, "key 'bad key' skipped"),
        ("dots", {"..": "hush", "good": "v"}, "key '..' skipped"),
        ("gone", None, "its latest version is deleted in Vault"),
        ("half", {"k": "hush\ud800"}, "no valid text"),
        ("deep", {"k": {"l": ["hush\udfff"]}}, "no valid text"),
    ],
)
def test_a_bad_entry_is_named_and_stops_no_other(
    name: str, entry: Any, problem: str, point_at: Any, capsys: Any
) -> None:
    secrets = Secrets()
    assert not synced(point_at, {"a": {"k": "1"}, name: entry, "z": {"k": "2"}}, secrets)
    partly = ["vault-dots"] if name == "dots" else ["vault-keys"] if name == "keys" else []
    assert sorted(secrets.stored) == sorted(["vault-a", "vault-z", *partly])
    output = capsys.readouterr()
    assert f"error: {name}: " in output.err and problem in output.err
    assert "hush" not in output.out + output.err


def test_what_is_not_to_be_synced_is_noted_and_no_error(point_at: Any, capsys: Any) -> None:
    secrets = Secrets()
    entries = {"alone": {"fournos_skip_sync": "1", "k": "v"}, "empty": {}, "sub/c": {"k": "v"}}
    assert synced(point_at, entries, secrets)
    assert secrets.stored == {}
    output = capsys.readouterr().out
    assert "alone: skipped, it has the key fournos_skip_sync" in output
    assert "empty: nothing to sync in it" in output and "sub/: a directory" in output


@pytest.mark.parametrize("labels", [{}, {"app.kubernetes.io/managed-by": "helm"}])
def test_a_secret_of_others_is_left_as_it_is(labels: dict[str, str], point_at: Any, capsys: Any) -> None:
    secrets = Secrets(vault_a=secret(labels, old="x"))
    assert not synced(point_at, {"a": {"k": "v"}, "b": {"k": "v"}}, secrets)
    assert secrets.values("vault-a") == {"old": "x"} and "vault-b" in secrets.stored
    assert "kubectl label --overwrite secret vault-a -n psap-secrets" in capsys.readouterr().err


def test_a_secret_that_others_change_meanwhile_is_compared_again(point_at: Any) -> None:
    secrets = Secrets(vault_a=secret(k="old"))

    def touch(verb: str, name: str) -> None:
        if not secrets.writes and secrets.stored[name]["metadata"]["resourceVersion"] == "7":
            secrets.stored[name]["metadata"]["resourceVersion"] = "8"

    secrets.before_write = touch
    assert synced(point_at, {"a": {"k": "new"}}, secrets)
    assert secrets.values("vault-a") == {"k": "new"}


@pytest.mark.parametrize(
    ("error", "problem"),
    [
        (errors.NotFoundError("no", status=404), "kubectl create namespace psap-secrets"),
        (errors.ForbiddenError("no", status=403), "the sync needs get, create and patch on secrets"),
        (errors.InvalidError("data: hush", status=422), "the API server refused the Secret"),
        (errors.ConflictError("changed", status=409), "ConflictError: changed"),
    ],
)
def test_a_write_that_fails_is_explained(error: Exception, problem: str, point_at: Any, capsys: Any) -> None:
    secrets = Secrets()

    def fail(verb: str, name: str) -> None:
        if name == "vault-a":
            raise error

    secrets.before_write = fail
    assert not synced(point_at, {"a": {"k": "hush"}, "b": {"k": "v"}}, secrets)
    assert list(secrets.stored) == ["vault-b"]
    output = capsys.readouterr()
    assert problem in output.err and "hush" not in output.out + output.err


# --- reading Vault -------------------------------------------------------------------------------------


def test_odd_names_reach_vault_as_they_are(point_at: Any) -> None:
    with FakeVault({f"{PATH}/with space#?": {"k": "1"}}) as vault:
        point_at(vault)
        assert client().read("with space#?") == {"k": "1"}


@pytest.mark.parametrize("status", [412, 429, 500, 502, 503])
def test_passing_failures_are_tried_again(status: int, point_at: Any) -> None:
    secrets = Secrets()
    failures = {"/data/": [status] * 3, "/metadata/": [status]}
    assert synced(point_at, {"a": {"k": "1"}}, secrets, failures=failures)
    assert "vault-a" in secrets.stored


def test_one_unreadable_entry_does_not_hide_the_others(point_at: Any, capsys: Any) -> None:
    secrets = Secrets()
    entries = {"a": {"k": "1"}, "b": {"k": "2"}}
    assert not synced(point_at, entries, secrets, failures={"data/team/secrets/a": [403]})
    assert list(secrets.stored) == ["vault-b"]
    assert "policy lacks" in capsys.readouterr().err


def test_a_sealed_vault_is_named_so(point_at: Any) -> None:
    with pytest.raises(SyncError, match="sealed"):
        synced(point_at, {"a": {}}, Secrets(), failures={"metadata": [503] * 4})


@pytest.mark.parametrize("status", [200, 307])
def test_the_token_goes_to_no_other_server(status: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """A redirect is not followed, and a server that is no Vault gives no list."""
    shown: list[str | None] = []

    class Elsewhere(http.server.BaseHTTPRequestHandler):
        def do_LIST(self) -> None:
            shown.append(self.headers.get("X-Vault-Token"))
            self.send_response(status)
            self.send_header("Location", f"http://localhost:{self.server.server_address[1]}/elsewhere")
            self.send_header("Content-Length", "0")
            self.end_headers()

        do_GET = do_LIST  # noqa: N815

        def log_message(self, *_: Any) -> None: ...

    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Elsewhere) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        monkeypatch.setenv("VAULT_ADDR", f"http://127.0.0.1:{server.server_port}")
        monkeypatch.setenv("VAULT_TOKEN", TOKEN)
        monkeypatch.setenv("VAULT_SECRET_PATH", PATH)
        try:
            with pytest.raises(SyncError, match="is it the Vault server itself"):
                names()
        finally:
            server.shutdown()
            thread.join()
    assert shown == [TOKEN]


# --- the command and its settings ----------------------------------------------------------------------


def test_every_missing_variable_is_named_at_once(capsys: Any) -> None:
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
    name: str, value: str, expected: str, monkeypatch: pytest.MonkeyPatch, capsys: Any
) -> None:
    monkeypatch.setenv("VAULT_ADDR", "https://vault.test")
    monkeypatch.setenv("VAULT_TOKEN", "s.hush")
    monkeypatch.setenv("VAULT_SECRET_PATH", "team")
    monkeypatch.setenv(name, value)
    assert main([]) == USAGE
    output = capsys.readouterr()
    assert expected in output.err
    assert "hush" not in output.err + output.out


def test_a_dry_run_needs_no_cluster(point_at: Any, monkeypatch: pytest.MonkeyPatch, capsys: Any) -> None:
    monkeypatch.setenv("KUBECONFIG", "/nonexistent")
    monkeypatch.delenv("KUBERNETES_SERVICE_HOST", raising=False)
    with FakeVault({f"{PATH}/a": {"word": "hush-hush"}}) as vault:
        point_at(vault)
        assert main(["--dry-run"]) == DONE
        output = capsys.readouterr()
        assert "secret    vault-a\n          word: <9 chars>\n" in output.out
        assert output.out.splitlines()[-1] == "Dry run, nothing was changed: 1 in Vault, 0 errors."
        assert main([]) == FAILED, "a sync needs one"
        output = capsys.readouterr()
    assert "KUBECONFIG names /nonexistent" in output.err
    assert "hush" not in output.err + output.out


def test_the_address_the_token_and_the_path(point_at: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """VAULT_ADDR, VAULT_TOKEN, VAULT_SECRET_PATH (addr, token, secret_path)."""
    entries = {f"{PATH}/a": {"k": "1"}, "others/b": {"k": "2"}}
    with FakeVault(entries) as first, FakeVault({f"{PATH}/c": {}}) as second:
        point_at(first)
        assert names() == ["a"]
        monkeypatch.setenv("VAULT_SECRET_PATH", "others")
        assert names() == ["b"]
        monkeypatch.setenv("VAULT_SECRET_PATH", "nowhere")
        with pytest.raises(SyncError, match="check VAULT_SECRET_PATH"):
            names()
        point_at(second)
        assert names() == ["c"]
        monkeypatch.setenv("VAULT_TOKEN", "s.wrong-one")
        with pytest.raises(SyncError, match="VAULT_TOKEN") as refused:
            names()
    assert "s.wrong-one" not in str(refused.value)
    assert second.requests.count(f"LIST kv/metadata/{PATH}") == 2, "a refused token is not tried again"


def test_user_and_password_in_the_address_are_dropped(monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in (
        ("ADDR", "https://user:pw@vault.test:8200/x/"),
        ("TOKEN", "t"),
        ("SECRET_PATH", "/a/"),
    ):
        monkeypatch.setenv(f"VAULT_{name}", value)
    assert (settings().addr, settings().secret_path) == ("https://vault.test:8200/x", "a")


def test_the_kv_mount(point_at: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    with FakeVault({f"{PATH}/a": {}}, mount="engine") as vault:
        point_at(vault)
        monkeypatch.setenv("VAULT_KV_MOUNT", "engine")
        assert names() == ["a"]


def test_the_kv_version(point_at: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    with FakeVault({f"{PATH}/a": {"k": "1"}}, version="1") as vault:
        point_at(vault)
        with pytest.raises(SyncError, match="VAULT_KV_VERSION"):
            names()
        monkeypatch.setenv("VAULT_KV_VERSION", "1")
        assert names() == ["a"] and client().read("a") == {"k": "1"}


@pytest.mark.parametrize("namespace", ["", "team-a"])
def test_the_vault_namespace(namespace: str, point_at: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    with FakeVault({f"{PATH}/a": {}}) as vault:
        point_at(vault)
        monkeypatch.setenv("VAULT_NAMESPACE", namespace)
        names()
    assert set(vault.namespaces) == {namespace}


def test_the_ca_cert(tmp_path: Path, point_at: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """VAULT_CACERT (ca_cert): without it, a certificate of an unknown authority is refused."""
    authority = Authority("authority")
    file = tmp_path / "ca.pem"
    file.write_bytes(authority.certificate)
    with FakeVault({f"{PATH}/a": {}}, tls=server_context(authority.issue("vault"))) as vault:
        point_at(vault)
        with pytest.raises(SyncError, match="certificate"):
            names()
        monkeypatch.setenv("VAULT_CACERT", str(file))
        assert names() == ["a"]


def test_the_namespace_and_the_pattern_of_the_secrets(point_at: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """FOURNOS_SECRETS_NAMESPACE (namespace), FOURNOS_VAULT_SECRET_PATTERN (secret_pattern)."""
    monkeypatch.setenv("FOURNOS_SECRETS_NAMESPACE", "safe")
    for name in ("ADDR", "TOKEN", "NAMESPACE", "SECRET_PATTERN"):
        monkeypatch.setenv(name, "of-another-{entry}-program")
    monkeypatch.setenv("FOURNOS_VAULT_SECRET_PATTERN", "of-{entry}-here")
    secrets = Secrets()
    assert synced(point_at, {"a": {"k": "v"}}, secrets)
    assert (list(secrets.stored), secrets.created_in) == (["of-a-here"], {"safe"})
