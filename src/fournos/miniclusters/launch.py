"""What the lead broker runs, as shell code: one row a mode (the MiniCluster page)."""

from __future__ import annotations

from typing import Final

from fournos.miniclusters import names
from fournos.miniclusters.cluster import Cluster
from fournos.miniclusters.shell import lines, quote, unescaped, words

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
    return " ".join(filter(None, (task_flags(cluster), words(cluster.spec.flux.option_flags or ""))))


def _debug(cluster: Cluster) -> str:
    """An option of flux submit; flux batch has none like it."""
    return "-vvv " if cluster.spec.logging.debug else ""


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


def script_words(script: str, index: int) -> str:
    """A script of the user's as a command: by the interpreter of its first line, else by bash."""
    first = script.lstrip("\n").partition("\n")[0]
    named = first.removeprefix("#!").split(maxsplit=1) if first.startswith("#!") else []
    return " ".join((*map(quote, (part.strip() for part in named or ["/bin/bash"])), script_path(index)))


def _command(cluster: Cluster) -> str:
    runner = cluster.runner
    if runner.commands.script:
        return script_words(runner.commands.script, cluster.spec.runner_index)
    return words(runner.command or "")


def program(cluster: Cluster) -> str:
    """What `flux start` runs on the lead broker, as the words of a bash array; "" for interactive use."""
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
        # flux batch writes a file where it is called.
        return f"{before}bash -c {quote(f'[[ -w . ]] || cd {quote(logs(cluster))}; {batch}')}"
    if runner.launcher or cluster.spec.launcher:
        return f"{before}{_command(cluster)}"
    submit = f"{_submit_command(cluster)} {_flags(cluster)} {_debug(cluster)}"
    return f"{before}{submit}--quiet --watch {_command(cluster)}"


def batch_script(cluster: Cluster) -> str:
    """The script of `flux batch`: a job for each line of the command, or the command as it is.

    A script of the user's takes the command's place: one job, or the batch script itself.  Output is numbered
    by line, empty ones too; the script fails if a job does.
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
