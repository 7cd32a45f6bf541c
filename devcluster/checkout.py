"""The clusters that this checkout made: which there are, how they end, and commands that leave some."""

from __future__ import annotations

import contextlib
import signal
import subprocess
from collections.abc import Iterator, Sequence
from types import FrameType

from devcluster import cluster, state
from devcluster.errors import DevclusterError
from devcluster.paths import CHECKOUT
from devcluster.progress import Progress
from devcluster.state import Record


def records() -> list[Record]:
    """Of every cluster that this checkout made, whatever its condition.

    A record that another version wrote names no checkout that could be compared, and is left alone.
    """
    found = []
    for name in state.names():
        with contextlib.suppress(DevclusterError):
            record = state.load(name)
            if record is not None and record.checkout == str(CHECKOUT):
                found.append(record)
    return found


def end_all(progress: Progress) -> int:
    """Takes every one of them down and returns how many there were.

    One that does not go keeps no other: raises DevclusterError after the last, naming all that stay.
    """
    found = records()
    failures = []
    for record in found:
        try:
            cluster.stop(record.spec.name, progress=progress)
        except DevclusterError as error:
            failures.append(str(error))
    if failures:
        raise DevclusterError("\n".join(failures))
    return len(found)


def notice(found: Sequence[Record]) -> str:
    """What a person should know after a command that left these clusters; empty without any."""
    here = [record for record in found if record.spec.provider != "existing"]
    if not here:
        return ""
    width = max(len(record.spec.name) for record in here)
    rows = [f"  {record.spec.name:{width}}  {record.spec.profile}" for record in here]
    counted = "1 cluster" if len(here) == 1 else f"{len(here)} clusters"
    return "\n".join(
        [
            f"Still up, so that the next run starts sooner: {counted} of this checkout",
            *rows,
            "End all of them:      make teardown",
            "Keep none next time:  make test KEEP_CLUSTERS=no",
        ]
    )


def around(command: Sequence[str], *, keep: bool, progress: Progress) -> int:
    """Runs `command` to its end, however it ends; then ends the clusters, or says which are up.

    Returns the exit code as a shell has it. Raises DevclusterError when the command cannot be started, or a
    cluster would not go.
    """
    try:
        process = subprocess.Popen([*command])
    except OSError as error:
        raise DevclusterError(f"{command[0]} cannot be started: {error.strerror}") from None
    with _passed_on(process):
        code = process.wait()
    if keep:
        if told := notice(records()):
            progress.say(told)
    elif ended := end_all(progress):
        progress.say(f"{ended} of this checkout's clusters ended.")
    return code if code >= 0 else 128 - code


@contextlib.contextmanager
def _passed_on(process: subprocess.Popen[bytes]) -> Iterator[None]:
    """The process ends at the signals that would end this one, which stays to clean up behind it."""

    def pass_on(number: int, _frame: FrameType | None) -> None:
        process.send_signal(number)

    def leave(_number: int, _frame: FrameType | None) -> None:
        """Ctrl-C: the terminal interrupts the process as well."""

    handlers = {signal.SIGTERM: pass_on, signal.SIGHUP: pass_on, signal.SIGINT: leave}
    before = {number: signal.signal(number, handler) for number, handler in handlers.items()}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
