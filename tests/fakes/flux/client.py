"""Shared by all commands: finding the broker, requests to it, printing the output of tasks."""

from __future__ import annotations

import asyncio
import os
import sys
from collections.abc import AsyncIterator
from typing import Any

from .options import die
from .wire import dial_local


def socket_path(uri: str, command: str) -> str:
    if not uri.startswith("local://"):
        die(command, f"unable to connect to Flux: {uri or 'FLUX_URI is not set'}: No such file or directory")
    return uri.removeprefix("local://")


async def stream(command: str, op: str, **request: Any) -> AsyncIterator[dict[str, Any]]:
    """All answers; the last has `end`.  Ends the program with the broker's error."""
    uri = os.environ.get("FLUX_URI", "")
    try:
        link = await dial_local(socket_path(uri, command))
    except OSError as error:
        die(command, f"unable to connect to Flux: {uri}: {error.strerror}")
    await link.send(op=op, scope=os.environ.get("FLUX_STANDIN_SCOPE", ""), **request)
    while (answer := await link.receive()) is not None:
        if answer.get("error"):
            die(command, answer["error"])
        yield answer
        if answer.get("end"):
            link.close()
            return
    die(command, "lost contact with the broker")


def rpc(command: str, op: str, **request: Any) -> dict[str, Any]:
    """The one answer."""

    async def first() -> dict[str, Any]:
        async for answer in stream(command, op, **request):
            return answer
        raise AssertionError("stream ends the program")

    return asyncio.run(first())


def follow(
    command: str, op: str, *, label: bool = False, mute: bool = False, **request: Any
) -> dict[str, Any]:
    """Prints lines as they come; the last answer."""

    async def all_lines() -> dict[str, Any]:
        last: dict[str, Any] = {}
        async for last in stream(command, op, **request):
            if "line" in last and not mute:
                target = sys.stdout if last["stream"] == "stdout" else sys.stderr
                target.write(f"{last['task']}: {last['line']}" if label else last["line"])
                target.flush()
        return last

    return asyncio.run(all_lines())


def environment() -> dict[str, str]:
    """What a job inherits."""
    left = ("FLUX_", "SHLVL", "OLDPWD")
    return {name: value for name, value in os.environ.items() if not name.startswith(left)}


def show(rows: list[dict[str, str]], columns: list[tuple[str, str]], *, header: bool = True) -> None:
    """A table: (title, key) a column."""
    lines = [[title for title, _ in columns]] if header else []
    lines += [[str(row.get(key, "")) for _, key in columns] for row in rows]
    widths = [max((len(line[i]) for line in lines), default=0) for i in range(len(columns))]
    for line in lines:
        print(" ".join(f"{cell:>{width}}" for cell, width in zip(line, widths, strict=True)).rstrip())


def formatted(command: str, rows: list[dict[str, str]], template: str) -> None:
    """`-o '{id} {status}'`: plain fields only."""
    for row in rows:
        try:
            print(template.format(**row))
        except (KeyError, ValueError, IndexError) as error:
            die(command, f"unknown format field or specification: {error}")
