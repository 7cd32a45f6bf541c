"""Reading Vault over HTTP, from the stand-in of tests/fakes/vault.py."""

from __future__ import annotations

import contextlib
import http.server
import io
import socket
import threading
from collections.abc import Iterator
from typing import Any

import pytest
import requests
from pydantic import SecretStr

from fournos.systems.vault.client import Vault, VaultError, _Session
from fournos.systems.vault.settings import VaultSettings
from fournos.systems.vault.sync import Unreadable, VaultEntry
from tests.fakes.vault import TOKEN, FakeVault

PATH = "team/secrets"


def settings(vault: FakeVault, **changes: Any) -> VaultSettings:
    given = {"addr": vault.url, "token": TOKEN, "secret_path": PATH, "kv_mount": vault.mount, **changes}
    return VaultSettings.of(**given)


def read(vault: FakeVault, **changes: Any) -> dict[str, VaultEntry | Unreadable]:
    with Vault(settings(vault, **changes), backoff_factor=0) as client:
        return {item.name: item for item in client.read_all()}


@pytest.mark.parametrize("version", ["1", "2"])
def test_both_kv_versions_are_found_out_and_read(version: str) -> None:
    entries = {f"{PATH}/a": {"k": "1"}, f"{PATH}/b": {"k": "2"}, f"{PATH}/sub/c": {}, "other/d": {}}
    with FakeVault(entries, version=version) as vault:
        found = read(vault)
    assert found == {
        "a": VaultEntry("a", {"k": "1"}),
        "b": VaultEntry("b", {"k": "2"}),
        "sub/": Unreadable("sub/", "a directory"),
    }


@pytest.mark.parametrize(("version", "stated"), [("2", "auto"), ("1", "1"), ("2", "2")])
def test_a_token_that_may_not_ask_for_the_version_still_reads(version: str, stated: str) -> None:
    with FakeVault({f"{PATH}/a": {"k": "1"}}, version=version, knows_mounts=False) as vault:
        assert read(vault, kv_version=stated)["a"] == VaultEntry("a", {"k": "1"})


def test_odd_names_reach_vault_as_they_are() -> None:
    with FakeVault({f"{PATH}/with space#?": {"k": "1"}}) as vault:
        assert read(vault)["with space#?"] == VaultEntry("with space#?", {"k": "1"})


def test_a_deleted_version_is_distinguished_from_a_failure() -> None:
    with FakeVault({f"{PATH}/a": None}) as vault:
        found = read(vault)["a"]
    assert isinstance(found, Unreadable)
    assert found.gone


class _Elsewhere(http.server.BaseHTTPRequestHandler):
    """Redirects to `target`, if it has one, and remembers the tokens it was shown."""

    target = ""
    tokens: list[str | None]

    def _answer(self) -> None:
        self.tokens.append(self.headers.get("X-Vault-Token"))
        self.send_response(307 if self.target else 200)
        self.send_header("Location", f"{self.target}{self.path}")
        self.send_header("Content-Length", "0")
        self.end_headers()

    do_GET = do_LIST = _answer  # noqa: N815 - http.server calls them so

    def log_message(self, *_: Any) -> None: ...


@contextlib.contextmanager
def served(target: str = "", host: str = "127.0.0.1") -> Iterator[tuple[str, list[str | None]]]:
    tokens: list[str | None] = []
    handler = type("Handler", (_Elsewhere,), {"target": target, "tokens": tokens})
    with http.server.ThreadingHTTPServer((host, 0), handler) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        try:
            yield f"http://{host}:{server.server_port}", tokens
        finally:
            server.shutdown()
            thread.join()


@pytest.mark.parametrize("host", ["127.0.0.2", "127.0.0.1"])
def test_the_token_goes_to_no_other_server(host: str) -> None:
    """Neither to another host nor to another port, whatever the first one answers."""
    with served(host=host) as (thief, stolen), served(thief) as (front, shown):
        given = VaultSettings.of(addr=front, token=SecretStr(TOKEN), secret_path=PATH)
        with Vault(given, backoff_factor=0) as client, pytest.raises(VaultError) as refused:
            list(client.read_all())
    assert shown and not stolen
    assert f"redirects to {thief}" in str(refused.value) and "VAULT_ADDR" in str(refused.value)
    assert TOKEN not in str(refused.value)


def test_http_is_not_taken_for_https() -> None:
    answer = requests.Response()
    answer.status_code, answer.url = 307, "https://vault.example.com/v1/x"
    answer.raw = io.BytesIO()
    for target, taken in (
        ("/v1/y", True),
        ("https://vault.example.com:443/v1/y", True),
        ("http://vault.example.com/v1/y", False),
        ("https://vault.example.com:8200/v1/y", False),
        ("//evil.example.com/v1/y", False),
        ("https://vault.example.com@evil.example.com/", False),
        ("https://[oops/", False),
    ):
        answer.headers["Location"] = target
        session = _Session()
        if taken:
            assert session.get_redirect_target(answer) == target
        else:
            with pytest.raises(requests.RequestException, match="redirect to"):
                session.get_redirect_target(answer)


@pytest.mark.parametrize("status", [412, 429, 500, 502, 503])
def test_passing_failures_are_tried_again(status: int) -> None:
    entries = {f"{PATH}/a": {"k": "1"}}
    with FakeVault(entries, failures={"/data/": [status] * 3, "/metadata/": [status]}) as vault:
        assert read(vault)["a"] == VaultEntry("a", {"k": "1"})


def test_one_unreadable_entry_does_not_hide_the_others() -> None:
    entries = {f"{PATH}/a": {"k": "1"}, f"{PATH}/b": {"k": "2"}}
    with FakeVault(entries, failures={"secrets/a": [403]}) as vault:
        found = read(vault)
    assert isinstance(found["a"], Unreadable)
    assert "policy lacks" in found["a"].reason
    assert found["b"] == VaultEntry("b", {"k": "2"})


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
    unreachable = VaultSettings.of(addr=f"http://127.0.0.1:{port}", token=TOKEN, secret_path=PATH)
    with (
        Vault(unreachable, backoff_factor=0) as client,
        pytest.raises(VaultError, match=f"127.0.0.1:{port}.*VAULT_ADDR"),
    ):
        list(client.read_all())
