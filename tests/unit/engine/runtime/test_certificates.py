"""The certificate of an HTTPS server: what a client takes, kept in a Secret, renewed without a gap."""

from __future__ import annotations

import asyncio
import base64
import ssl
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from fournos.engine.kube.auth import client_context, server_context
from fournos.engine.kube.errors import ForbiddenError
from fournos.engine.kube.resource import SECRET, Key
from fournos.engine.runtime.certificates import (
    BUNDLE,
    LOOK,
    TERMS,
    Certificates,
    CertRotator,
    Pair,
    ServingCertificate,
    Terms,
    covers,
    make_authority,
    make_certificate,
    next_look,
    read,
    renewed,
    trusts,
    write,
)
from tests.fakes.pki import Authority
from tests.unit.engine.runtime.loop import LoopClock
from tests.world.connection import Connection
from tests.world.server import Server

HOSTS = ("hooks.ns.svc", "192.0.2.7")
START = datetime(2030, 1, 1, tzinfo=UTC)
DAY, SECOND = timedelta(days=1), timedelta(seconds=1)


def made(now: datetime = START, hosts: tuple[str, ...] = HOSTS) -> Certificates:
    return renewed(Certificates(), now, hosts=hosts)


def handshake(shown: Pair | None, trusted: bytes, host: str) -> None:
    """In memory; raises ssl.SSLError."""
    assert shown is not None
    client = ssl.create_default_context(cadata=trusted.decode())
    connect(client, server_context(shown.certificate, shown.key), host)


def connect(client: ssl.SSLContext, server: ssl.SSLContext, host: str) -> Any:
    """Returns the server's side of a new connection in memory.  Raises ssl.SSLError."""
    to_server, to_client = ssl.MemoryBIO(), ssl.MemoryBIO()
    one = client.wrap_bio(to_client, to_server, server_hostname=host)
    two = server.wrap_bio(to_server, to_client, server_side=True)
    open_ = [one, two]
    while open_:
        for side in list(open_):
            try:
                side.do_handshake()
                open_.remove(side)
            except ssl.SSLWantReadError:
                continue
    return two


@pytest.mark.parametrize("trusted_first", [True, False])
async def test_authorities_of_clients_are_replaced_while_it_listens(trusted_first: bool) -> None:
    now = datetime.now(UTC)
    shown, old, new = made(now), Authority("front-proxy"), Authority("next-front-proxy")
    certificate = ServingCertificate()
    assert shown.serving is not None

    def common_name(authority: Authority) -> object:
        pair = authority.issue("api-server")
        client = client_context(ca=shown.bundle, certificate=pair.certificate, key=pair.key)
        found = connect(client, context, HOSTS[0]).getpeercert()
        return found and dict(part[0] for part in found["subject"])["commonName"]

    if trusted_first:
        certificate.trust(old.certificate, required=False)
    certificate.show(shown.serving)
    certificate.trust(old.certificate, required=False)
    context = await certificate.context()
    assert common_name(old) == "api-server"
    with pytest.raises(ssl.SSLError):
        common_name(new)
    certificate.trust(new.certificate, required=False)
    assert common_name(new) == "api-server"
    with pytest.raises(ssl.SSLError):
        common_name(old)
    certificate.show(shown.serving)  # a renewal keeps whom it trusts
    assert common_name(new) == "api-server"
    with pytest.raises(ValueError):
        certificate.trust(b"no PEM", required=False)
    assert common_name(new) == "api-server"


def test_a_client_that_trusts_the_authority_takes_the_certificate() -> None:
    now = datetime.now(UTC)
    first, second = made(now), made(now)
    for host in HOSTS:
        handshake(first.serving, first.bundle, host)
        handshake(second.serving, first.bundle + second.bundle, host)
    with pytest.raises(ssl.SSLError, match="CERTIFICATE_VERIFY_FAILED"):
        handshake(first.serving, second.bundle, HOSTS[0])
    with pytest.raises(ssl.SSLError, match="CERTIFICATE_VERIFY_FAILED"):
        handshake(first.serving, first.bundle, "other.ns.svc")


def test_the_secret_gives_back_what_was_put_into_it() -> None:
    one = made()
    kept = Certificates(one.authority, one.serving, (made().bundle, made().bundle))
    assert read(write(kept)) == kept
    assert read({}) == Certificates()
    assert b"PRIVATE" not in base64.b64decode(write(kept)[BUNDLE])


@pytest.mark.parametrize(("name", "part"), [("ca", "authority"), ("tls", "serving")])
@pytest.mark.parametrize("half", ["crt", "key"])
def test_what_does_not_belong_together_is_not_used(name: str, part: str, half: str) -> None:
    whole, other = write(made()), write(made())
    for value in (other[f"{name}.{half}"], "bm90aGluZw==", "?", ""):
        assert getattr(read({**whole, f"{name}.{half}": value}), part) is None


def test_no_key_is_shown() -> None:
    found = made()
    assert found.serving is not None
    assert found.serving.key.decode() not in repr(found) and "PRIVATE" not in repr(found)


