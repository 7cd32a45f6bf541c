"""Kubeconfigs of strangers: what is refused with which reason, what is accepted, when it ends."""

from __future__ import annotations

import base64
import json
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
import yaml
from cryptography.hazmat.primitives.serialization import (
    BestAvailableEncryption,
    Encoding,
    PrivateFormat,
    load_pem_private_key,
)
from hypothesis import given
from hypothesis import strategies as st

from fournos.engine.kube.untrusted_kubeconfig import (
    MAX_BYTES,
    CheckedKubeconfig,
    KubeconfigRefusedError,
    check,
)
from tests.fakes.pki import Authority

NOW = datetime.now(UTC)
AUTHORITY = Authority("test-ca")
PAIR = AUTHORITY.issue("client")
OTHER = AUTHORITY.issue("other")
SECRET = "s3cr3t-of-the-user"


def b64(content: bytes) -> str:
    return base64.b64encode(content).decode()


def jwt(claims: dict[str, Any]) -> str:
    body = base64.urlsafe_b64encode(json.dumps(claims).encode()).decode().rstrip("=")
    return f"eyJhbGciOiJSUzI1NiJ9.{body}.c2lnbmF0dXJl"


CERTIFICATE = {"client-certificate-data": b64(PAIR.certificate), "client-key-data": b64(PAIR.key)}


def config(*, user: Any = None, cluster: dict[str, Any] | None = None, **changes: Any) -> dict[str, Any]:
    base = {
        "server": "https://api.example:6443",
        "certificate-authority-data": b64(AUTHORITY.certificate),
        **(cluster or {}),
    }
    return {
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [{"name": "c", "cluster": base}],
        "users": [{"name": "u", "user": {"token": SECRET} if user is None else user}],
        "contexts": [{"name": "x", "context": {"cluster": "c", "user": "u"}}],
        "current-context": "x",
        **changes,
    }


def text(content: dict[str, Any]) -> bytes:
    return yaml.safe_dump(content).encode()


def checked(content: dict[str, Any], *, now: datetime = NOW) -> CheckedKubeconfig:
    return check(text(content), now=now)


def refusal(content: dict[str, Any] | bytes, *, now: datetime = NOW) -> KubeconfigRefusedError:
    with pytest.raises(KubeconfigRefusedError) as caught:
        check(content if isinstance(content, bytes) else text(content), now=now)
    assert SECRET not in caught.value.message
    assert caught.value.__cause__ is None, "a traceback in a log must not quote the content either"
    return caught.value


EXEC = {"exec": {"apiVersion": "client.authentication.k8s.io/v1", "command": "sh"}}


@pytest.mark.parametrize(
    ("extra", "reason"),
    [
        (EXEC, "ExecNotAllowed"),
        ({"auth-provider": {"name": "gcp"}}, "AuthProviderNotAllowed"),
        ({"tokenFile": "/etc/shadow"}, "TokenFileNotAllowed"),
        ({"client-certificate": "/a.pem"}, "ClientCertificateNotAllowed"),
        ({"client-key": "/a.key"}, "ClientKeyNotAllowed"),
        ({"username": "a"}, "UsernameNotAllowed"),
        ({"password": SECRET}, "PasswordNotAllowed"),
        ({"as": "admin"}, "AsNotAllowed"),
        ({"as-user-extra": {"a": ["b"]}}, "AsUserExtraNotAllowed"),
        ({"a field of later": "x"}, "AFieldOfLaterNotAllowed"),
    ],
    ids=lambda value: str(value)[:30],
)
def test_a_user_that_is_more_than_inline_data_is_refused(extra: Any, reason: str) -> None:
    found = refusal(config(user={"token": SECRET, **extra}))
    assert found.reason == reason
    assert "'u'" in found.message and "client-certificate-data, client-key-data, token" in found.message


@pytest.mark.parametrize(
    ("extra", "reason"),
    [
        ({"certificate-authority": "/ca"}, "CertificateAuthorityNotAllowed"),
        ({"proxy-url": "http://p:3128"}, "ProxyUrlNotAllowed"),
        ({"insecure-skip-tls-verify": True}, "InsecureSkipTlsVerifyNotAllowed"),
        *(
            ({"server": server}, "InvalidServer")
            for server in (
                "http://api.example:8080",
                f"https://me:{SECRET}@api.example",
                f"https://api.example/?token={SECRET}",
                "https://[::1",
                "https://api.example:port",
                "https://api.example:65536",
                "https://",
                "https://a b/",
                "unix:///run/api.sock",
                ["https://api.example"],
                None,
            )
        ),
        ({"tls-server-name": ["a"]}, "InvalidServer"),
    ],
    ids=lambda value: str(value)[:30],
)
def test_a_server_that_is_not_reached_directly_and_verified_is_refused(extra: Any, reason: str) -> None:
    assert refusal(config(cluster=extra)).reason == reason


