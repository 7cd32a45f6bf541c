"""fournos logs: what a job's tasks, or its resolver, print."""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncIterator, Iterable
from contextlib import AsyncExitStack
from dataclasses import dataclass
from typing import Annotated, Final

import typer
from rich.text import Text

from fournos.cli.children import RUN_LABEL, TASK_LABEL, Children, children
from fournos.cli.errors import Exit, Fail
from fournos.cli.find import NameArgument, find_job
from fournos.cli.follow import Follower
from fournos.cli.verbs import Cli, Session, verb
from fournos.cli.words import created, is_terminal, name_of, phase_of, spec_of, status_of
from fournos.cli.workers import on_worker
from fournos.jobs.kinds import PIPELINE_RUN, TASK_RUN
from fournos.jobs.names import attempt_name
from fournos.kube.api import Api
from fournos.kube.errors import ConnectionLostError, InvalidError, NotFoundError
from fournos.kube.kinds import JOB, POD
from fournos.kube.resource import Key, Obj, key_of, owner_uids, uid_of
from fournos.multikueue.names import MULTIKUEUE

_COLOUR_CODE: Final = re.compile(r"\x1b\[[0-9;:]*m")
_COLOURS: Final = ("cyan", "green", "magenta", "yellow", "blue", "red")
_STEP: Final = "step-"
RESOLVER: Final = "resolver"


@dataclass(frozen=True, slots=True)
class Source:
    """A container whose log is asked for."""

    pod: Key
    container: str
    prefix: str
    started: bool
    """There is a log to read."""


def install(app: typer.Typer) -> None:
    verb(app, "logs", "log")(logs)


async def logs(
    cli: Cli,
    name: NameArgument,
    follow: Annotated[
        bool, typer.Option("--follow", "-f", help="Go on as lines come, until the job ends.")
    ] = False,
    task: Annotated[
        str | None, typer.Option("--task", "-t", metavar="TASK", help="Only this task of the Pipeline.")
    ] = None,
    resolver: Annotated[
        bool,
        typer.Option(
            "--resolver", help="Only the resolve Job's log; it comes first anyway while the job is Resolving."
        ),
    ] = False,
    tail: Annotated[
        int | None,
        typer.Option("--tail", metavar="N", min=0, help="Only the last N lines of each container."),
    ] = None,
    attempt: Annotated[
        int | None,
        typer.Option("--attempt", metavar="N", min=1, help="Of this attempt; default: the current one."),
    ] = None,
) -> None:
    """Print the logs of a job's tasks, in the order in which they started, each line with its task's name.

    \b
    fournos logs @last
    fournos logs -f nightly-x7k2m --task run-benchmark
    fournos logs nightly-x7k2m --resolver

    Those of a job that a worker cluster runs are read there, with a kubeconfig for logs, or else with that of
    its MultiKueueCluster.
    """
    if resolver and task:
        raise Fail("--resolver and --task exclude one another", fix="leave one out")
    async with cli.session() as session, AsyncExitStack() as stack:
        job = await find_job(cli, session, name)
        if spec_of(job).get("managedBy") == MULTIKUEUE:
            session, job = await stack.enter_async_context(on_worker(cli, session, job))
        resolving = not task and not attempt and phase_of(job) in ("New", "Resolving")
        wanted = Wanted(
            resolver=resolver or resolving,
            tasks=not resolver and (follow or not resolving),
            task=task,
            attempt=attempt,
        )
        if follow and not is_terminal(job):
            await _follow(cli, session, job, wanted, tail)
        else:
            await _print(cli, session, job, wanted, tail)


@dataclass(frozen=True, slots=True)
class Wanted:
    resolver: bool = False
    tasks: bool = True
    task: str | None = None
    attempt: int | None = None


def sources(job: Obj, found: Children, wanted: Wanted) -> list[Source]:
    """The containers in question, in the order of starting; steps of a task in the task's order."""
    found_sources: list[Source] = []
    if wanted.resolver:
        makers = frozenset(map(uid_of, found.resolve_jobs))
        pods = [pod for pod in found.pods if owner_uids(pod) & makers]
        found_sources = [source for pod in pods for source in _containers(pod, RESOLVER)]
    if not wanted.tasks:
        return found_sources
    run = _run_of(job, wanted.attempt) if wanted.attempt else str(status_of(job).get("pipelineRun") or "")
    pods = [pod for pod in found.pods if run and _label(pod, RUN_LABEL) == run]
    if wanted.task:
        pods = [pod for pod in pods if _label(pod, TASK_LABEL) == wanted.task]
    pods.sort(key=lambda pod: (str(status_of(pod).get("startTime") or created(pod)), name_of(pod)))
    for pod in pods:
        found_sources += _containers(pod, _label(pod, TASK_LABEL) or name_of(pod))
    return found_sources


def _run_of(job: Obj, attempt: int) -> str:
    attempts = status_of(job).get("attempts") or ()
    written = next((one.get("pipelineRun") for one in attempts if one["number"] == attempt), None)
    return str(written or attempt_name(name_of(job), attempt))


def _label(obj: Obj, name: str) -> str:
    return str((obj["metadata"].get("labels") or {}).get(name) or "")