def test_certificates_are_renewed_in_time_by_the_same_authority() -> None:
    first = made()
    due = next_look(first)
    assert due == START + 60 * DAY
    assert renewed(first, due - SECOND, hosts=HOSTS) == first
    second = renewed(first, due, hosts=HOSTS)
    assert second.authority == first.authority and second.bundle == first.bundle
    assert second.serving is not None and second.serving.ends == due + 90 * DAY


def test_an_authority_is_known_long_before_it_signs() -> None:
    authority = make_authority(START)
    due = authority.ends - TERMS.authority_renewal
    before = Certificates(authority, make_certificate(authority, HOSTS, due - 60 * DAY))
    assert next_look(before) == due
    # Both are due: only the authority is replaced.
    after = renewed(before, due, hosts=HOSTS)
    assert after.authority != authority and after.previous == (authority.certificate,)
    assert after.serving == before.serving
    # A replica may still show the certificate of the earlier one: it is trusted.
    assert after.serving is not None and trusts(after.bundle, after.serving)
    settled = next_look(after)
    assert settled == due + TERMS.settling
    assert renewed(after, settled - SECOND, hosts=HOSTS) == after
    last = renewed(after, settled, hosts=HOSTS)
    assert last.serving is not None and last.authority is not None
    assert trusts(last.authority.certificate, last.serving) and last.bundle == after.bundle
    assert renewed(last, authority.ends, hosts=HOSTS).previous == ()


@pytest.mark.parametrize("age", [0, 89])
def test_what_cannot_be_shown_is_replaced_at_once(age: int) -> None:
    now = START + age * DAY
    wrong = made(hosts=("elsewhere.ns.svc",))
    assert wrong.serving is not None and not covers(wrong.serving, HOSTS)
    foreign = Certificates(wrong.authority, made().serving)
    ended = Certificates(make_authority(now - TERMS.authority), made(now).serving)
    for unusable in (wrong, foreign, ended):
        fresh = renewed(unusable, now, hosts=HOSTS)
        assert fresh.serving is not None and covers(fresh.serving, HOSTS)
        assert trusts(fresh.bundle, fresh.serving)


# --- replicas -------------------------------------------------------------------------------------

KEY = Key("ns", "cert")
HOUR = 3600.0
SHORT = Terms(
    authority=timedelta(hours=48),
    authority_renewal=timedelta(hours=24),
    certificate=timedelta(hours=12),
    certificate_renewal=timedelta(hours=4),
)


class Replica:
    def __init__(self, api: Connection, publish: Callable[[bytes], Awaitable[None]] | None = None) -> None:
        self.shown: list[Pair] = []
        self.rotator = CertRotator(
            api,
            KEY,
            hosts=HOSTS,
            clock=LoopClock(),
            name="history",
            show=self.shown.append,
            publish=publish,
            terms=SHORT,
        )

    @asynccontextmanager
    async def running(self) -> AsyncIterator[Replica]:
        task = asyncio.create_task(self.rotator.run())
        await asyncio.sleep(5)
        try:
            yield self
        finally:
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)


def trusted(server: Server) -> bytes:
    return base64.b64decode(server.get(SECRET, KEY)["data"][BUNDLE])


@pytest.mark.looptime
async def test_replicas_show_one_certificate() -> None:
    server = Server()
    async with Replica(Connection(server)).running() as one, Replica(Connection(server)).running() as two:
        await asyncio.sleep(60)  # the one that lost the race to create it reads it
        assert one.shown[-1] == two.shown[-1]
        assert covers(one.shown[-1], HOSTS) and trusts(trusted(server), one.shown[-1])


@pytest.mark.looptime
async def test_replicas_trust_each_other_through_every_renewal() -> None:
    server = Server()
    async with Replica(Connection(server)).running() as one, Replica(Connection(server)).running() as two:
        for _ in range(100):
            before = trusted(server)
            await asyncio.sleep(LOOK)
            for replica in (one, two):
                assert trusts(trusted(server), replica.shown[-1])
                assert trusts(before, replica.shown[-1])
        assert len(one.shown) >= 2
        await asyncio.sleep(40 * HOUR)
        assert one.shown[-1] == two.shown[-1]


@pytest.mark.looptime
async def test_without_the_right_to_the_secret_one_warning_is_logged_and_it_is_tried_again(
    caplog: pytest.LogCaptureFixture,
) -> None:
    api = Connection(Server())
    allowed = api.get

    async def refused(*_: object) -> None:
        raise ForbiddenError("secrets is forbidden", status=403)

    api.get = refused  # type: ignore[method-assign,assignment]
    replica = Replica(api)
    async with replica.running():
        await asyncio.sleep(120)
        assert replica.shown == []
        assert [record.message for record in caplog.records if record.levelname == "WARNING"] == [
            "history: the certificate in Secret ns/cert: ForbiddenError: secrets is forbidden"
        ]
        api.get = allowed  # type: ignore[method-assign]
        await asyncio.sleep(60)
        assert replica.shown


@pytest.mark.looptime
async def test_an_authority_is_published_before_its_certificate_is_shown() -> None:
    published: list[bytes] = []
    shown_before: list[int] = []

    async def publish(bundle: bytes) -> None:
        published.append(bundle)
        shown_before.append(len(replica.shown))

    replica = Replica(Connection(Server()), publish)
    async with replica.running():
        assert shown_before == [0]
        assert trusts(published[-1], replica.shown[-1])
