"""Where credentials come from, and what is refused."""

from __future__ import annotations

import asyncio
import base64
import json
import os
import stat
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
import yaml

from fournos.engine.kube import auth as auth_module
from fournos.engine.kube import credentials
from fournos.engine.kube.auth import ExecPlugin, ExecSpec, TokenFile
from fournos.engine.kube.credentials import Credentials, credentials_of, in_cluster, load, parse
from fournos.engine.kube.errors import CredentialsError, ForbiddenError
from tests.unit.engine.kube.client_identity import AUTHORITY, PAIR, ends


def b64(content: bytes) -> str:
    return base64.b64encode(content).decode()


def config(*, user: dict[str, Any] | None = None, server: str = "https://api.example:6443",
           cluster: dict[str, Any] | None = None) -> dict[str, Any]:  # fmt: skip
    base = {"server": server, "certificate-authority-data": b64(AUTHORITY.certificate)}
    return {
        "clusters": [{"name": "c", "cluster": {**base, **(cluster or {})}}],
        "users": [{"name": "u", "user": user if user is not None else {"token": "t0ken"}}],
        "contexts": [{"name": "x", "context": {"cluster": "c", "user": "u", "namespace": "ns"}}],
        "current-context": "x",
    }


def written(path: Path, content: dict[str, Any]) -> Path:
    path.write_text(yaml.safe_dump(content))
    return path


def entries(folder: Path) -> set[str]:
    return {path.name for path in folder.iterdir()}


async def token_of(found: credentials.Credentials) -> str | None:
    headers, _ = await found.proof()
    return headers.get("Authorization")


