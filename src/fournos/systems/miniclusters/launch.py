"""The shell code that the lead broker runs, one form per mode (the MiniCluster page)."""

from __future__ import annotations

from typing import Final

from fournos.systems.miniclusters import names
from fournos.systems.miniclusters.spec import Cluster, lines, quote, unescaped, words

LOGS: Final = "/tmp/fluxout"  # noqa: S108 - the page names it
_SUBMIT: Final = "flux submit"
_DIAGNOSTICS: Final = "flux overlay status; flux lsattr -v; flux dmesg; sleep infinity"


def timed(cluster: Cluster, what: str) -> str:
    """Returns the prefix that times a command; empty unless `logging.timed` is set."""
    if not cluster.spec.logging.timed:
        return ""
    return f'/usr/bin/time -f "FLUXTIME {what} wall time %E" '


def task_flags(cluster: Cluster) -> str:
    """Returns -N and -n by size and tasks.

    - tasks not set: as for 1
    - tasks 0: -N size
    - tasks below size: -n tasks
    - tasks of size or more: -N size -n tasks
    """
    size, tasks = cluster.spec.size, cluster.spec.tasks
    if tasks == 0:
        return f"-N {size}"
    return f"-N {size} -n {tasks}" if tasks >= size else f"-n {tasks}"


def _flags(cluster: Cluster) -> str:
    return " ".join(filter(None, (task_flags(cluster), words(cluster.spec.flux.option_flags or ""))))


def _debug(cluster: Cluster) -> str:
    """Returns an option of flux submit. flux batch has no such option."""
    return "-vvv " if cluster.spec.logging.debug else ""


def prefix(cluster: Cluster) -> str:
    """Returns the user's prefix of a command with a space behind it, or an empty text."""
    text = words(cluster.runner.commands.prefix or "")
    return f"{text} " if text else ""


def _submit_command(cluster: Cluster) -> str:
    return words(cluster.spec.flux.submit_command or _SUBMIT)


def logs(cluster: Cluster) -> str:
    """Returns the directory of the jobs' output."""
    return cluster.runner.logs or LOGS


def script_path(index: int) -> str:
    """Returns the path of a user's script in the containers."""
    return f"{names.ENTRYPOINT_PATH}/script-{index}.sh"


def batch_path(index: int) -> str:
    """Returns the path of the script of flux batch."""
    return f"{names.ENTRYPOINT_PATH}/batch-{index}.sh"


def script_words(script: str, index: int) -> str:
    """Returns a user's script as a command.

    It is run by the interpreter of its first line, otherwise by bash.
    """
    first = script.lstrip("\n").partition("\n")[0]
    named = first.removeprefix("#!").split(maxsplit=1) if first.startswith("#!") else []
    return " ".join((*map(quote, (part.strip() for part in named or ["/bin/bash"])), script_path(index)))


def _command(cluster: Cluster) -> str:
    runner = cluster.runner
    if runner.commands.script:
        return script_words(runner.commands.script, cluster.spec.runner_index)
    return words(runner.command or "")


def program(cluster: Cluster) -> str:
    """Returns the command that `flux start` runs on the lead broker, as the words of a bash array.

    The text is empty for interactive use.
    """
    runner = cluster.runner
    if cluster.interactive:
        return ""
    if runner.diagnostics:
        return f"bash -c {quote(_DIAGNOSTICS)}"
    before = timed(cluster, "fluxsubmit") + prefix(cluster)
    if cluster.batch:
        batch = (
            f"flux batch {_flags(cluster)} --flags waitable {batch_path(cluster.spec.runner_index)}"
            " && flux job wait --all"
        )
        if cluster.spec.logging.quiet:
            batch = f"{{ {batch}; }} > /dev/null"
        # flux batch writes a file to the current directory.
        return f"{before}bash -c {quote(f'[[ -w . ]] || cd {quote(logs(cluster))}; {batch}')}"
    if runner.launcher or cluster.spec.launcher:
        return f"{before}{_command(cluster)}"
    submit = f"{_submit_command(cluster)} {_flags(cluster)} {_debug(cluster)}"
    return f"{before}{submit}--quiet --watch {_command(cluster)}"


def batch_script(cluster: Cluster) -> str:
    """Returns the script of `flux batch`.

    It submits one job per line of the command, or is the command itself for `batchRaw`. A user's script takes
    the command's place, as one job or as the batch script itself. Output files are numbered by line, and
    empty lines count. The script fails if a job fails.
    """
    runner = cluster.runner
    script = runner.commands.script
    if runner.batch_raw:
        return unescaped(lines(script)) if script else f"#!/bin/bash\n{lines(runner.command or '')}"
    command = _command(cluster) if script else runner.command or ""
    directory = quote(logs(cluster))
    jobs = [
        f"{_submit_command(cluster)} --flags waitable {_debug(cluster)}"
        f"--error={directory}/job-{number}.err --output={directory}/job-{number}.out {line.strip()}"
        for number, line in enumerate(command.split("\n"))
        if line.strip()
    ]
    return "\n".join(("#!/bin/bash", *jobs, "flux queue idle", "flux jobs -a", "flux job wait --all", ""))
