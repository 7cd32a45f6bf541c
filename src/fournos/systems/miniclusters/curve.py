"""The CURVE certificate with which the brokers authenticate (ZeroMQ's CURVE, RFC 26; Z85, RFC 32).

A CURVE key pair is a Curve25519 key pair. The file has the format of CZMQ's certificates (ZPL, RFC 4), which
Flux reads. All brokers of an instance share one certificate.
"""

from __future__ import annotations

import struct
from typing import Final

from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat

KEY_BYTES: Final = 32
_Z85: Final = "0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ.-:+=^!/*?&<>()[]{}@%$#"


def z85(data: bytes) -> str:
    """Returns the Z85 text of the bytes: five characters for every four bytes.

    Raises ValueError unless the length is a multiple of four.
    """
    if len(data) % 4:
        raise ValueError("Z85 encodes multiples of four bytes")
    text: list[str] = []
    for (word,) in struct.iter_unpack(">I", data):
        digits = []
        for _ in range(5):
            word, digit = divmod(word, 85)
            digits.append(_Z85[digit])
        text += reversed(digits)
    return "".join(text)


def certificate(secret_key: bytes, *, host: str) -> str:
    """Returns the text of a certificate.

    `secret_key` are 32 bytes from a cryptographic random source (secrets.token_bytes). Raises ValueError for
    any other number of bytes.
    """
    if len(secret_key) != KEY_BYTES:
        raise ValueError(f"a CURVE key has {KEY_BYTES} bytes")
    public = X25519PrivateKey.from_private_bytes(secret_key).public_key()
    public_key = z85(public.public_bytes(Encoding.Raw, PublicFormat.Raw))
    return (
        "#   ZeroMQ CURVE **Secret** Certificate\n"
        "#   DO NOT PROVIDE THIS FILE TO OTHER USERS nor change its permissions.\n"
        "\n"
        "metadata\n"
        '    name = "fournos"\n'
        f'    keygen.hostname = "{host}"\n'
        "curve\n"
        f'    public-key = "{public_key}"\n'
        f'    secret-key = "{z85(secret_key)}"\n'
    )
