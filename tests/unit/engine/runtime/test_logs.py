"""Logs: fields, forms, and what must never be in them."""

from __future__ import annotations

import io
import json
import logging
import random
import time
import timeit
from collections.abc import Iterator

import pytest

from fournos.engine.kube.resource import Key
from fournos.engine.runtime.logs import _PATTERNS, HIDDEN, bind, configure, redact

log = logging.getLogger("fournos.test")


@pytest.fixture(autouse=True)
def root_logger() -> Iterator[None]:
    root = logging.getLogger()
    handlers, level = root.handlers[:], root.level
    yield
    root.handlers[:] = handlers
    root.setLevel(level)


def test_a_json_line_names_the_object() -> None:
    stream = io.StringIO()
    configure("info", stream=stream)
    with bind(system="jobs", kind="FournosJob", namespace="ns", name="a", uid="u"):
        log.info("phase is %s", "Running")
    log.warning("other", extra={"key": Key("ns", "b")})
    log.debug("too quiet")
    first, second = map(json.loads, stream.getvalue().splitlines())
    assert first.pop("time")
    assert first == {
        "level": "info",
        "logger": "fournos.test",
        "message": "phase is Running",
        "system": "jobs",
        "kind": "FournosJob",
        "namespace": "ns",
        "name": "a",
        "uid": "u",
    }
    assert (second["namespace"], second["name"]) == ("ns", "b")
    assert "uid" not in second


def test_a_terminal_gets_a_short_line() -> None:
    stream = io.StringIO()
    configure("INFO", human=True, stream=stream)
    with bind(namespace="ns", name="a"):
        log.warning("careful")
    assert "ns/a: careful" in stream.getvalue()


def test_an_unknown_level_is_refused() -> None:
    with pytest.raises(ValueError, match="LOUD"):
        configure("loud", stream=io.StringIO())


@pytest.mark.parametrize("human", [True, False])
def test_no_secret_in_message_arguments_or_traceback(human: bool) -> None:
    stream = io.StringIO()
    configure("INFO", human=human, stream=stream)
    try:
        raise ValueError("password=hunter2hunter2")
    except ValueError:
        log.exception("with %s", {"token": "abcdef123456"})
    assert "hunter2" not in stream.getvalue()
    assert "abcdef123456" not in stream.getvalue()
    assert "ValueError" in stream.getvalue()


JWT = "eyJhbGciOiJSUzI1NiJ9.eyJzdWIiOiJzeXN0ZW0ifQ.c2lnbmF0dXJl"


@pytest.mark.parametrize(
    ("text", "secret"),
    [
        (f"Authorization: Bearer {JWT}", JWT),
        (f"got {JWT} back", JWT),
        ("Authorization: Basic dXNlcjpwYXNz", "dXNlcjpwYXNz"),
        ("https://me:s3cret@vault.example/v1", "s3cret"),
        ("VAULT_TOKEN=hvs.abcdef", "hvs.abcdef"),
        ('{"password": "s3 cr\\"et", "user": "me"}', "s3 cr"),
        ("aws_secret_access_key: abc/def+1", "abc/def+1"),
        ("client-key-data: LS0tLS1CRUdJTg==", "LS0tLS1CRUdJTg=="),
        ("'data': {'kubeconfig': 'YXBpVmVyc2lvbg=='}", "YXBpVmVyc2lvbg=="),
        ("kubeconfig: " + "QUJD" * 20, "QUJDQUJD"),
        ("-----BEGIN RSA PRIVATE KEY-----\nabc\n-----END RSA PRIVATE KEY-----", "abc"),
        ("-----BEGIN PRIVATE KEY-----\ncut off", "cut off"),
        ("-----BEGIN PGP PRIVATE KEY BLOCK-----\nlQOYBF\n-----END PGP PRIVATE KEY BLOCK-----", "lQOYBF"),
        ("MIIEowIBAAKCAQEA7vTq0s\nq83Jd8==\n-----END RSA PRIVATE KEY-----\nmore", "MIIEow"),
        ("export GH=ghp_16C7e42F292c6912E7710c838347Ae178B4a", "ghp_16C7"),
        ("github_pat_11ABCDEFG0abcdefghijkl_xyz", "11ABCDEFG0"),
        ("vault login hvs.CAESIJlU9JMYEhOPYv4igdhm9PnZDr", "CAESIJ"),
        ("AWS_ACCESS_KEY_ID=AKIAIOSFODNN7EXAMPLE", "AKIAIOSFODNN7EXAMPLE"),
        ("oc login --token sha256~abcdefghijklmnopqrstuvw", "sha256~abc"),
        ("mysql --password hunter2 -h db", "hunter2"),
        ("tool --vault-token 'a b' run", "a b"),
        ("curl -u admin:hunter2 https://x", "hunter2"),
        ("curl -uadmin:hunter2 https://x", "hunter2"),
        ("curl --user admin:hunter2 https://x", "hunter2"),
        ("the password is hunter2", "hunter2"),
        ("CLIENT_SECRET=Zk9xQ2v7Lw0pT4", "Zk9xQ2v7"),
        ('{"client_id":"fournos","client_secret":"Zk9xQ2v7Lw0pT4"}', "Zk9xQ2v7"),
        ("clientSecret: Zk9xQ2v7Lw0pT4", "Zk9xQ2v7"),
        ("data:\n  tls.crt: LS0tLS1CRUdJTiBD\n  tls.key: LS0tLS1CRUdJTiBQUklW", "LS0tLS1CRUdJTiBQ"),
        ("  tls.key: LS0t", "LS0t"),
        ("data:\n  .dockerconfigjson: eyJhdXRocyI6eyJxdWF5LmlvIjp7ImF1dGgi", "eyJhdXRo"),
        ('{".dockerconfigjson": "eyJhdXRocyI6"}', "eyJhdXRo"),
        (
            "data:\n  mine: Wms5eFEydjdMdzBwVDQ=\n  yours: Wms5eFEydjdMdzBwVDQx\nkind: Secret",
            "Wms5eFEydjdMdzBwVDQx",
        ),
        ("password: |\n  Zk9xQ2v7\n  Lw0pT4\nuser: me", "Lw0pT4"),
        ("token: >-\n    Zk9xQ2v7\n", "Zk9xQ2v7"),
        ('  "password":\n    "Zk9xQ2v7Lw0pT4",', "Zk9xQ2v7"),
        ("DB_PASS=Zk9xQ2v7Lw0pT4", "Zk9xQ2v7"),
        ("key AIzaSyD-9tSrke72PouQMnMX-a7eZSW0jkFMBWY", "AIzaSy"),
        ("docker login -p dckr_pat_0123456789abcdefghijklmnop", "0123456789"),
        ("AccountName=x;AccountKey=Eby8vdM02xNOcqFlqUw==;Endpoint=y", "Eby8vdM0"),
        ("GET https://b.s3.amazonaws.com/k?X-Amz-Signature=5f0d8b1c2a9e4f0e", "5f0d8b1c"),
        ("posting to https://hooks.slack.com/services/T00000000/B00000000/XXXXXXXX", "XXXXXXXX"),
        ("npm_abcdefghijklmnopqrstuvwxyz0123456789", "abcdefgh"),
        ("pypi-AgEIcHlwaS5vcmcCJDAxMjM0NTY3ODk", "AgEIcHl"),
        ('{"auths": {"quay.io": {"auth": "dXNlcjpwYXNz"}}}', "dXNlcjpwYXNz"),
    ],
)
def test_what_looks_secret_is_hidden(text: str, secret: str) -> None:
    assert secret not in redact(text)
    assert HIDDEN in redact(text)


