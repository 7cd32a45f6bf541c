"""The serving certificate and its authorities: created, kept in one Secret, rotated.  Pure.

Each serving certificate has an authority of its own, whose key is discarded at once.  Who reads the Secret
can therefore impersonate this server but sign nothing else.  Each renewal replaces the authority, in this
order:

    next is created → its authority is in every caBundle, beside the current one → after a while next is
    served → the earlier authority remains in the bundle until it expires

Replicas that have not read the Secret yet serve the earlier certificate, which is still trusted.
"""

from __future__ import annotations

import base64
import ipaddress
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from typing import Final

from cryptography import x509
from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

_SKEW: Final = timedelta(minutes=5)
"""How far the clocks of API servers may be behind ours."""
_DATA: Final = {
    "current": ("ca.crt", "tls.crt", "tls.key"),
    "next": ("next-ca.crt", "next.crt", "next.key"),
}
_PREVIOUS: Final = "previous-ca.crt"


@dataclass(frozen=True, slots=True)
class Terms:
    """The durations of the rotation."""

    lifetime: timedelta = timedelta(days=90)
    renew_before: timedelta = timedelta(days=30)
    """Time before the end of the current certificate at which the next one is created."""
    settle: timedelta = timedelta(minutes=1)
    """How long a new authority is in the bundles before its certificate is served, because API servers
    receive the configurations by watch."""


@dataclass(frozen=True, slots=True)
class Pair:
    """A serving certificate, its key and its authority, as PEM."""

    authority: bytes
    certificate: bytes
    key: bytes = field(repr=False)

    @property
    def ends(self) -> datetime:
        return _end(self.certificate)


@dataclass(frozen=True, slots=True)
class Kept:
    """The content of the Secret."""

    current: Pair | None = None
    next: Pair | None = None
    previous: tuple[bytes, ...] = ()
    """Authorities of earlier certificates."""

    @property
    def bundle(self) -> bytes:
        """All authorities that are trusted now, as PEM; the order does not depend on which is current."""
        pairs = [pair.authority for pair in (self.current, self.next) if pair is not None]
        return b"".join(sorted({*pairs, *self.previous}))


# --- the Secret -----------------------------------------------------------------------------------


def read(data: Mapping[str, str]) -> Kept:
    """Reads a Secret's `data`.  A pair that is incomplete or does not match becomes None."""

    def decoded(name: str) -> bytes:
        try:
            return base64.b64decode(data.get(name) or "", validate=True)
        except ValueError:
            return b""

    def pair(name: str) -> Pair | None:
        found = Pair(*map(decoded, _DATA[name]))
        return found if _fits(found) else None

    return Kept(pair("current"), pair("next"), tuple(_split(decoded(_PREVIOUS))))


def write(certificates: Kept) -> dict[str, str | None]:
    """Returns the merge patch to a Secret's `data`."""
    patch: dict[str, str | None] = {}
    for name, pair in (("current", certificates.current), ("next", certificates.next)):
        values = (pair.authority, pair.certificate, pair.key) if pair is not None else (None, None, None)
        patch |= {key: _encoded(value) for key, value in zip(_DATA[name], values, strict=True)}
    return {**patch, _PREVIOUS: _encoded(b"".join(certificates.previous) or None)}


def _encoded(value: bytes | None) -> str | None:
    return None if value is None else base64.b64encode(value).decode()


def _split(bundle: bytes) -> list[bytes]:
    try:
        certificates = x509.load_pem_x509_certificates(bundle)
    except ValueError:
        return []
    return [certificate.public_bytes(serialization.Encoding.PEM) for certificate in certificates]


def _fits(pair: Pair) -> bool:
    try:
        authority, certificate = map(x509.load_pem_x509_certificate, (pair.authority, pair.certificate))
        key = serialization.load_pem_private_key(pair.key, None)
        certificate.verify_directly_issued_by(authority)
    except (ValueError, TypeError, InvalidSignature):
        return False
    form = (serialization.Encoding.DER, serialization.PublicFormat.SubjectPublicKeyInfo)
    return key.public_key().public_bytes(*form) == certificate.public_key().public_bytes(*form)


