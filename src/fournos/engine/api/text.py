"""Escapes control characters in untrusted text, so that it cannot control a terminal."""

from __future__ import annotations

import re
from typing import Final

_CLASS: Final = r"\x00-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069"
"""C0 and C1 controls, which begin terminal commands, and characters that change the direction of text."""
_CONTROL: Final = re.compile(f"[{_CLASS}]")
_STEERS: Final = re.compile(f"(?![\\t\\n])[{_CLASS}]")
RE2_CONTROL: Final = r"[\x00-\x1f\x7f-\x{9f}\x{202a}-\x{202e}\x{2066}-\x{2069}]"
"""The same class in the regular expression syntax of CEL's `matches` (RE2)."""


def has_control(text: str) -> bool:
    """True if the text has a character that no name or title needs; line ends and tabs are among them."""
    return _CONTROL.search(text) is not None


def escaped(text: str) -> str:
    r"""Returns the text with control characters escaped (\x1b for an escape); line ends and tabs stay."""
    return _STEERS.sub(_visible, text)


def escaped_line(text: str) -> str:
    r"""Like `escaped`, for text that must stay on one line: a line end becomes \x0a."""
    return _CONTROL.sub(_visible, text)


def escaped_json(document: str) -> str:
    """Returns an equivalent JSON document without such characters."""
    return _STEERS.sub(lambda found: f"\\u{ord(found[0]):04x}", document)


def _visible(found: re.Match[str]) -> str:
    code = ord(found[0])
    return f"\\x{code:02x}" if code < 0x100 else f"\\u{code:04x}"
