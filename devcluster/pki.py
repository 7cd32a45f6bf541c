"""The certificates of a cluster: one CA, another CA for the aggregation layer, all ECDSA."""

from __future__ import annotations

import base64
import datetime
from collections.abc import Sequence
from dataclasses import dataclass
from ipaddress import ip_address
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

_VALID_FOR = datetime.timedelta(days=365)


@dataclass(frozen=True)
class Pair:
    """A certificate with its key."""

    certificate: x509.Certificate
    key: ec.EllipticCurvePrivateKey

    @property
    def certificate_pem(self) -> bytes:
        return self.certificate.public_bytes(serialization.Encoding.PEM)

    @property
    def key_pem(self) -> bytes:
        return self.key.private_bytes(
            serialization.Encoding.PEM,
            serialization.PrivateFormat.PKCS8,
            serialization.NoEncryption(),
        )

    def write(self, directory: Path, name: str) -> None:
        """Writes `<name>.crt` and, readable by its owner alone, `<name>.key`."""
        directory.mkdir(parents=True, exist_ok=True)
        (directory / f"{name}.crt").write_bytes(self.certificate_pem)
        key_file = directory / f"{name}.key"
        key_file.touch(mode=0o600)
        key_file.write_bytes(self.key_pem)


def authority(common_name: str) -> Pair:
    """Returns a self-signed CA with the key usages and identifiers that Python ≥ 3.13 requires."""
    key = ec.generate_private_key(ec.SECP256R1())
    builder = _builder(common_name, [], key.public_key(), issuer=_name(common_name, []))
    builder = builder.add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
    builder = builder.add_extension(_usage(ca=True), critical=True)
    return Pair(builder.sign(key, hashes.SHA256()), key)


def issue(
    ca: Pair,
    common_name: str,
    *,
    organizations: Sequence[str] = (),
    hosts: Sequence[str] = (),
    until: datetime.datetime | None = None,
) -> Pair:
    """Issues a certificate for a client and, with `hosts` (names and addresses), for a server."""
    key = ec.generate_private_key(ec.SECP256R1())
    builder = _builder(
        common_name, organizations, key.public_key(), issuer=ca.certificate.subject, until=until
    )
    builder = builder.add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
    builder = builder.add_extension(_usage(ca=False), critical=True)
    builder = builder.add_extension(
        x509.ExtendedKeyUsage([ExtendedKeyUsageOID.CLIENT_AUTH, ExtendedKeyUsageOID.SERVER_AUTH]),
        critical=False,
    )
    builder = builder.add_extension(
        x509.AuthorityKeyIdentifier.from_issuer_public_key(ca.key.public_key()), critical=False
    )
    if hosts:
        builder = builder.add_extension(
            x509.SubjectAlternativeName([_general_name(host) for host in hosts]), critical=False
        )
    return Pair(builder.sign(ca.key, hashes.SHA256()), key)


def write_service_account_key(directory: Path) -> None:
    """Writes the key pair that signs the tokens of service accounts: `sa.key`, `sa.pub`."""
    key = ec.generate_private_key(ec.SECP256R1())
    private = directory / "sa.key"
    private.touch(mode=0o600)
    private.write_bytes(
        key.private_bytes(
            serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
        )
    )
    (directory / "sa.pub").write_bytes(
        key.public_key().public_bytes(
            serialization.Encoding.PEM, serialization.PublicFormat.SubjectPublicKeyInfo
        )
    )


def kubeconfig(*, name: str, server: str, ca: Pair, client: Pair) -> str:
    """Returns a kubeconfig (YAML) with inline data, so that a copy of the text can be used anywhere."""

    def encoded(data: bytes) -> str:
        return base64.b64encode(data).decode()

    return f"""\
apiVersion: v1
kind: Config
current-context: {name}
clusters:
- name: {name}
  cluster:
    server: {server}
    certificate-authority-data: {encoded(ca.certificate_pem)}
users:
- name: admin
  user:
    client-certificate-data: {encoded(client.certificate_pem)}
    client-key-data: {encoded(client.key_pem)}
contexts:
- name: {name}
  context:
    cluster: {name}
    user: admin
"""


def _builder(
    common_name: str,
    organizations: Sequence[str],
    public_key: ec.EllipticCurvePublicKey,
    *,
    issuer: x509.Name,
    until: datetime.datetime | None = None,
) -> x509.CertificateBuilder:
    now = datetime.datetime.now(datetime.UTC)
    return (
        x509.CertificateBuilder()
        .subject_name(_name(common_name, organizations))
        .issuer_name(issuer)
        .public_key(public_key)
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - datetime.timedelta(hours=1))
        .not_valid_after(until or now + _VALID_FOR)
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(public_key), critical=False)
    )


def _name(common_name: str, organizations: Sequence[str]) -> x509.Name:
    attributes = [x509.NameAttribute(NameOID.ORGANIZATION_NAME, each) for each in organizations]
    return x509.Name([*attributes, x509.NameAttribute(NameOID.COMMON_NAME, common_name)])


def _usage(*, ca: bool) -> x509.KeyUsage:
    return x509.KeyUsage(
        digital_signature=True,
        content_commitment=False,
        key_encipherment=not ca,
        data_encipherment=False,
        key_agreement=False,
        key_cert_sign=ca,
        crl_sign=ca,
        encipher_only=False,
        decipher_only=False,
    )


def _general_name(host: str) -> x509.GeneralName:
    try:
        return x509.IPAddress(ip_address(host))
    except ValueError:
        return x509.DNSName(host)
