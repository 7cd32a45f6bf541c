"""When a token is read or asked for again: token files and exec plugins."""

from __future__ import annotations

import asyncio
import json
import stat
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from fournos.engine.kube import auth as auth_module
from fournos.engine.kube.auth import ExecPlugin, ExecSpec, TokenFile
from fournos.engine.kube.errors import CredentialsError
from tests.unit.engine.kube.client_identity import PAIR, ends


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
