"""What the lead broker runs, as shell code: one row a mode (the MiniCluster page)."""

from __future__ import annotations

from typing import Final

from fournos.miniclusters import names
from fournos.miniclusters.cluster import Cluster
from fournos.miniclusters.shell import lines, quote, words

LOGS: Final = "/tmp/fluxout"  # noqa: S108 - the page names it
_SUBMIT: Final = "flux submit"
_DIAGNOSTICS: Final = "flux overlay status; flux lsattr -v; flux dmesg; sleep infinity"


def timed(cluster: Cluster, what: str) -> str:
    """The prefix that times a command, if that is wanted."""
    if not cluster.spec.logging.timed:
        return ""
    return f'/usr/bin/time -f "FLUXTIME {what} wall time %E" '


def task_flags(cluster: Cluster) -> str:
    """-N and -n by size and tasks.

    | tasks | flags |
    |---|---|
    | not said | as 1 |
    | 0 | -N size |
    | below size | -n tasks |
    | size or more | -N size -n tasks |
    """
    size, tasks = cluster.spec.size, cluster.spec.tasks
    if tasks == 0:
        return f"-N {size}"
    return f"-N {size} -n {tasks}" if tasks >= size else f"-n {tasks}"


def _flags(cluster: Cluster) -> str:
    parts = (
        task_flags(cluster),
        words(cluster.spec.flux.option_flags or ""),
        "-vvv" if cluster.spec.logging.debug else "",
    )
    return " ".join(filter(None, parts))


def prefix(cluster: Cluster) -> str:
    text = words(cluster.runner.commands.prefix or "")
    return f"{text} " if text else ""


def _submit_command(cluster: Cluster) -> str:
    return words(cluster.spec.flux.submit_command or _SUBMIT)


def logs(cluster: Cluster) -> str:
    return cluster.runner.logs or LOGS


def script_path(index: int) -> str:
    return f"{names.ENTRYPOINT_PATH}/script-{index}.sh"


def batch_path(index: int) -> str:
    return f"{names.ENTRYPOINT_PATH}/batch-{index}.sh"


def _command(cluster: Cluster) -> str:
    runner = cluster.runner
    if runner.commands.script:
        return f"/bin/bash {script_path(cluster.spec.runner_index)}"
    return words(runner.command or "")


def program(cluster: Cluster) -> str:
    """What `flux start` runs on the lead broker, as the words of a bash array; "" for interactive use."""
    runner = cluster.runner
    if cluster.interactive:
        return ""
    if runner.diagnostics:
        return f"bash -c {quote(_DIAGNOSTICS)}"
    before = timed(cluster, "fluxsubmit") + prefix(cluster)
    if runner.batch:
        batch = (
            f"flux batch {_flags(cluster)} --flags waitable {batch_path(cluster.spec.runner_index)}"
            " && flux job wait --all"
        )
        if cluster.spec.logging.quiet:
            batch = f"{{ {batch}; }} > /dev/null"
        return f"{before}bash -c {quote(batch)}"
    if runner.launcher or cluster.spec.launcher:
        return f"{before}{_command(cluster)}"
    return f"{before}{_submit_command(cluster)} {_flags(cluster)} --quiet --watch {_command(cluster)}"


def batch_script(cluster: Cluster) -> str:
    """The script of `flux batch`: a job for each line of the command, or the command as it is.

    Output is numbered by line, empty ones too; the script fails if a job does.
    """
    runner = cluster.runner
    command = runner.command or ""
    if runner.batch_raw:
        return f"#!/bin/bash\n{lines(command)}"
    directory = quote(logs(cluster))
    jobs = [
        f"{_submit_command(cluster)} --flags waitable "
        f"--error={directory}/job-{number}.err --output={directory}/job-{number}.out {line.strip()}"
        for number, line in enumerate(command.split("\n"))
        if line.strip()
    ]
    return "\n".join(("#!/bin/bash", *jobs, "flux queue idle", "flux jobs -a", "flux job wait --all", ""))
