"""The certificate of an HTTPS server: made by one authority of our own, kept in a Secret, renewed, shown.

The authority and the certificate that it signed are in one Secret, which every replica reads.  The earlier
authority stays trusted until it ends, and an authority is replaced long before its end: whoever verifies us
knows the next one months before there is a certificate of it.  So replicas may be at different versions of
the Secret at any time.
"""

from __future__ import annotations

import asyncio
import base64
import ipaddress
import logging
import ssl
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from functools import partial
from typing import Any, Final

from cryptography import x509
from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from fournos.engine.kube.api import Api
from fournos.engine.kube.auth import server_context
from fournos.engine.kube.errors import AlreadyExistsError, ConflictError, KubeError, NotFoundError
from fournos.engine.kube.resource import SECRET, Key, Obj
from fournos.engine.kube.transport import Backoff
from fournos.engine.runtime.clock import Clock

log = logging.getLogger(__name__)

BUNDLE: Final = "ca-bundle.crt"
"""The data key with all authorities that are trusted now, for clients that read the Secret."""
LOOK: Final = 600.0
"""Seconds after which the Secret is read again, because another replica may have renewed what is in it.
A timer does not count suspended time either."""
_AUTHORITY: Final = ("ca.crt", "ca.key")
_SERVING: Final = ("tls.crt", "tls.key")
_SKEW: Final = timedelta(minutes=5)
"""How far the clocks of clients may be behind ours."""


@dataclass(frozen=True, slots=True)
class Terms:
    """How long authority and certificate are valid, and how long before their ends they are renewed.

    An authority is renewed while more than the lifetime of a certificate is left: each certificate ends
    before its authority does.
    """

    authority: timedelta = timedelta(days=5 * 365)
    authority_renewal: timedelta = timedelta(days=180)
    certificate: timedelta = timedelta(days=90)
    certificate_renewal: timedelta = timedelta(days=30)
    settling: timedelta = timedelta(hours=1)
    """The age of an authority from which on it signs a renewed certificate."""


TERMS: Final = Terms()


@dataclass(frozen=True, slots=True)
class Pair:
    """A certificate and its key, as PEM."""

    certificate: bytes
    key: bytes = field(repr=False)

    @property
    def made(self) -> datetime:
        return x509.load_pem_x509_certificate(self.certificate).not_valid_before_utc + _SKEW

    @property
    def ends(self) -> datetime:
        return _end(self.certificate)


@dataclass(frozen=True, slots=True)
class Certificates:
    """The content of the Secret."""

    authority: Pair | None = None
    serving: Pair | None = None
    previous: tuple[bytes, ...] = ()
    """Earlier authorities that have not ended, without their keys."""

    @property
    def bundle(self) -> bytes:
        """All authorities that are trusted now, as PEM."""
        own = (self.authority.certificate,) if self.authority is not None else ()
        return b"".join((*own, *self.previous))


# --- the Secret's data ----------------------------------------------------------------------------


def read(data: Mapping[str, str]) -> Certificates:
    """Reads a Secret's `data`.  A pair that is incomplete or does not match becomes None."""

    def decoded(name: str) -> bytes:
        try:
            return base64.b64decode(data.get(name) or "", validate=True)
        except ValueError:
            return b""

    def pair(names: tuple[str, str]) -> Pair | None:
        found = Pair(*map(decoded, names))
        return found if _fits(found) else None

    authority = pair(_AUTHORITY)
    known = authority.certificate if authority is not None else b""
    return Certificates(
        authority, pair(_SERVING), tuple(one for one in _split(decoded(BUNDLE)) if one != known)
    )


def write(certificates: Certificates) -> dict[str, str]:
    """Returns a Secret's `data`."""
    assert certificates.authority is not None and certificates.serving is not None
    authority, serving = certificates.authority, certificates.serving
    data = {
        **dict(zip(_AUTHORITY, (authority.certificate, authority.key), strict=True)),
        **dict(zip(_SERVING, (serving.certificate, serving.key), strict=True)),
        BUNDLE: certificates.bundle,
    }
    return {name: base64.b64encode(value).decode() for name, value in data.items()}


def _split(bundle: bytes) -> list[bytes]:
    try:
        certificates = x509.load_pem_x509_certificates(bundle)
    except ValueError:
        return []
    return [certificate.public_bytes(serialization.Encoding.PEM) for certificate in certificates]