def _end(certificate: bytes) -> datetime:
    return x509.load_pem_x509_certificate(certificate).not_valid_after_utc


# --- the rotation ---------------------------------------------------------------------------------


def rotated(
    certificates: Kept,
    now: datetime,
    *,
    hosts: Sequence[str],
    terms: Terms,
    carried_since: datetime | None,
    make: Callable[[], Pair],
) -> Kept:
    """Returns the content that the Secret should have now; the same if nothing is due.

    `carried_since`: the time since which every webhook configuration has contained the next authority; None:
    not yet.
    """
    current, following = (
        pair if pair is not None and pair.ends > now and covers(pair, hosts) else None
        for pair in (certificates.current, certificates.next)
    )
    previous = [authority for authority in certificates.previous if _end(authority) > now]
    if current is None:
        # There is no valid certificate to serve, so there is no time for a rotation.
        return Kept(following or make(), None, tuple(previous))
    if following is None:
        if now >= _renewal(current, terms):
            following = make()
    elif carried_since is not None and now >= carried_since + terms.settle:
        return Kept(following, None, (current.authority, *previous))
    return replace(certificates, next=following, previous=tuple(previous))


def next_look(certificates: Kept, *, terms: Terms, carried_since: datetime | None) -> datetime:
    """Returns the time at which `rotated` will return something else without any other change."""
    assert certificates.current is not None
    moments = [certificates.current.ends, *map(_end, certificates.previous)]
    if certificates.next is None:
        moments.append(_renewal(certificates.current, terms))
    elif carried_since is not None:
        moments.append(carried_since + terms.settle)
    return min(moments)


def _renewal(pair: Pair, terms: Terms) -> datetime:
    return pair.ends - terms.renew_before


def covers(pair: Pair, hosts: Sequence[str]) -> bool:
    """True if the certificate is valid for all these names and addresses."""
    extensions = x509.load_pem_x509_certificate(pair.certificate).extensions
    try:
        names = extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    except x509.ExtensionNotFound:
        return False
    return {_general_name(host) for host in hosts} <= set(names)


# --- making ---------------------------------------------------------------------------------------


def make_pair(hosts: Sequence[str], now: datetime, lifetime: timedelta) -> Pair:
    """Creates an authority and a certificate signed by it for these DNS names and addresses."""
    authority_key, key = ec.generate_private_key(ec.SECP256R1()), ec.generate_private_key(ec.SECP256R1())
    # A unique name: a bundle may contain several authorities, and a verifier finds them by name.
    issuer = _name(f"fournos-webhooks-{x509.random_serial_number():x}"[:48])
    issuer_id = x509.SubjectKeyIdentifier.from_public_key(authority_key.public_key())
    authority = (
        _builder(issuer, issuer, authority_key.public_key(), now, lifetime)
        .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        .add_extension(_usage(authority=True), critical=True)
        .add_extension(issuer_id, critical=False)
        .sign(authority_key, hashes.SHA256())
    )
    certificate = (
        _builder(_name("fournos-webhooks"), issuer, key.public_key(), now, lifetime)
        .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
        .add_extension(_usage(authority=False), critical=True)
        .add_extension(x509.ExtendedKeyUsage([ExtendedKeyUsageOID.SERVER_AUTH]), critical=False)
        .add_extension(x509.SubjectAlternativeName([_general_name(host) for host in hosts]), critical=False)
        .add_extension(
            x509.AuthorityKeyIdentifier.from_issuer_subject_key_identifier(issuer_id), critical=False
        )
        .sign(authority_key, hashes.SHA256())
    )
    pem = serialization.Encoding.PEM
    return Pair(
        authority.public_bytes(pem),
        certificate.public_bytes(pem),
        key.private_bytes(pem, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()),
    )


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
