"""The program as a plugin of kubectl: `kubectl fournos …`, and what completes its words.

kubectl finds `kubectl-fournos` and `kubectl_complete-fournos` on the PATH by their names.
"""

from __future__ import annotations

import os
import shlex
import sys
from collections.abc import Sequence
from contextlib import redirect_stdout, suppress
from io import StringIO
from typing import Final

NO_FILES: Final = ":4"
"""Ends the answer: cobra's directive that no names of files are to be offered."""


def complete() -> None:
    """The program `kubectl_complete-fournos`: a word and what it is a line, with a tab between."""
    from fournos.cli.app import build

    os.environ.update(question(sys.argv[1:]))
    answer = StringIO()
    with suppress(SystemExit), redirect_stdout(answer):
        build()(prog_name="fournos")
    for line in (*filter(None, answer.getvalue().splitlines()), NO_FILES):
        print(line)


def question(words: Sequence[str]) -> dict[str, str]:
    """As the completion script of fish asks, whose answers have kubectl's form."""
    *given, incomplete = words or ("",)
    typed = shlex.join(["fournos", *given]) + " " + (shlex.quote(incomplete) if incomplete else "")
    return {
        "_FOURNOS_COMPLETE": "complete_fish",
        "_TYPER_COMPLETE_FISH_ACTION": "get-args",
        "_TYPER_COMPLETE_ARGS": typed,
        "COLUMNS": "10000",  # a description that is broken would be a word of its own
    }