@pytest.fixture(autouse=True)
def nothing_else(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """No credentials of the machine that runs the tests."""
    for name in ("KUBECONFIG", "KUBERNETES_SERVICE_HOST", "KUBERNETES_SERVICE_PORT"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    monkeypatch.setattr(credentials, "SERVICE_ACCOUNT", tmp_path / "none")


# --- where they come from ----------------------------------------------------------------------------


async def test_the_order_is_named_file_then_kubeconfig_then_pod_then_home(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(CredentialsError, match="name a kubeconfig"):
        load()
    home = tmp_path / "home" / ".kube"
    home.mkdir(parents=True)
    written(home / "config", config(user={"token": "home"}))
    assert await token_of(load()) == "Bearer home"

    account = tmp_path / "account"
    account.mkdir()
    (account / "ca.crt").write_bytes(AUTHORITY.certificate)
    (account / "namespace").write_text("operators\n")
    (account / "token").write_text("pod\n")
    monkeypatch.setattr(credentials, "SERVICE_ACCOUNT", account)
    monkeypatch.setenv("KUBERNETES_SERVICE_HOST", "fd00::1")
    monkeypatch.setenv("KUBERNETES_SERVICE_PORT", "443")
    found = load()
    assert await token_of(found) == "Bearer pod"
    assert (found.server, found.namespace) == ("https://[fd00::1]:443", "operators")
    assert await token_of(load(context="x")) == "Bearer home", "a context is one of a kubeconfig"

    monkeypatch.setenv("KUBECONFIG", str(written(tmp_path / "env", config(user={"token": "env"}))))
    assert await token_of(load()) == "Bearer env"
    assert (
        await token_of(load(written(tmp_path / "named", config(user={"token": "named"})))) == "Bearer named"
    )


async def test_kubeconfig_may_name_several_files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    first = config()
    del first["users"], first["current-context"]
    second = config(user={"token": "second"}, server="https://other.example")
    files = [written(tmp_path / "one", first), tmp_path / "missing", written(tmp_path / "two", second)]
    monkeypatch.setenv("KUBECONFIG", os.pathsep.join(map(str, files)))
    found = load()
    assert found.server == "https://api.example:6443"
    assert await token_of(found) == "Bearer second"


async def test_files_are_relative_to_the_kubeconfig(tmp_path: Path) -> None:
    (tmp_path / "ca.pem").write_bytes(AUTHORITY.certificate)
    (tmp_path / "tls.crt").write_bytes(PAIR.certificate)
    (tmp_path / "tls.key").write_bytes(PAIR.key)
    (tmp_path / "token").write_text("from-file")
    user = {"client-certificate": "tls.crt", "client-key": "tls.key", "tokenFile": "token"}
    content = config(user=user)
    content["clusters"][0]["cluster"] = {"server": "https://api.example/", "certificate-authority": "ca.pem"}
    found = load(written(tmp_path / "config", content))
    assert await token_of(found) == "Bearer from-file"
    assert found.server == "https://api.example"


async def test_another_context_by_name(tmp_path: Path) -> None:
    content = config()
    content["users"].append({"name": "v", "user": {"token": "other"}})
    content["contexts"].append({"name": "y", "context": {"cluster": "c", "user": "v"}})
    found = load(written(tmp_path / "config", content), "y")
    assert await token_of(found) == "Bearer other"
    assert found.namespace == "default"


def inline(content: dict[str, Any]) -> Credentials:
    """A kubeconfig that a user brings: inline data alone."""
    text = yaml.safe_dump(content)
    return credentials_of(parse(text, source="Secret a/b"), source="Secret a/b")


async def test_a_client_certificate_leaves_no_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TMPDIR", str(tmp_path / "tmp"))
    (tmp_path / "tmp").mkdir()
    user = {"client-certificate-data": b64(PAIR.certificate), "client-key-data": b64(PAIR.key)}
    before = entries(Path("/proc/self/fd"))
    _, tls = await inline(config(user=user)).proof()
    assert tls is not None
    assert entries(tmp_path / "tmp") == set()
    assert entries(Path("/proc/self/fd")) == before


async def test_without_memory_files_the_private_file_goes_at_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delattr(os, "memfd_create")
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    user = {"client-certificate-data": b64(PAIR.certificate), "client-key-data": b64(PAIR.key)}
    await inline(config(user=user)).proof()
    assert entries(tmp_path) == set()


# --- what is refused ---------------------------------------------------------------------------------

EXEC = {"apiVersion": "client.authentication.k8s.io/v1", "command": "login"}


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (config(cluster={"proxy-url": "http://p"}), "proxy-url is not supported"),
        (config(server="api.example"), "https:// URL"),
        (config(user={"username": "u", "password": "p"}), "basic authentication"),
        (config(user={"auth-provider": {"name": "gcp"}}), "auth providers"),
        (config(user={"token": "t", "as": "root"}), "impersonation"),
        (config(user={"client-certificate-data": b64(PAIR.certificate)}), "given together"),
        (config(user={"client-key-data": "?"}), "client-key-data is not base64"),
        (config(user={"exec": {**EXEC, "apiVersion": "v1alpha1"}}), "exec apiVersion"),
        (config(user={"exec": {**EXEC, "interactiveMode": "Always"}}), "needs a terminal"),
        (config(user={"exec": {**EXEC, "command": ""}}), "names no command"),
        (config(cluster={"certificate-authority-data": b64(b"junk")}), "not a PEM"),
        (config(user={"client-certificate-data": b64(PAIR.certificate), "client-key-data": b64(b"junk")}),
         "do not belong together"),
        ({**config(), "current-context": None}, "no current-context"),
        ({**config(), "current-context": "z"}, "has no context 'z'; it has: x"),
        ({**config(), "users": []}, "has no user 'u'; it has: none"),
        ({**config(), "clusters": "c"}, "clusters must be a list"),
    ],
)  # fmt: skip
def test_what_cannot_work_is_refused_with_its_reason(
    tmp_path: Path, content: dict[str, Any], message: str
) -> None:
    with pytest.raises(CredentialsError, match=message) as caught:
        load(written(tmp_path / "config", content))
    assert isinstance(caught.value, ForbiddenError)


def test_missing_and_malformed_files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(CredentialsError, match="No such file"):
        load(tmp_path / "none")
    (tmp_path / "bad").write_text("token: 'hunter2\n  x: [")
    with pytest.raises(CredentialsError, match="not YAML, line") as caught:
        load(tmp_path / "bad")
    assert "hunter2" not in str(caught.value)
    (tmp_path / "list").write_text("- a")
    with pytest.raises(CredentialsError, match="not a kubeconfig"):
        load(tmp_path / "list")
    monkeypatch.setenv("KUBECONFIG", str(tmp_path / "none"))
    with pytest.raises(CredentialsError, match="correct or unset it"):
        load()


def test_exec_can_be_forbidden_in_our_own(tmp_path: Path) -> None:
    path = written(tmp_path / "config", config(user={"exec": EXEC}))
    load(path)
    with pytest.raises(CredentialsError, match="not allowed"):
        load(path, allow_exec=False)


def test_a_pod_without_token_names_what_to_set(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KUBERNETES_SERVICE_HOST", "10.0.0.1")
    with pytest.raises(CredentialsError, match="automountServiceAccountToken"):
        load()
    with pytest.raises(CredentialsError):
        in_cluster()


def test_nothing_secret_in_a_repr() -> None:
    found = inline(config())
    assert repr(found) == "Credentials('https://api.example:6443')"


# --- renewal of tokens ------------------------------------------------------------------------------
# When a token is read or asked for again: token files and exec plugins.


@pytest.mark.looptime
async def test_a_token_file_is_read_again_within_a_minute(tmp_path: Path) -> None:
    path = tmp_path / "token"
    path.write_text("one\n")
    identity = TokenFile(path)
    assert (await identity.proof()).token == "one"
    path.write_text("two\n")
    await asyncio.sleep(59)
    assert (await identity.proof()).token == "one"
    await asyncio.sleep(1)
    assert (await identity.proof()).token == "two"


@pytest.mark.looptime
async def test_a_token_file_that_is_away_for_a_moment_does_not_lose_the_token(tmp_path: Path) -> None:
    path = tmp_path / "token"
    identity = TokenFile(path)
    with pytest.raises(CredentialsError, match="missing or empty"):
        await identity.proof()
    path.write_text("one")
    assert (await identity.proof()).token == "one"
    path.unlink()
    await asyncio.sleep(120)
    assert (await identity.proof()).token == "one"


async def test_401_makes_it_read_the_file_at_once(tmp_path: Path) -> None:
    path = tmp_path / "token"
    path.write_text("one")
    identity = TokenFile(path)
    await identity.proof()
    path.write_text("two")
    identity.invalidate()
    assert (await identity.proof()).token == "two"


START = datetime(2030, 1, 1, tzinfo=UTC)


class Clock:
    def __init__(self) -> None:
        self.now = START

    def __call__(self) -> datetime:
        return self.now


def plugin(tmp_path: Path, script: str, *, env: tuple[tuple[str, str], ...] = (), hint: str = "",
           info: dict[str, Any] | None = None) -> ExecSpec:  # fmt: skip
    path = tmp_path / "login"
    path.write_text(f"#!/bin/sh\n{script}\n")
    path.chmod(path.stat().st_mode | stat.S_IXUSR)
    return ExecSpec("client.authentication.k8s.io/v1", str(path), ("a",), env, hint, info)


def answer(**status: Any) -> str:
    body = {"apiVersion": "client.authentication.k8s.io/v1", "kind": "ExecCredential", "status": status}
    return json.dumps(body)


async def test_a_plugins_token_is_kept_until_it_expires(tmp_path: Path) -> None:
    clock = Clock()
    log = tmp_path / "runs"
    message = answer(token="tok", expirationTimestamp=(START + timedelta(minutes=5)).isoformat())
    identity = ExecPlugin(plugin(tmp_path, f"echo run >> {log}\necho '{message}'"), now=clock)
    for minutes, runs in ((0, 1), (4, 1), (5, 2)):
        clock.now = START + timedelta(minutes=minutes)
        assert (await identity.proof()).token == "tok"
        assert log.read_text().count("run") == runs


async def test_many_requests_run_a_plugin_once(tmp_path: Path) -> None:
    log = tmp_path / "runs"
    identity = ExecPlugin(plugin(tmp_path, f"echo run >> {log}\necho '{answer(token='t')}'"))
    await asyncio.gather(*(identity.proof() for _ in range(5)))
    assert log.read_text().count("run") == 1


def test_a_plugin_runs_in_each_event_loop(tmp_path: Path) -> None:
    """As in a forked process, whose parent may just have waited for the plugin."""
    expired = answer(token="t", expirationTimestamp=START.isoformat())
    identity = ExecPlugin(plugin(tmp_path, f"echo '{expired}'"), now=lambda: START)

    async def tokens() -> list[str | None]:
        async with asyncio.timeout(20):
            proofs = await asyncio.gather(*(identity.proof() for _ in range(3)))
        return [proof.token for proof in proofs]

    assert asyncio.run(tokens()) == asyncio.run(tokens()) == ["t"] * 3


async def test_a_plugin_gets_what_it_may_have(tmp_path: Path) -> None:
    script = f"""echo "$KUBERNETES_EXEC_INFO" > {tmp_path}/info
        echo "$X$1" > {tmp_path}/env
        echo '{answer(token="t")}'"""
    identity = ExecPlugin(plugin(tmp_path, script, env=(("X", "y"),), info={"server": "https://s"}))
    assert (await identity.proof()).token == "t"
    info = json.loads((tmp_path / "info").read_text())
    assert info["spec"] == {"interactive": False, "cluster": {"server": "https://s"}}
    assert (tmp_path / "env").read_text() == "ya\n"


async def test_a_plugin_may_give_a_certificate(tmp_path: Path) -> None:
    message = answer(clientCertificateData=PAIR.certificate.decode(), clientKeyData=PAIR.key.decode())
    (tmp_path / "said").write_text(message)
    identity = ExecPlugin(plugin(tmp_path, f"cat {tmp_path}/said"))
    proof = await identity.proof()
    assert (proof.token, proof.certificate, proof.key) == (None, PAIR.certificate, PAIR.key)


@pytest.mark.parametrize(
    ("script", "message"),
    [
        ("echo nothing", "did not print an ExecCredential"),
        ("echo '{}'", "did not print an ExecCredential"),
        (f"echo '{answer()}'", "neither a token nor a certificate"),
        (f"echo '{answer(clientKeyData='k')}'", "neither a token nor a certificate"),
        (f"echo '{answer(token='t', expirationTimestamp='soon')}'", "no time"),
        ('echo \'{"apiVersion":"v2","status":{"token":"t"}}\'', "another version"),
        ("echo first >&2; echo 'please log in' >&2; exit 3", "ended with code 3: please log in"),
    ],
)
async def test_a_plugin_that_fails_has_a_reason(tmp_path: Path, script: str, message: str) -> None:
    with pytest.raises(CredentialsError, match=f"exec plugin login .*{message}"):
        await ExecPlugin(plugin(tmp_path, script)).proof()


async def test_a_plugins_complaint_is_quoted_without_tokens(tmp_path: Path) -> None:
    script = "echo 'refused eyJhbGciOiJSUzI1NiIsImtpZCI6IjEyMyJ9.eyJzdWIiOiJ4In0' >&2; exit 1"
    with pytest.raises(CredentialsError, match="refused …") as caught:
        await ExecPlugin(plugin(tmp_path, script)).proof()
    assert "eyJ" not in str(caught.value)


async def test_a_plugin_that_hangs_is_ended_with_its_children(tmp_path: Path) -> None:
    script = f"sleep 600 & echo $! > {tmp_path}/child; wait"
    with pytest.raises(CredentialsError, match=r"no answer within 3 s"):
        await ExecPlugin(plugin(tmp_path, script), timeout=3).proof()
    assert ends(int((tmp_path / "child").read_text()))


async def test_a_plugin_that_is_not_installed_has_a_hint(tmp_path: Path) -> None:
    spec = ExecSpec("client.authentication.k8s.io/v1", "/no/login", (), (), "get it from the shop", None)
    with pytest.raises(CredentialsError, match=r"cannot be started: No such file.*get it from the shop"):
        await ExecPlugin(spec).proof()


async def test_401_runs_the_plugin_again_but_not_in_a_loop(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    log = tmp_path / "runs"
    identity = ExecPlugin(plugin(tmp_path, f"echo run >> {log}\necho '{answer(token='t')}'"))
    await identity.proof()
    identity.invalidate()
    await identity.proof()
    assert log.read_text().count("run") == 1, "too fresh to be worth another run"
    monkeypatch.setattr(auth_module, "FRESH", -1.0)
    identity.invalidate()
    await identity.proof()
    assert log.read_text().count("run") == 2
