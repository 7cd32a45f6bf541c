"""The clusters of this checkout: lists them, takes them down, and runs commands that start some."""

from __future__ import annotations

import contextlib
import signal
import subprocess
from collections.abc import Sequence

from devcluster import cluster, state
from devcluster.errors import DevclusterError
from devcluster.paths import CHECKOUT
from devcluster.progress import Progress
from devcluster.signals import forwarding
from devcluster.state import Record


def records() -> list[Record]:
    """Returns the record of each cluster that this checkout made, in any condition.

    A record of another version has no checkout to compare, so it is skipped.
    """
    own_records = []
    for name in state.names():
        with contextlib.suppress(DevclusterError):
            record = state.load(name)
            if record is not None and record.checkout == str(CHECKOUT):
                own_records.append(record)
    return own_records


def end_all(progress: Progress) -> int:
    """Takes all clusters of this checkout down and returns their number.

    A cluster that cannot be removed does not stop the others: DevclusterError is raised after the last one,
    and names all that remain.
    """
    own_records = records()
    failures = []
    for record in own_records:
        try:
            cluster.stop(record.spec.name, progress=progress)
        except DevclusterError as error:
            failures.append(str(error))
    if failures:
        raise DevclusterError("\n".join(failures))
    return len(own_records)


def notice(found: Sequence[Record]) -> str:
    """Returns the notice for the user after a command that left these clusters; "" if there are none."""
    here = [record for record in found if record.spec.provider != "existing"]
    if not here:
        return ""
    width = max(len(record.spec.name) for record in here)
    rows = [f"  {record.spec.name:{width}}  {record.spec.versions}  {record.spec.profile}" for record in here]
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
    """Runs `command`; then, whatever its result, takes the clusters down or, with `keep`, lists them.

    Returns the exit code of the command as a shell reports it. Raises DevclusterError if the command cannot
    be started or a cluster cannot be removed.
    """
    processes: list[subprocess.Popen[bytes]] = []
    # On Ctrl-C the terminal interrupts the command itself.  The handlers stand before the command starts: a
    # signal at that moment would end this process, and leave the clusters.
    with forwarding(processes, [signal.SIGTERM, signal.SIGHUP], ignored=[signal.SIGINT]) as received:
        try:
            processes.append(subprocess.Popen([*command]))
        except OSError as error:
            raise DevclusterError(f"{command[0]} cannot be started: {error.strerror}") from None
        for number in received:
            processes[0].send_signal(number)
        code = processes[0].wait()
    if keep:
        if text := notice(records()):
            progress.print(text)
    elif ended := end_all(progress):
        progress.print(f"{ended} of this checkout's clusters ended.")
    return code if code >= 0 else 128 - code
