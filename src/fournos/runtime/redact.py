"""Takes what looks like a secret out of text that is logged or shown."""

from __future__ import annotations

import re

HIDDEN = "<hidden>"

# No prefix before the words: a search that may start anywhere in a long line must stay linear.
_WORDS = (
    r"(?:passw(?:or)?d|passphrase|token|credentials?|secret[-_]?(?:key|id|access[-_]?key)"
    r"|(?:api|access|private)[-_]?key|(?:client-key|client-certificate|certificate-authority)-data)"
)

_PATTERNS: tuple[tuple[re.Pattern[str], str], ...] = (
    # PEM blocks, whole or cut off
    (
        re.compile(
            r"-----BEGIN [A-Z ]*(?:PRIVATE KEY|CERTIFICATE)-----.*?(?:-----END [A-Z ]*-----|\Z)", re.S
        ),
        HIDDEN,
    ),
    # JSON web tokens (service account tokens are such)
    (re.compile(r"\beyJ[\w-]{8,}\.[\w-]{8,}(?:\.[\w-]*)?"), HIDDEN),
    # Authorization: Bearer xyz, Basic xyz
    (re.compile(r"\b(Bearer|Basic)\s+[\w.~+/=-]{6,}", re.I), rf"\1 {HIDDEN}"),
    # https://user:password@host
    (re.compile(r"(://[^\s/:@]+:)[^\s/@]+@"), rf"\1{HIDDEN}@"),
    # password: x, "token": "x", --api-key=x
    (
        re.compile(rf"(?i)({_WORDS}[\"']?\s*[:=]\s*)(\"(?:[^\"\\]|\\.)*\"|'[^']*'|[^\s,;&\"'}}]+)"),
        rf"\1{HIDDEN}",
    ),
    # a Secret's or kubeconfig's inlined bytes: data: {...}, kubeconfig: ...
    (re.compile(r"(?i)(\b(?:string)?data[\"']?\s*[:=]\s*)\{[^{}]*\}"), rf"\1{HIDDEN}"),
    (
        re.compile(
            r"(?i)(\bkubeconfig[\"']?\s*[:=]\s*)(\"(?:[^\"\\]|\\.){40,}\"|'[^']{40,}'|[A-Za-z0-9+/=]{40,})"
        ),
        rf"\1{HIDDEN}",
    ),
)


def redact(text: str) -> str:
    """The text without values that look secret.  A last line of defence: secrets do not belong in it."""
    for pattern, replacement in _PATTERNS:
        text = pattern.sub(replacement, text)
    return text
