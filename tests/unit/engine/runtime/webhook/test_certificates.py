"""Certificates: made so that a client takes them, kept in a Secret, turned over without a gap."""

from __future__ import annotations

import ssl
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from fournos.engine.kube.tls import server_context
from fournos.engine.runtime.webhook.certificates import (
    Kept,
    Pair,
    Terms,
    covers,
    make_pair,
    next_look,
    read,
    rotated,
    write,
)
from fournos.engine.runtime.webhook.settings import WebhookSettings

HOSTS = ("hooks.ns.svc", "192.0.2.7")
TERMS = Terms(timedelta(days=90), timedelta(days=30), timedelta(minutes=1))
START = datetime(2030, 1, 1, tzinfo=UTC)
DAY = timedelta(days=1)


def pair(made: datetime = START, hosts: tuple[str, ...] = HOSTS) -> Pair:
    return make_pair(hosts, made, TERMS.lifetime)


def never() -> Pair:
    raise AssertionError("none is due")


def rotated_at(kept: Kept, now: datetime, *, carried: datetime | None = None, make: Any = never) -> Kept:
    return rotated(kept, now, hosts=HOSTS, terms=TERMS, carried_since=carried, make=make)


def handshake(shown: Pair, trusted: bytes, host: str) -> None:
    """In memory; raises ssl.SSLError."""
    client = ssl.create_default_context(cadata=trusted.decode())
    to_server, to_client = ssl.MemoryBIO(), ssl.MemoryBIO()
    one = client.wrap_bio(to_client, to_server, server_hostname=host)
    two = server_context(shown.certificate, shown.key).wrap_bio(to_server, to_client, server_side=True)
    open_ = [one, two]
    while open_:
        for side in list(open_):
            try:
                side.do_handshake()
                open_.remove(side)
            except ssl.SSLWantReadError:
                continue


def test_a_client_that_trusts_the_authority_takes_the_certificate() -> None:
    now = datetime.now(UTC)
    first, second = pair(now), pair(now)
    for host in HOSTS:
        handshake(first, first.authority, host)
        handshake(second, Kept(first, second).bundle, host)
    with pytest.raises(ssl.SSLError, match="CERTIFICATE_VERIFY_FAILED"):
        handshake(first, second.authority, HOSTS[0])
    with pytest.raises(ssl.SSLError, match="CERTIFICATE_VERIFY_FAILED"):
        handshake(first, first.authority, "other.ns.svc")


def test_the_secret_gives_back_what_was_put_into_it() -> None:
    kept = Kept(pair(), pair(), (pair().authority, pair().authority))
    data = {key: value for key, value in write(kept).items() if value is not None}
    assert read(data) == kept
    assert read({}) == Kept()
    gone = write(Kept(kept.current))
    assert {key for key, value in gone.items() if value is None} == {
        "next-ca.crt", "next.crt", "next.key", "previous-ca.crt"
    }  # fmt: skip


@pytest.mark.parametrize("name", ["ca.crt", "tls.crt", "tls.key"])
def test_what_does_not_belong_together_is_not_used(name: str) -> None:
    whole, other = write(Kept(pair())), write(Kept(pair()))
    for value in (other[name], "bm90aGluZw==", "?", ""):
        assert read({key: text or "" for key, text in {**whole, name: value}.items()}).current is None


def test_no_key_is_shown() -> None:
    found = pair()
    assert found.key.decode() not in repr(Kept(found)) and "PRIVATE" not in repr(found)


def test_one_life_after_the_other() -> None:
    first, second = pair(), pair(START + 60 * DAY)
    kept = rotated_at(Kept(), START, make=lambda: first)
    assert kept == Kept(first)
    renewal = next_look(kept, terms=TERMS, carried_since=None)
    assert renewal == START + 60 * DAY
    assert rotated_at(kept, renewal - timedelta(seconds=1)) == kept

    kept = rotated_at(kept, renewal, make=lambda: second)
    assert kept == Kept(first, second)
    assert kept.bundle == b"".join(sorted((first.authority, second.authority)))
    both = kept.bundle
    # Not before every configuration has carried its authority for a while.
    assert rotated_at(kept, renewal + 20 * DAY) == kept
    assert rotated_at(kept, renewal + timedelta(seconds=70), carried=renewal + timedelta(seconds=30)) == kept
    carried = renewal + timedelta(seconds=30)
    due = next_look(kept, terms=TERMS, carried_since=carried)
    assert due == carried + TERMS.settle

    kept = rotated_at(kept, due, carried=carried)
    assert kept == Kept(second, None, (first.authority,))
    assert kept.bundle == both
    # A replica that has not looked yet shows the first: it is trusted until it ends.
    assert next_look(kept, terms=TERMS, carried_since=None) == first.ends
    assert rotated_at(kept, first.ends) == Kept(second)


@pytest.mark.parametrize("age", [0, 89])
def test_what_cannot_be_shown_is_replaced_at_once(age: int) -> None:
    now = START + age * DAY
    fresh = pair(now)
    wrong = pair(hosts=("elsewhere.ns.svc",))
    assert rotated_at(Kept(wrong), now, make=lambda: fresh) == Kept(fresh)
    assert not covers(wrong, HOSTS)
    expired = pair(now - TERMS.lifetime)
    assert rotated_at(Kept(expired, fresh), now) == Kept(fresh)


@pytest.mark.parametrize(
    "variables",
    [
        {"CERTIFICATE_LIFETIME": "0s"},
        {"CERTIFICATE_RENEWAL": "2160h"},
        {"CERTIFICATE_SETTLING": "720h"},
        {"URL": "http://192.0.2.7"},
        {"URL": "192.0.2.7:9443"},
        {"URL": "https://192.0.2.7", "SERVICE": "hooks"},
    ],
)
def test_settings_that_cannot_work_are_refused(
    monkeypatch: pytest.MonkeyPatch, variables: dict[str, str]
) -> None:
    for name, value in variables.items():
        monkeypatch.setenv(f"FOURNOS_WEBHOOK_{name}", value)
    with pytest.raises(ValueError, match=r"(?i)certificate|address|duration|service|nothing"):
        WebhookSettings()


def test_terms_of_the_settings() -> None:
    settings = WebhookSettings()
    assert settings.terms == TERMS
    assert settings.target("ns") is None
    assert WebhookSettings(service="hooks").target("ns").hosts[0] == "hooks.ns.svc"  # type: ignore[union-attr]