@pytest.mark.parametrize(
    "text",
    [
        "Secret ns/job-kubeconfig copied",
        "kubeconfig Secret 'kubeconfig-cluster-01' not found",
        "secretRefs: my-creds is missing",
        "phase: Running, data set: large",
        'secrets "vault-my-creds" not found',
        "1 token bucket",
        "the password is missing: set --password --force",
        "sk-1, hf_ and ghp_ begin tokens",
        "docker run -u root image",
        "-----END of the log-----",
        "tls.crt and tls.key are in Secret web",
        "data:\n  train: imagenet\n  epochs: 3",
        "secret: my-creds\nsecretName: other",
        "bypass: the cache, compass=north",
    ],
)
def test_what_is_not_secret_stays(text: str) -> None:
    assert redact(text) == text


PIECES = (
    *("eyJ-", "eyJaaaaaaaa.", "-----BEGIN CERTIFICATE"),
    *("x", "token", "eyJ", "a.b-", "://a:", "data={", "'", "--", "-u a", "password is ", "ABCD\n"),
    *("-----BEGIN PRIVATE KEY-----", '"auth":"', "--password"),
    *(
        "password: |\n ",
        "data:\n a: AAAABBBBCCCCDDDD\n",
        "\n  ",
        "tls.key",
        "data:\n ",
        "AIza",
        "hooks.slack.com/services/",
    ),
)


WORDS = """
AIza dckr_pat_ npm_ pypi- hooks.slack.com/services/ tls.key .dockerconfigjson data: client_secret _pass
gh p_ github_pat_ glpat- hvs. AKIA xoxb- sha256~ hf_ sk- eyJ . -- --user= passwd Passphrase "auth"
:// @ token credentials secret-id API_KEY client-key-data Data { } kubeconfig = " '
abcdefghijklmnop0123 ABCDEFGHIJKLMNOP hunter2hunter2hunter2hunter2hunter2hunter2hunter2hunter2 a:b
"""
ODD_WORDS = (
    "Bearer ",
    "basic ",
    "-u ",
    " is ",
    ": ",
    ": |\n  ",
    ": AAAABBBBCCCCDDDD\n",
    " ",
    "\n",
    "-----BEGIN PRIVATE KEY-----",
    "-----END PRIVATE KEY-----",
    "\u017f",
    "\u212a",
    "\u0131",
)


def test_a_pattern_that_is_left_out_would_have_changed_nothing() -> None:
    words = (*WORDS.split(), *ODD_WORDS)
    source = random.Random(1)
    changed = 0
    for _ in range(20_000):
        text = "".join(source.choices(words, k=source.randint(1, 8)))
        whole = text
        for _hints, pattern, replacement in _PATTERNS:
            whole = pattern.sub(replacement, whole)
        assert redact(text) == whole, text
        changed += whole != text
    assert changed > 3_000


@pytest.mark.parametrize("piece", PIECES)
def test_a_long_line_costs_no_more_than_its_length(piece: str) -> None:
    def cost(size: int) -> float:
        text = (piece * size)[:size]
        return min(timeit.repeat(lambda: redact(text), timer=time.process_time, number=1, repeat=3))

    assert cost(40_000) < 60 * cost(4_000) + 0.01  # quadratic would be 100 times
