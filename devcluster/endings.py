"""How a command ends when something fails: a sentence and what to do about it, never a traceback."""

from __future__ import annotations

import errno
import os
import subprocess
import sys
import tempfile
import traceback
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Any, Final, TypeAlias

from devcluster.errors import DevclusterError
from devcluster.paths import cache_root
from devcluster.shell import shown, tail

FAILED: Final = 1
INTERRUPTED: Final = 130
"""The exit code of a shell's command that SIGINT ended."""
_FULL: Final = (errno.ENOSPC, errno.EDQUOT)
_REFUSED: Final = (errno.EACCES, errno.EPERM, errno.EROFS)

Row: TypeAlias = tuple[type[BaseException], Callable[[Any], DevclusterError]]


def _of_system(error: OSError) -> DevclusterError:
    where = f"{error.filename}: " if error.filename else ""
    reason = f"{where}{error.strerror or error}"
    if error.errno in _FULL:
        hint = f"Free some space. {cache_root()} can be deleted: it is built again, which takes minutes."
        return DevclusterError(f"The disk is full: {reason}", hint=hint)
    if error.errno in _REFUSED:
        return DevclusterError(f"This user may not do that: {reason}", hint="Run the command as root.")
    return DevclusterError(f"The system refuses: {reason}")


def _of_exit(error: subprocess.CalledProcessError) -> DevclusterError:
    output = error.stderr or error.stdout or ""
    evidence = tail(output.decode(errors="replace") if isinstance(output, bytes) else output)
    return DevclusterError(f"`{shown(error.cmd)}` returned {error.returncode}", evidence=evidence)


ROWS: Final[tuple[Row, ...]] = (
    (DevclusterError, lambda error: error),
    (KeyboardInterrupt, lambda _: DevclusterError("Interrupted")),
    (subprocess.CalledProcessError, _of_exit),
    (
        subprocess.TimeoutExpired,
        lambda error: DevclusterError(f"`{shown(error.cmd)}` did not end within {error.timeout:g} s"),
    ),
    (TimeoutError, lambda error: DevclusterError(f"No answer in time: {error}".removesuffix(": "))),
    (OSError, _of_system),
)
"""Error → what is printed; the first match wins."""


def explained(error: BaseException, rows: Sequence[Row] = ROWS) -> DevclusterError | None:
    """Returns what is printed of an error; None if no row has its class.  Of a group the first one counts."""
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    return next((explain(error) for kind, explain in rows if isinstance(error, kind)), None)


def run(command: Callable[[], int], *, rows: Sequence[Row] = ROWS, go_on: str = "") -> int:
    """Returns the exit code of the command; after an error it prints the sentence, and `go_on`."""
    try:
        return command()
    except (Exception, BaseExceptionGroup, KeyboardInterrupt) as error:
        text = explained(error, rows) or _unforeseen(error)
        code = INTERRUPTED if isinstance(error, KeyboardInterrupt) else FAILED
    with suppress(OSError):  # the reader of a pipe may have ended
        sys.stderr.write("\n".join(filter(None, (f"error: {text}", go_on))) + "\n")
    return code


def _unforeseen(error: BaseException) -> DevclusterError:
    """A fault of the program: its traceback is for whoever mends it."""
    hint = ""
    with suppress(OSError):
        descriptor, path = tempfile.mkstemp(prefix="fournos-", suffix=".log")
        with os.fdopen(descriptor, "w") as file:
            file.writelines(traceback.format_exception(error))
        hint = f"This is a fault of the program. Report it with {path}."
    return DevclusterError(f"{type(error).__name__}: {error}", hint=hint)
