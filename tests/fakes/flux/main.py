"""flux [-V] COMMAND …"""

from __future__ import annotations

import os
import shlex
import sys
from collections.abc import Callable

from . import broker, commands_jobs, commands_ranks
from .hostlist import FormatError
from .options import die, parse, table
from .uptime import uptime

_START = "o,broker-opts= wrap= v,verbose X,noexec s,test-size= recovery= sysconfig"
_START_NEW = "S,setattr= c,config-path="
"""Options of flux start since 0.69."""


def start(words: list[str]) -> int:
    """flux start [options] [PROGRAM …]: the broker in this process's place."""
    new = commands_ranks.release() >= (0, 69)
    parsed = parse("start", words, table(f"{_START} {_START_NEW}" if new else _START))
    if "test-size" in parsed or "recovery" in parsed:
        die("start", "the stand-in starts brokers by configuration only")
    wrap = [word for one in parsed.all("wrap") for word in one.split(",")]
    command = [*wrap, sys.argv[0], "broker"]
    command += [part for option in parsed.all("broker-opts") for part in option.split(",")]
    for setting in parsed.all("setattr"):
        command += ["--setattr", setting]
    if "config-path" in parsed:
        command.append(f"--config-path={parsed.get('config-path')}")
    if "verbose" in parsed or "noexec" in parsed:
        print(f"flux-start: {shlex.join(command + parsed.rest)}", file=sys.stderr, flush=True)
    if "noexec" in parsed:
        return 0
    # As flux does: what follows is read by the broker, its options and then the program.
    command += parsed.rest
    try:
        os.execvp(command[0], command)
    except OSError as error:
        die("start", f"{command[0]}: {error.strerror}", 127)
    return 127


COMMANDS: dict[str, Callable[[list[str]], int]] = {
    "start": start,
    "broker": broker.main,
    "submit": commands_jobs.submit,
    "run": commands_jobs.run,
    "batch": commands_jobs.batch,
    "jobs": commands_jobs.jobs,
    "job": commands_jobs.job,
    "queue": commands_jobs.queue,
    "resource": commands_ranks.resource,
    "overlay": commands_ranks.overlay,
    "getattr": commands_ranks.getattr_,
    "lsattr": commands_ranks.lsattr,
    "uptime": uptime,
    "dmesg": commands_ranks.dmesg,
    "shutdown": commands_ranks.shutdown,
    "proxy": commands_ranks.proxy,
    "R": commands_ranks.r,
    "version": commands_ranks.version,
}


def main(words: list[str]) -> int:
    if words[:1] in (["-V"], ["--version"]):
        return commands_ranks.version([])
    if not words or words[0] not in COMMANDS:
        name = words[0] if words else ""
        print(f"flux: `{name}' is not a flux command.  See 'flux --help'", file=sys.stderr)
        return 1
    try:
        return COMMANDS[words[0]](words[1:])
    except FormatError as error:
        die(words[0], str(error))
        return 1
    except KeyboardInterrupt:
        return 130


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
