"""The exit codes of commands."""

from __future__ import annotations

from enum import IntEnum


class Exit(IntEnum):
    """The exit codes.  `--help` and the reference page list them from here."""

    OK = 0
    FAILED = 1
    USAGE = 2
    STOPPED = 3
    TIMEOUT = 4
    NOT_FOUND = 5
    SERVER = 6
    FINISHED = 7
    BUG = 70
    INTERRUPTED = 130


MEANINGS: dict[Exit, str] = {
    Exit.OK: "done; for watch and wait: the job succeeded",
    Exit.FAILED: "the job failed; compare, trend, benchmarks --fail-on: a KPI is worse; "
    "results check: a file is not valid; doctor, dispatch check: a check failed",
    Exit.USAGE: "wrong usage, or a manifest that was refused",
    Exit.STOPPED: "the job was stopped",
    Exit.TIMEOUT: "the time limit passed first",
    Exit.NOT_FOUND: "no such job, or what was asked for is gone",
    Exit.SERVER: "the API server cannot be reached, or does not allow it",
    Exit.FINISHED: "stop: the job had ended before",
    Exit.BUG: "a fault of fournos itself",
    Exit.INTERRUPTED: "interrupted by Ctrl-C",
}
