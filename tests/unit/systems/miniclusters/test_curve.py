"""The CURVE certificate: keys that libzmq and CZMQ would take."""

from __future__ import annotations

import re

import pytest
from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey, X25519PublicKey
from hypothesis import given
from hypothesis import strategies as st

from fournos.systems.miniclusters.broker import certificate, z85

_ALPHABET = "0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ.-:+=^!/*?&<>()[]{}@%$#"


def decoded(text: str) -> bytes:
    found = b""
    for start in range(0, len(text), 5):
        word = 0
        for char in text[start : start + 5]:
            word = word * 85 + _ALPHABET.index(char)
        found += word.to_bytes(4, "big")
    return found


def test_the_example_of_rfc_32() -> None:
    assert z85(bytes.fromhex("864FD26FB559F75B")) == "HelloWorld"


@given(st.binary(max_size=64).filter(lambda data: len(data) % 4 == 0))
def test_z85_comes_back(data: bytes) -> None:
    assert decoded(z85(data)) == data


def test_a_length_that_z85_cannot_encode() -> None:
    with pytest.raises(ValueError, match="multiples of four"):
        z85(b"abc")


def keys(text: str) -> dict[str, str]:
    return dict(re.findall(r'^    (public-key|secret-key) = "(.{40})"$', text, re.MULTILINE))


def test_the_public_key_belongs_to_the_secret_one() -> None:
    """The public key is the secret one times the base point 9 (RFC 7748)."""
    secret = bytes(range(1, 33))
    found = keys(certificate(secret, host="flux-sample-0"))
    base = X25519PublicKey.from_public_bytes((9).to_bytes(32, "little"))
    assert decoded(found["secret-key"]) == secret
    assert decoded(found["public-key"]) == X25519PrivateKey.from_private_bytes(secret).exchange(base)


def test_the_file_is_one_of_czmq() -> None:
    text = certificate(bytes(range(32)), host="flux-sample-0")
    sections = [line for line in text.splitlines() if line and not line.startswith((" ", "#"))]
    assert sections == ["metadata", "curve"]
    assert '    keygen.hostname = "flux-sample-0"' in text


def test_keys_of_another_length() -> None:
    with pytest.raises(ValueError, match="32 bytes"):
        certificate(b"short", host="h")