def _fits(pair: Pair) -> bool:
    try:
        certificate = x509.load_pem_x509_certificate(pair.certificate)
        key = serialization.load_pem_private_key(pair.key, None)
    except (ValueError, TypeError):
        return False
    form = (serialization.Encoding.DER, serialization.PublicFormat.SubjectPublicKeyInfo)
    return key.public_key().public_bytes(*form) == certificate.public_key().public_bytes(*form)


def _end(certificate: bytes) -> datetime:
    return x509.load_pem_x509_certificate(certificate).not_valid_after_utc


# --- renewal --------------------------------------------------------------------------------------


def renewed(
    certificates: Certificates, now: datetime, *, hosts: Sequence[str], terms: Terms = TERMS
) -> Certificates:
    """Returns the content with what is due made anew; the same content if nothing is."""
    authority, serving = (
        pair if pair is not None and pair.ends > now else None
        for pair in (certificates.authority, certificates.serving)
    )
    previous = tuple(one for one in certificates.previous if _end(one) > now)
    if authority is None or authority.ends - now <= terms.authority_renewal:
        if authority is not None:
            previous = (authority.certificate, *previous)
        authority = make_authority(now, terms.authority)
    elif serving is not None and now >= _renewal(authority, serving, terms):
        serving = None
    if serving is not None and not (
        covers(serving, hosts) and trusts(Certificates(authority, None, previous).bundle, serving)
    ):
        serving = None
    return Certificates(
        authority, serving or make_certificate(authority, hosts, now, terms.certificate), previous
    )


def next_look(certificates: Certificates, *, terms: Terms = TERMS) -> datetime:
    """Returns the time at which `renewed` will return something else without any other change."""
    authority, serving = certificates.authority, certificates.serving
    assert authority is not None and serving is not None
    return min(
        _renewal(authority, serving, terms),
        authority.ends - terms.authority_renewal,
        *map(_end, certificates.previous),
    )


def _renewal(authority: Pair, serving: Pair, terms: Terms) -> datetime:
    """Returns when the certificate is renewed: not with an authority that is so new that some do not trust
    it yet.
    """
    return max(serving.ends - terms.certificate_renewal, authority.made + terms.settling)


def covers(pair: Pair, hosts: Sequence[str]) -> bool:
    """True if the certificate is valid for all these names and addresses."""
    extensions = x509.load_pem_x509_certificate(pair.certificate).extensions
    try:
        names = extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    except x509.ExtensionNotFound:
        return False
    return {_general_name(host) for host in hosts} <= set(names)


def trusts(bundle: bytes, pair: Pair) -> bool:
    """True if an authority of the bundle issued the certificate."""
    certificate = x509.load_pem_x509_certificate(pair.certificate)
    for authority in _split(bundle):
        try:
            certificate.verify_directly_issued_by(x509.load_pem_x509_certificate(authority))
        except (ValueError, TypeError, InvalidSignature):
            continue
        return True
    return False


# --- making ---------------------------------------------------------------------------------------


def make_authority(now: datetime, lifetime: timedelta = TERMS.authority) -> Pair:
    """Creates an authority."""
    key = ec.generate_private_key(ec.SECP256R1())
    # A unique name: a bundle may contain several authorities, and a verifier finds them by name.
    name = _name(f"fournos-{x509.random_serial_number():x}"[:48])
    authority = (
        _builder(name, name, key.public_key(), now, lifetime)
        .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        .add_extension(_usage(authority=True), critical=True)
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(key.public_key()), critical=False)
        .sign(key, hashes.SHA256())
    )
    return _pair(authority, key)


