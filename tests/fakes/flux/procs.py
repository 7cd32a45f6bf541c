"""Processes of tasks: started, their lines passed on, ended."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
from collections.abc import Awaitable, Callable, Mapping, Sequence
from pathlib import Path

SendLine = Callable[[str, str], Awaitable[None]]
"""Takes ("stdout" or "stderr", a line with its end)."""


def code_of(returncode: int) -> int:
    """Returns the exit code as a shell does: 128 + the signal."""
    return 128 - returncode if returncode < 0 else returncode


class Processes:
    """The running processes of a rank, by id."""

    def __init__(self) -> None:
        self._running: dict[str, asyncio.subprocess.Process] = {}

    async def run(
        self, id_: str, words: Sequence[str], env: Mapping[str, str], cwd: str, send_line: SendLine
    ) -> int:
        """Its exit code: 127 and 126 as shells have them."""
        try:
            process = await asyncio.create_subprocess_exec(
                *words,
                env=dict(env),
                cwd=cwd if cwd and Path(cwd).is_dir() else "/",
                stdin=asyncio.subprocess.DEVNULL,
                stdout=asyncio.subprocess.PIPE,
                stderr=asyncio.subprocess.PIPE,
                limit=16 << 20,
                start_new_session=True,
            )
        except FileNotFoundError:
            await send_line("stderr", f"flux-shell: {words[0]}: No such file or directory\n")
            return 127
        except OSError as error:
            await send_line("stderr", f"flux-shell: {words[0]}: {error.strerror}\n")
            return 126
        self._running[id_] = process
        try:
            assert process.stdout is not None and process.stderr is not None
            await asyncio.gather(
                _lines(process.stdout, "stdout", send_line), _lines(process.stderr, "stderr", send_line)
            )
            return code_of(await process.wait())
        finally:
            del self._running[id_]

    def kill(self, prefix: str, number: int = signal.SIGTERM) -> None:
        """All whose id begins so, with what they have started."""
        for id_, process in list(self._running.items()):
            if id_.startswith(prefix):
                with contextlib.suppress(ProcessLookupError):
                    os.killpg(process.pid, number)


async def _lines(stream: asyncio.StreamReader, name: str, send_line: SendLine) -> None:
    while line := await stream.readline():
        await send_line(name, line.decode(errors="replace"))