def _containers(pod: Obj, prefix: str) -> Iterable[Source]:
    names = [container["name"] for container in (pod.get("spec") or {}).get("containers") or ()]
    states = {c["name"]: c.get("state") or {} for c in status_of(pod).get("containerStatuses") or ()}
    for name in names:
        state = states.get(name) or {}
        started = "running" in state or "terminated" in state
        step = name.removeprefix(_STEP)
        label = f"{prefix}/{step}" if len(names) > 1 else prefix
        yield Source(key_of(pod), name, label, started)


def nothing(job: Obj, found: Children, wanted: Wanted) -> Fail:
    """Why there is no log."""
    name, phase = name_of(job), phase_of(job)
    if wanted.task:
        tasks = sorted({_label(t, TASK_LABEL) for t in found.task_runs} - {""})
        if tasks and wanted.task not in tasks:
            fix = f"tasks that have begun: {', '.join(tasks)}"
            return Fail(f"task {wanted.task} of {name} has not begun", fix=fix, code=Exit.NOT_FOUND)
    if not wanted.tasks and not found.resolve_jobs:
        return Fail(
            f"{name} has no resolve Job: {'it has not begun' if phase == 'New' else 'it was removed'}",
            fix=f"see the job: fournos get {name}",
            code=Exit.NOT_FOUND,
        )
    if phase in ("New", "Resolving", "Pending", "Admitted"):
        return Fail(
            f"{name} is {phase}: no task has begun",
            fix=f"why it waits: fournos explain {name}; wait for lines: fournos logs -f {name}",
            code=Exit.NOT_FOUND,
        )
    if not status_of(job).get("pipelineRun"):
        return Fail(
            f"{name} ended before a task began",
            fix=f"what the resolver printed: fournos logs --resolver {name}; why: fournos explain {name}",
            code=Exit.NOT_FOUND,
        )
    return Fail(
        f"the pods of {name} are gone, and their logs with them",
        fix="look where your cluster keeps logs"
        + (f"; the run's page: {url}" if (url := status_of(job).get("dashboardURL")) else ""),
        code=Exit.NOT_FOUND,
    )


async def _print(cli: Cli, session: Session, job: Obj, wanted: Wanted, tail: int | None) -> None:
    found = await children(session.api, job)
    printer = Printer(cli)
    asked = sources(job, found, wanted)
    printed = False
    for source in asked:
        if source.started:
            printed = await copy(session.api, source, printer, tail, follow=False) or printed
    if not asked:
        raise nothing(job, found, wanted)
    if not printed:
        cli.output.hint("No lines yet: the containers have not begun. Wait for them with -f.")


async def _follow(cli: Cli, session: Session, job: Obj, wanted: Wanted, tail: int | None) -> None:
    """Every container is read as soon as it has begun, until the job, or its resolving, is over."""
    printer = Printer(cli)
    readers: dict[Source, asyncio.Task[bool]] = {}
    told = False

    def read(job: Obj, found: Children) -> list[Source]:
        asked = sources(job, found, wanted)
        for source in asked:
            if source.started and source not in readers:
                reading = copy(session.api, source, printer, tail, follow=True)
                readers[source] = asyncio.create_task(reading)
        return asked

    try:
        async with Follower(session.api, job, (JOB, PIPELINE_RUN, TASK_RUN, POD)) as follower:
            while True:
                job = follower.job
                asked = read(job, follower.children)
                if is_terminal(job) or (not wanted.tasks and phase_of(job) not in ("New", "Resolving")):
                    break
                if not asked and not told:
                    told = True
                    cli.output.hint(f"{name_of(job)} is {phase_of(job)}: waiting for the first line.")
                await follower.change()
        # The job's end may overtake the news of a container that was quick.
        found = await children(session.api, job)
        read(job, found)
        await asyncio.gather(*readers.values())
    finally:
        for reader in readers.values():
            reader.cancel()
    if not readers:
        raise nothing(job, found, wanted)
    cli.output.hint(f"{name_of(job)} is {phase_of(job)}.")


async def copy(api: Api, source: Source, printer: Printer, tail: int | None, *, follow: bool) -> bool:
    """Print one container's log; False if there was nothing to print."""
    printed = False
    try:
        lines: AsyncIterator[str] = await api.logs(
            source.pod, container=source.container, tail=tail, follow=follow
        )
        async for line in lines:
            printed = True
            printer.line(source.prefix, line)
    except (NotFoundError, InvalidError):
        printer.note(source.prefix, "its pod is gone, and the log with it")
    except ConnectionLostError:
        printer.note(source.prefix, "the connection was lost; lines may be missing")
    return printed


class Printer:
    """Lines with the name of their task before them, a colour each."""

    def __init__(self, cli: Cli) -> None:
        self._output = cli.output
        self._colours: dict[str, str] = {}

    def line(self, prefix: str, line: str) -> None:
        colour = self._colours.setdefault(prefix, _COLOURS[len(self._colours) % len(_COLOURS)])
        # The program's own colours are kept on a terminal; other control sequences are escaped.
        terminal = self._output.out.is_terminal
        body = Text.from_ansi(line) if terminal else Text(_COLOUR_CODE.sub("", line))
        self._output.say(Text.assemble((f"[{prefix}] ", colour), body))

    def note(self, prefix: str, text: str) -> None:
        self._output.hint(f"[{prefix}] {text}")