@pytest.mark.parametrize("server", ["https://[fd00::1]:6443", "https://10.0.0.1", "https://a-b.example./k8s"])
def test_a_server_with_an_address_a_name_or_a_path_is_accepted(server: str) -> None:
    extra = {"server": server, "insecure-skip-tls-verify": False, "extensions": [{"name": "minikube"}]}
    assert checked(config(cluster=extra)).credentials.server == server


def test_entries_that_no_context_uses_are_checked_too() -> None:
    content = config()
    content["users"].append({"name": "unused", "user": {"exec": {"command": "sh"}}})
    assert refusal(content).reason == "ExecNotAllowed"
    content = config()
    content["clusters"].append({"name": "unused", "cluster": {"server": "http://a"}})
    assert refusal(content).reason == "InvalidServer"


def test_yaml_that_makes_one_entry_of_another_is_seen_through() -> None:
    content = text(config()).replace(b"users:\n- name: u", b"users:\n- &hidden\n  name: u")
    content += b"extra: {user: {exec: {command: sh}}}\n"
    check(content, now=NOW)  # what nothing reads does no harm
    merged = b"""
base: &base {exec: {command: sh}}
clusters: [{name: c, cluster: {server: 'https://a'}}]
users: [{name: u, user: {<<: *base, token: t}}]
contexts: [{name: x, context: {cluster: c, user: u}}]
"""
    assert "has aliases" in refusal(merged).message


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        (b"", "InvalidKubeconfig"),
        (b"just words", "InvalidKubeconfig"),
        (b"a: [", "InvalidKubeconfig"),
        (b"!!python/object/apply:os.system ['true']", "InvalidKubeconfig"),
        (b"clusters: 3", "InvalidKubeconfig"),
        (b"users: [{name: u, user: word}]", "InvalidKubeconfig"),
        (b"{clusters: [], users: []}", "NoContext"),
        (b" " * (MAX_BYTES + 1), "KubeconfigTooLarge"),
        (text(config(contexts=[])), "InvalidKubeconfig"),
        (text(config(contexts=[], **{"current-context": None})), "NoContext"),
        (text(config(**{"current-context": "other"})), "InvalidKubeconfig"),
        (text(config(clusters=[])), "InvalidKubeconfig"),
        (text(config(users=[])), "InvalidKubeconfig"),
        (text(config(user={})), "NoCredentials"),
        (text(config(user={"token": "two words"})), "InvalidToken"),
        (text(config(user={"token": "line\nHost: other"})), "InvalidToken"),
        (text(config(user={"token": {"a": "b"}})), "InvalidToken"),
        (text(config(user={"client-certificate-data": b64(PAIR.certificate)})), "InvalidKubeconfig"),
        (text(config(user={**CERTIFICATE, "client-key-data": "%%%"})), "InvalidKubeconfig"),
        (text(config(user={**CERTIFICATE, "client-key-data": b64(OTHER.key)})), "InvalidCertificate"),
        (text(config(user={**CERTIFICATE, "client-certificate-data": b64(b"no PEM")})), "InvalidCertificate"),
        (text(config(cluster={"certificate-authority-data": b64(b"no PEM")})), "InvalidCertificate"),
    ],
)
def test_what_is_no_usable_kubeconfig_is_refused_with_a_reason(content: bytes, reason: str) -> None:
    assert refusal(content).reason == reason


@given(st.binary(max_size=200))
def test_no_bytes_do_anything_but_be_refused(content: bytes) -> None:
    with pytest.raises(KubeconfigRefusedError):
        check(content, now=NOW)


_JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=10),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=6), inner, max_size=3),
    max_leaves=8,
)


@given(
    place=st.sampled_from(["clusters", "users", "contexts", "cluster", "user", "context", "current-context"]),
    field=st.sampled_from(["server", "token", "cluster", "user", "namespace", "tls-server-name", "exec",
                           "certificate-authority-data", "client-key-data", "client-certificate-data"]),
    value=_JSON,
)  # fmt: skip
def test_any_value_anywhere_is_accepted_or_refused(place: str, field: str, value: Any) -> None:
    content = config()
    if place in content:
        content[place] = value
    else:
        content[place + "s"][0][place][field] = value
    try:
        checked(content)
    except KubeconfigRefusedError as error:
        assert error.reason.isalnum() and error.message