def make_certificate(
    authority: Pair, hosts: Sequence[str], now: datetime, lifetime: timedelta = TERMS.certificate
) -> Pair:
    """Creates a certificate, signed by the authority, for these DNS names and addresses."""
    issuer = x509.load_pem_x509_certificate(authority.certificate)
    issuer_key = serialization.load_pem_private_key(authority.key, None)
    assert isinstance(issuer_key, ec.EllipticCurvePrivateKey)
    identifier = issuer.extensions.get_extension_for_class(x509.SubjectKeyIdentifier).value
    key = ec.generate_private_key(ec.SECP256R1())
    certificate = (
        _builder(_name("fournos"), issuer.subject, key.public_key(), now, lifetime)
        .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
        .add_extension(_usage(authority=False), critical=True)
        .add_extension(x509.ExtendedKeyUsage([ExtendedKeyUsageOID.SERVER_AUTH]), critical=False)
        .add_extension(x509.SubjectAlternativeName([_general_name(host) for host in hosts]), critical=False)
        .add_extension(
            x509.AuthorityKeyIdentifier.from_issuer_subject_key_identifier(identifier), critical=False
        )
        .sign(issuer_key, hashes.SHA256())
    )
    return _pair(certificate, key)


def _pair(certificate: x509.Certificate, key: ec.EllipticCurvePrivateKey) -> Pair:
    pem, form = serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8
    return Pair(certificate.public_bytes(pem), key.private_bytes(pem, form, serialization.NoEncryption()))


def _name(text: str) -> x509.Name:
    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, text)])


def _general_name(host: str) -> x509.GeneralName:
    try:
        return x509.IPAddress(ipaddress.ip_address(host))
    except ValueError:
        return x509.DNSName(host)


def _usage(*, authority: bool) -> x509.KeyUsage:
    return x509.KeyUsage(
        digital_signature=not authority,
        key_cert_sign=authority,
        crl_sign=False,
        content_commitment=False,
        key_encipherment=False,
        data_encipherment=False,
        key_agreement=False,
        encipher_only=False,
        decipher_only=False,
    )


def _builder(
    subject: x509.Name, issuer: x509.Name, key: ec.EllipticCurvePublicKey, now: datetime, lifetime: timedelta
) -> x509.CertificateBuilder:
    return (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer)
        .public_key(key)
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - _SKEW)
        .not_valid_after(now + lifetime)
    )


# --- serving --------------------------------------------------------------------------------------


class ServingCertificate:
    """The TLS context of a server, created with the first certificate; a change closes no connection."""

    def __init__(self) -> None:
        self._context: ssl.SSLContext | None = None
        """The one that the server listens with.  It hands each new connection to the present one."""
        self._present: ssl.SSLContext | None = None
        self._pair: Pair | None = None
        self._authorities = ""
        self._mode = ssl.CERT_NONE
        self._there = asyncio.Event()

    def show(self, pair: Pair) -> None:
        """Uses this certificate for new connections; open connections continue."""
        self._pair = pair
        self._renew()

    def trust(self, authorities: bytes, *, required: bool) -> None:
        """Accepts client certificates of these authorities (PEM), and of no others, on new connections.

        `required`: a client without one is refused.  Raises ValueError for what is no PEM.
        """
        text = authorities.decode("ascii")
        if text != self._authorities:
            try:
                ssl.create_default_context(cadata=text)
            except ssl.SSLError as error:
                raise ValueError("the authorities of clients are not PEM certificates") from error
            self._authorities, self._mode = text, ssl.CERT_REQUIRED if required else ssl.CERT_OPTIONAL
            self._renew()

    def _renew(self) -> None:
        # A new context each time: an authority cannot be taken out of one.
        if self._pair is None:
            return
        self._present = server_context(self._pair.certificate, self._pair.key)
        if self._authorities:
            self._present.load_verify_locations(cadata=self._authorities)
        if self._context is None:
            self._context = self._present
            self._context.sni_callback = self._hand_over
            self._there.set()
        self._context.verify_mode = self._present.verify_mode = self._mode

    def _hand_over(self, connection: Any, _name: str | None, _context: ssl.SSLContext) -> None:
        connection.context = self._present

    async def context(self) -> ssl.SSLContext:
        """Returns the TLS context to listen with, once there is a first certificate."""
        await self._there.wait()
        assert self._context is not None
        return self._context


def serving_tasks(
    name: str,
    serve: Callable[[ServingCertificate], Awaitable[None]],
    api: Api,
    secret: Key,
    *,
    hosts: Sequence[str],
    clock: Clock,
    publish: Callable[[bytes], Awaitable[None]] | None = None,
) -> dict[str, Callable[[], Awaitable[None]]]:
    """Returns the tasks of an HTTPS server by name: the server itself, and the rotator of its certificate."""
    certificate = ServingCertificate()
    rotator = CertRotator(
        api, secret, hosts=hosts, clock=clock, name=name, show=certificate.show, publish=publish
    )
    return {name: partial(serve, certificate), f"{name}-certificate": rotator.run}


