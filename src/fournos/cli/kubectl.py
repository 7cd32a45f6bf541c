"""The program as a kubectl plugin: `kubectl fournos …`, and its shell completion.

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
"""The last line of the output: cobra's directive that the shell offers no file names."""


def complete() -> None:
    """The program `kubectl_complete-fournos`.  Prints one word per line, a tab, and its description."""
    from fournos.cli.app import build

    os.environ.update(question(sys.argv[1:]))
    answer = StringIO()
    with suppress(SystemExit), redirect_stdout(answer):
        build()(prog_name="fournos")
    for line in (*filter(None, answer.getvalue().splitlines()), NO_FILES):
        print(line)


def question(words: Sequence[str]) -> dict[str, str]:
    """Returns the environment of a completion request.

    It is that of the fish completion script: the output for fish has the form that kubectl expects.
    """
    *given, incomplete = words or ("",)
    typed = shlex.join(["fournos", *given]) + " " + (shlex.quote(incomplete) if incomplete else "")
    return {
        "_FOURNOS_COMPLETE": "complete_fish",
        "_TYPER_COMPLETE_FISH_ACTION": "get-args",
        "_TYPER_COMPLETE_ARGS": typed,
        "COLUMNS": "10000",  # a wrapped description would be read as another word
    }
