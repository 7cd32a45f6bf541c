"""Hides what looks like a secret in the lines of a log, and keeps the number of lines.  Pure."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from fournos.engine.runtime.redact import HIDDEN, PEM_BEGIN, PEM_END, redact

_LONGEST_KEY: Final = 200
"""Lines of a PEM block; what follows more of them is shown again."""
_SIGNS: Final = (
    "passw", "passphrase", "token", "credential", "secret", "key", "-data", "-----begin", "eyj", "bearer",
    "basic", "://", "-u", '"auth"', "data", "kubeconfig", "ghp_", "gho_", "ghu_", "ghs_", "ghr_",
    "github_pat_", "glpat-", "hvs.", "hvb.", "hvr.", "akia", "asia", "xox", "sha256~", "hf_", "sk-",
)  # fmt: skip
"""Without any of these `redact` changes nothing; looking for them is a hundred times faster."""


class Masking:
    """Hides secrets line by line; a PEM block may go over many lines."""

    def __init__(self) -> None:
        self._inside = 0

    def lines(self, lines: Sequence[str]) -> Sequence[str]:
        """Returns the lines without secrets."""
        if not self._inside and not _suspicious("\n".join(lines)):
            return lines
        return [self._line(line) for line in lines]

    def _line(self, line: str) -> str:
        if self._inside:
            self._inside = 0 if PEM_END.search(line) or self._inside > _LONGEST_KEY else self._inside + 1
            return HIDDEN
        begin = PEM_BEGIN.search(line)
        if begin and not PEM_END.search(line, begin.end()):
            self._inside = 1
            return redact(line[: begin.start()]) + HIDDEN
        return redact(line) if _suspicious(line) else line


def _suspicious(text: str) -> bool:
    text = text.lower()
    return any(sign in text for sign in _SIGNS)
