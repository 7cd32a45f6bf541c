"""The program: its commands, its examples and its common options.  A command is one line in `COMMANDS`."""

from __future__ import annotations

from dataclasses import replace
from typing import Annotated, Final

import typer

from fournos.cli.exits import MEANINGS
from fournos.cli.lazy import CommandEntry, LazyGroup
from fournos.cli.options import (
    CommonOptions,
    ContextOption,
    FormatOption,
    KubeconfigOption,
    NamespaceOption,
    NoColorOption,
    Root,
)

EXAMPLES: Final = (
    ("fournos submit -f job.yaml --watch", "submit a job and follow it to its end"),
    ("fournos list --phase active", "what is under way"),
    ("fournos explain @last", "why the newest job waits, and what to do"),
    ("fournos logs -f @last", "what its tasks print, as they run"),
    ("fournos stop @last", "end it; its finally tasks still run"),
)

COMMANDS: Final = (
    CommandEntry("submit:submit", ("submit", "create"), "Submit jobs."),
    CommandEntry("list:list_jobs", ("list", "ls"), "List jobs, newest first."),
    CommandEntry(
        "get:get",
        ("get", "show"),
        "Show a job: its phases, conditions, attempts and what was made for it.",
    ),
    CommandEntry("explain:explain_job", ("explain", "why"), "Say why a job waits, and what to do about it."),
    CommandEntry("watch:watch", ("watch",), "Follow a job live: its phases and its tasks."),
    CommandEntry("watch:wait", ("wait",), "Wait, silently, until a job ends."),
    CommandEntry(
        "logs:logs",
        ("logs", "log"),
        "Print the logs of a job's tasks, in the order in which they started, each line with its "
        "task's name.",
    ),
    CommandEntry(
        "stop:stop",
        ("stop",),
        "Stop jobs: cancel their runs, let the finally tasks clean up, give the quota back.",
    ),
    CommandEntry(
        "stop:hold",
        ("hold",),
        "Hold jobs: they leave the queue, and give their quota back, until they are released.",
    ),
    CommandEntry("stop:release", ("release",), "Release held jobs: they are queued again."),
    CommandEntry(
        "stop:delete",
        ("delete", "rm"),
        "Delete jobs, with all that was made for them: runs, logs, copies of secrets.",
    ),
    CommandEntry("again:retry", ("retry",), "Run a job that has ended once more, as a new job."),
    CommandEntry(
        "again:resubmit",
        ("resubmit",),
        "Submit a job's spec once more, whether or not the job has ended.",
    ),
    CommandEntry("again:matrix", ("matrix",), "Submit one job for each combination of values."),
    CommandEntry("compare:diff", ("diff",), "Show how the specs of two jobs differ. Exit code 1 if they do."),
    CommandEntry(
        "compare:open_page",
        ("open",),
        "Open the page of a job's run in the Tekton Dashboard; without a terminal only its address is"
        " printed.",
    ),
    CommandEntry("schedule:app", ("schedule",), "Schedules: jobs at certain times, such as every night."),
    CommandEntry(
        "queue:queue",
        ("queue",),
        "Show a whole queue: who waits, of all namespaces that share it, in which order, and why each.",
    ),
    CommandEntry(
        "estimate:estimate",
        ("estimate",),
        "Estimate when waiting jobs start and end, or whether a job would start now. Submits nothing.",
    ),
    CommandEntry(
        "top:top",
        ("top",),
        "Watch clusters and jobs live: GPUs used and free, who runs where, who waits and why.",
    ),
    CommandEntry(
        "web:web",
        ("web",),
        "Open the page in a browser: the fleet, the queue, runs with their logs and results.",
    ),
    CommandEntry(
        "cluster:app",
        ("cluster",),
        "Clusters that jobs run on: what they have, who holds them. They are in the namespace of -n, "
        "HEARTH_NAMESPACE or hearth.",
    ),
    CommandEntry(
        "dispatch:app",
        ("dispatch",),
        "Jobs that run on other clusters: where they are, why they wait, and whether the workers are ready.",
    ),
    CommandEntry(
        "appwrapper:app",
        ("appwrapper",),
        "AppWrappers: resources that Kueue admits, and that end, as one.",
    ),
    CommandEntry("minicluster:app", ("minicluster",), "MiniClusters: Flux clusters in the pods of a Job."),
    CommandEntry("frameworks:app", ("frameworks",), "Kinds that are queued by configuration."),
    CommandEntry(
        "compare_runs:compare",
        ("compare",),
        "Compare runs: first what differs, then their KPIs within the noise of comparable runs.",
    ),
    CommandEntry("init:app", ("init",), "Write files to start from."),
    CommandEntry(
        "benchmarks:benchmarks",
        ("benchmarks",),
        "Show how the benchmarks stand: one row for each KPI of comparable runs, open regressions first.",
    ),
    CommandEntry(
        "compare_runs:trend",
        ("trend",),
        "Show the KPIs of a job over the runs that can be compared with it, and what changed in them.",
    ),
    CommandEntry(
        "usage:usage",
        ("usage",),
        "Show the GPU-hours of a period by owner, cluster, project and GPU type, and how long runs waited.",
    ),
    CommandEntry("baseline:app", ("baseline",), "Baselines: the runs that later ones are compared with."),
    CommandEntry(
        "acknowledge:app",
        ("acknowledge",),
        "Acknowledge changes of KPIs that are as they should be: they are not regressions any more.",
    ),
    CommandEntry(
        "results:app", ("results",), "Results: what benchmarks measured, also of jobs that are gone."
    ),
    CommandEntry("artifacts:app", ("artifacts",), "Artifacts: the files that runs left behind."),
    CommandEntry(
        "history:app",
        ("history",),
        "Upkeep of the history's database, where that can be reached: backup, marks, deletion.",
        panel="Operate",
    ),
    CommandEntry(
        "wrap:wrap",
        ("wrap",),
        "Wrap manifests into one AppWrapper, which Kueue admits and which ends as one. Needs no cluster.",
        panel="AppWrappers",
    ),
    CommandEntry(
        "doctor:doctor",
        ("doctor",),
        "Look for what keeps jobs from running: versions, CRDs, Kueue, queues, rights, webhooks, clocks.",
        panel="Operate",
    ),
    CommandEntry(
        "run:run",
        ("run",),
        "Run the operator. It is configured by FOURNOS_… variables; FOURNOS_NAMESPACE, or -n, is "
        "required. For clusters it is HEARTH_… variables, and none is required.",
        panel="Operate",
    ),
    CommandEntry(
        "about:version",
        ("version",),
        "Show the version of this program and of the API that it speaks.",
        panel="About",
    ),
    CommandEntry(
        "about:completion",
        ("completion",),
        "Print the script that completes commands, options and names of live jobs.",
        panel="About",
    ),
)


