"""Runs other programs, always with a time limit and never through a shell. Errors include the output.

They run with UMASK, whatever the user's is: what they write is read by the users of pods.
"""

from __future__ import annotations

import os
import subprocess
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from devcluster.errors import CommandFailedError

_TAIL_LINES = 25
UMASK = 0o022


def run(
    argv: Sequence[str | Path],
    *,
    limit: float,
    check: bool = True,
    stdin: str | None = None,
    env: Mapping[str, str] | None = None,
    cwd: Path | None = None,
) -> subprocess.CompletedProcess[str]:
    """Runs `argv` and waits at most `limit` seconds for its end.

    Raises CommandFailedError if the program is missing, takes longer or (with `check`) returns non-zero.
    """
    words = [str(word) for word in argv]
    try:
        done = subprocess.run(
            words,
            input=stdin,
            stdin=subprocess.DEVNULL if stdin is None else None,
            capture_output=True,
            text=True,
            errors="replace",
            timeout=limit,
            env=None if env is None else {**os.environ, **env},
            cwd=cwd,
            umask=UMASK,
            check=False,
        )
    except FileNotFoundError as error:
        raise CommandFailedError(f"{words[0]} is not installed ({error})") from None
    except subprocess.TimeoutExpired as error:
        raise CommandFailedError(
            f"`{shown(words)}` did not end within {limit:.0f} s",
            evidence=tail(_text(error.stderr) or _text(error.stdout)),
        ) from None
    if check and done.returncode != 0:
        raise CommandFailedError(
            f"`{shown(words)}` returned {done.returncode}", evidence=tail(done.stderr or done.stdout)
        )
    return done


def stream(
    argv: Sequence[str | Path],
    *,
    on_line: Callable[[str], None],
    limit: float,
    env: Mapping[str, str] | None = None,
    cwd: Path | None = None,
) -> None:
    """Runs a long program and passes its output (stdout and stderr) on line by line.

    Raises CommandFailedError as `run` does. The time limit is checked only at each line and at the end.
    """
    words = [str(word) for word in argv]
    started = time.monotonic()
    tail: list[str] = []
    try:
        process = subprocess.Popen(
            words,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            errors="replace",
            env=None if env is None else {**os.environ, **env},
            cwd=cwd,
            umask=UMASK,
        )
    except FileNotFoundError as error:
        raise CommandFailedError(f"{words[0]} is not installed ({error})") from None
    with process:
        assert process.stdout is not None
        try:
            for line in process.stdout:
                tail = [*tail[-_TAIL_LINES:], line.rstrip()]
                on_line(line.rstrip())
                if time.monotonic() - started > limit:
                    raise CommandFailedError(
                        f"`{words[0]}` did not end within {limit:.0f} s", evidence="\n".join(tail)
                    )
            returncode = process.wait(timeout=max(1.0, limit - (time.monotonic() - started)))
        except BaseException:
            process.kill()
            raise
    if returncode != 0:
        raise CommandFailedError(f"`{shown(words)}` returned {returncode}", evidence="\n".join(tail))


def shown(command: str | Sequence[str | Path]) -> str:
    """Returns a command as messages show it: its first words."""
    words = [command] if isinstance(command, str) else [str(word) for word in command]
    return " ".join(words[:6]) + (" …" if len(words) > 6 else "")


def tail(text: str, lines: int = _TAIL_LINES) -> str:
    """Returns the last `lines` lines of `text`."""
    return "\n".join(text.rstrip().splitlines()[-lines:])


def tail_file(path: Path, lines: int = _TAIL_LINES) -> str:
    """Returns the last `lines` lines of a file, which may be large; "" if it does not exist."""
    try:
        with path.open("rb") as file:
            file.seek(0, os.SEEK_END)
            file.seek(max(0, file.tell() - 64 * 1024))
            return tail(file.read().decode(errors="replace"), lines)
    except FileNotFoundError:
        return ""


def _text(data: bytes | str | None) -> str:
    if data is None:
        return ""
    return data if isinstance(data, str) else data.decode(errors="replace")