async def test_a_token_and_a_certificate_are_accepted() -> None:
    by_token = checked(config())
    assert by_token.credentials.server == "https://api.example:6443"
    headers, _ = await by_token.credentials.proof()
    assert headers["Authorization"] == f"Bearer {SECRET}"
    assert by_token.expires is None
    assert SECRET not in repr(by_token)
    by_certificate = checked(config(user=CERTIFICATE))
    assert by_certificate.expires is not None
    assert timedelta(minutes=55) < by_certificate.expires - NOW < timedelta(minutes=65)


def test_an_encrypted_key_is_refused_and_nothing_is_asked_on_the_terminal() -> None:
    encrypted = load_pem_private_key(PAIR.key, None).private_bytes(
        Encoding.PEM, PrivateFormat.PKCS8, BestAvailableEncryption(b"hunter2")
    )
    found = refusal(config(user={**CERTIFICATE, "client-key-data": b64(encrypted)}))
    assert found.reason == "InvalidCertificate"
    assert "the client key is encrypted" in found.message and "openssl pkey" in found.message


def test_line_breaks_in_base64_are_accepted() -> None:
    lines = {"certificate-authority-data": base64.encodebytes(AUTHORITY.certificate).decode()}
    pair = {name: base64.encodebytes(base64.b64decode(data)).decode() for name, data in CERTIFICATE.items()}
    assert checked(config(cluster=lines, user=pair)).expires is not None


def test_without_current_context_the_first_one_counts() -> None:
    content = config(**{"current-context": ""})
    content["clusters"].append({"name": "second", "cluster": {"server": "https://second.example"}})
    content["contexts"].append({"name": "a", "context": {"cluster": "second", "user": "u"}})
    assert checked(content).credentials.server == "https://api.example:6443"
    content["contexts"].reverse()
    assert checked(content).credentials.server == "https://second.example"


def test_base64_once_more_is_accepted_and_checked_alike() -> None:
    encoded = base64.encodebytes(text(config()))  # in lines of 76, as base64(1) writes them
    assert check(encoded, now=NOW).credentials.server == "https://api.example:6443"
    bad = base64.b64encode(text(config(user={"exec": {"command": "sh"}})))
    assert refusal(bad).reason == "ExecNotAllowed"


def test_an_expired_certificate_is_refused() -> None:
    found = refusal(config(user=CERTIFICATE), now=NOW + timedelta(hours=2))
    assert found.reason == "CertificateExpired"
    assert "new one" in found.message


@pytest.mark.parametrize(
    "claims", [{}, {"exp": "soon"}, {"exp": 1e300}, {"exp": None}, {"exp": float("nan")}]
)
def test_a_token_without_a_readable_end_has_none(claims: dict[str, Any]) -> None:
    assert checked(config(user={"token": jwt(claims)})).expires is None


def test_the_end_of_a_token_is_read_and_obeyed() -> None:
    end = (NOW + timedelta(minutes=10)).replace(microsecond=0)
    content = config(user={"token": jwt({"exp": end.timestamp()})})
    assert checked(content).expires == end
    assert refusal(content, now=end).reason == "TokenExpired"


def test_of_two_credentials_the_one_that_lasts_longer_counts() -> None:
    soon, late = NOW + timedelta(minutes=10), NOW + timedelta(days=1)
    lasting = checked(config(user={**CERTIFICATE, "token": jwt({"exp": late.timestamp()})}))
    assert lasting.expires is not None and abs(lasting.expires - late) < timedelta(seconds=1)
    assert not lasting.by_certificate
    brief = checked(config(user={**CERTIFICATE, "token": jwt({"exp": soon.timestamp()})}))
    assert brief.by_certificate
    endless = config(user={**CERTIFICATE, "token": SECRET})
    assert checked(endless, now=NOW + timedelta(days=9)).expires is None


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (
            b"extensions: [&a [x, x], &b [*a, *a], *b]",
            "kubeconfig has aliases (*name), which are not accepted",
        ),
        (b"[" * 100_000, "kubeconfig is nested more than 32 levels deep"),
        (b"clusters: !!bool private", "kubeconfig is not YAML"),
        (b"a: 1" + b":1" * 50_000, "kubeconfig is not YAML"),
        (b"\xff\xfe", "kubeconfig is not UTF-8 text"),
        (b"clusters: []\n---\nclusters: []", "kubeconfig is not a kubeconfig"),
    ],
)
def test_yaml_that_stands_for_more_than_its_text_is_refused(content: bytes, message: str) -> None:
    found = refusal(content)
    assert found.reason == "InvalidKubeconfig" and str(found).startswith(message)
    assert "private" not in str(found)