class Program(LazyGroup):
    """The group of all commands."""

    entries = COMMANDS


def epilog() -> str:
    r"""Returns the examples and exit codes.  The mark \b keeps typer from joining the lines."""
    width = max(len(command) for command, _ in EXAMPLES)
    examples = [f"  {command.ljust(width)}   {text}" for command, text in EXAMPLES]
    codes = [f"  {code.value:>3}  {meaning}" for code, meaning in MEANINGS.items()]
    return "\n".join(["\b", "Examples:", *examples, "", "\b", "Exit codes:", *codes])


def build() -> typer.Typer:
    app = typer.Typer(
        name="fournos",
        cls=Program,
        help="Queue benchmark jobs, find them a cluster, run them there and report back.",
        epilog=epilog(),
        no_args_is_help=True,
        pretty_exceptions_enable=False,
        context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
        rich_markup_mode=None,
    )
    app.callback()(_options)
    return app


def _show_version(asked: bool) -> None:
    if asked:
        from fournos.cli.about import VERSION

        typer.echo(VERSION)
        raise typer.Exit


VersionOption = Annotated[
    bool,
    typer.Option("--version", is_eager=True, callback=_show_version, help="As fournos version."),
]


def _options(
    ctx: typer.Context,
    namespace: NamespaceOption = None,
    kubeconfig: KubeconfigOption = None,
    context: ContextOption = None,
    output: FormatOption = None,
    no_color: NoColorOption = False,
    version: VersionOption = False,
) -> None:
    root = ctx.ensure_object(Root)
    common = CommonOptions(
        namespace=namespace, kubeconfig=kubeconfig, context=context, output=output, no_color=no_color
    )
    ctx.obj = replace(root, common=common)