class CertRotator:
    """Keeps the certificate of a server in its Secret, and serves the present one.  Runs on every replica.

    The Secret is read on demand and not watched, so that no right to list Secrets is needed.
    """

    def __init__(
        self,
        api: Api,
        secret: Key,
        *,
        hosts: Sequence[str],
        clock: Clock,
        name: str,
        show: Callable[[Pair], None],
        publish: Callable[[bytes], Awaitable[None]] | None = None,
        terms: Terms = TERMS,
    ) -> None:
        """`name` of the server begins its log lines.

        `show(pair)` is called with each certificate to serve from now on.  `publish(bundle)` is called before
        it, at each look: it gives the authorities to those who must trust them, and may raise KubeErrors.
        """
        self._api = api
        self._key = secret
        self._hosts = hosts
        self._clock = clock
        self._name = name
        self._show = show
        self._publish = publish
        self._terms = terms
        self._wake = asyncio.Event()
        self.shown: Pair | None = None
        self.bundle = b""
        """The authorities that are trusted, as of the last look."""
        self.problem = ""
        """Why the last look failed."""

    def look(self) -> None:
        """Causes a look at once."""
        self._wake.set()

    async def run(self) -> None:
        """Runs until cancelled."""
        backoff = Backoff()
        while True:
            self._wake.clear()
            try:
                wait = await self._pass()
                self.problem = ""
                backoff.reset()
            except ConflictError:
                wait = backoff.next()
            except KubeError as error:
                wait = backoff.next()
                self._report(f"{type(error).__name__}: {error.message}")
            except Exception as error:  # what somebody has written into the Secret must not end the process
                log.exception("%s: the certificate in Secret %s", self._name, self._key)
                wait = backoff.next()
                self._report(f"unexpected {type(error).__name__}")
            try:
                async with asyncio.timeout(wait):
                    await self._wake.wait()
            except TimeoutError:
                continue

    async def _pass(self) -> float:
        """Renews, publishes and serves what is due; returns the seconds until the next look."""
        certificates = await self._renewed()
        self.bundle = certificates.bundle
        assert certificates.serving is not None
        try:
            if self._publish is not None:
                await self._publish(self.bundle)
        finally:
            # After it is published if possible: a client must trust the authority before its certificate.
            self._present(certificates.serving)
        left = next_look(certificates, terms=self._terms) - self._clock.now()
        return min(LOOK, max(0.1, left.total_seconds()))

    def _present(self, pair: Pair) -> None:
        if pair != self.shown:
            self._show(pair)
            self.shown = pair
            log.info("%s: serving with a certificate that ends %s", self._name, pair.ends.isoformat())

    def _report(self, problem: str) -> None:
        if problem != self.problem:
            log.warning("%s: the certificate in Secret %s: %s", self._name, self._key, problem)
        self.problem = problem

    async def _renewed(self) -> Certificates:
        """Renews what is due and returns the content of the Secret.

        The first replica to find something due makes it.  If two do so at once, the resourceVersion lets only
        one write succeed.  Raises ConflictError if another replica wrote first, and other KubeErrors.
        """
        try:
            secret: Obj | None = await self._api.get(SECRET, self._key)
        except NotFoundError:
            secret = None
        before = read((secret or {}).get("data") or {})
        after = renewed(before, self._clock.now(), hosts=self._hosts, terms=self._terms)
        if after != before:
            await self._store(secret, write(after))
        return after

    async def _store(self, secret: Obj | None, data: Mapping[str, str]) -> None:
        if secret is not None:
            version = {"resourceVersion": secret["metadata"]["resourceVersion"]}
            await self._api.patch(SECRET, self._key, {"metadata": version, "data": data})
            return
        body = {
            "apiVersion": SECRET.api_version,
            "kind": SECRET.kind,
            "metadata": {"namespace": self._key.namespace, "name": self._key.name},
            "type": "Opaque",
            "data": data,
        }
        try:
            await self._api.create(SECRET, body)
        except AlreadyExistsError as error:
            raise ConflictError(error.message) from error
