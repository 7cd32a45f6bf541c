"""Finds the object that an argument names: by name or @last, with similar names in errors, and completion."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, Any, Final, TypeVar

import typer

from fournos.api.kinds import APPWRAPPER, FOURNOS_JOB, MINICLUSTER, Resource
from fournos.api.phase import Phase
from fournos.cli.command import Cli, CliSession, Root
from fournos.cli.errors import Exit, Fail
from fournos.cli.options import CommonOptions
from fournos.client.connection import contexts
from fournos.insight.clusters import RESOURCE_FLAVOR
from fournos.insight.errors import NoSuchResourceError
from fournos.insight.jobs import last, named, newest_first
from fournos.insight.source import NAMESPACE
from fournos.insight.values import Key, Obj, name_of, phase_of, spec_of

_INSTALLS: Final = {
    APPWRAPPER: "-k deploy/appwrapper",
    MINICLUSTER: "-k deploy/minicluster",
}
"""Kind → what to apply, for those whose CRD is not in manifests/crd.yaml."""
LAST: Final = ("@last", "@latest")
_COMPLETION_SECONDS = 2.0
_RUNS: Final = 20
"""The newest runs whose KPIs are offered."""

T = TypeVar("T")
Completion = Callable[[typer.Context, str], list[tuple[str, str]]]


def completion(
    resource: Resource,
    *,
    words: Sequence[str] = (),
    namespace_of: Callable[[Cli, CliSession], str] = lambda cli, session: session.namespace,
    value_of: Callable[[Obj], str] = name_of,
) -> Completion:
    """Returns a completion for names, or other values, of live objects of a namespace, and for `words`."""

    async def listed(cli: Cli, session: CliSession) -> Sequence[Obj]:
        return (await session.api.list(resource, namespace=namespace_of(cli, session))).items

    def complete(ctx: typer.Context, incomplete: str) -> list[tuple[str, str]]:
        offered = _asked(ctx, listed)
        if offered is None:
            return []
        found = {value_of(one): phase_of(one) if value_of is name_of else "" for one in newest_first(offered)}
        found |= dict.fromkeys(words, "the newest job")
        return [(value, text) for value, text in found.items() if value and value.startswith(incomplete)]

    return complete


def _asked(ctx: typer.Context, ask: Callable[[Cli, CliSession], Awaitable[T]]) -> T | None:
    """Returns what a completion asks for.

    None if the API server fails or does not answer in time: an error would disturb the prompt.
    """

    async def answer(cli: Cli) -> T:
        async with asyncio.timeout(_COMPLETION_SECONDS), cli.session() as session:
            return await ask(cli, session)

    root = ctx.find_object(Root) or Root()
    try:
        return asyncio.run(answer(Cli(root, _common(ctx, root))))
    except Exception:
        return None


def _common(ctx: typer.Context, root: Root) -> CommonOptions:
    """The options of the command line so far."""
    given, common = ctx.params, root.common
    kubeconfig = given.get("kubeconfig") or common.kubeconfig
    return CommonOptions(
        namespace=given.get("namespace") or common.namespace,
        kubeconfig=Path(kubeconfig) if kubeconfig else None,
        context=given.get("context") or common.context,
    )


def name_argument(resource: Resource) -> Any:
    """Returns the argument that names an object of a kind."""
    return typer.Argument(
        metavar="NAME",
        help=f"Name of the {resource.kind}.",
        autocompletion=completion(resource),
        show_default=False,
    )


complete_name = completion(FOURNOS_JOB, words=LAST)
complete_owner = completion(FOURNOS_JOB, value_of=lambda job: str(spec_of(job).get("owner") or ""))
complete_cluster = completion(RESOURCE_FLAVOR, namespace_of=lambda cli, session: "")
complete_namespace = completion(NAMESPACE, namespace_of=lambda cli, session: "")


def complete_context(ctx: typer.Context, incomplete: str) -> list[str]:
    """Offers the contexts of the kubeconfig."""
    root = ctx.find_object(Root) or Root()
    given = ctx.params.get("kubeconfig") or root.common.kubeconfig
    try:
        names = contexts(Path(given) if given else None)
    except Exception:
        return []
    return [name for name in names if name.startswith(incomplete)]


def complete_kpi(ctx: typer.Context, incomplete: str) -> list[str]:
    """Offers the KPIs that the newest runs of the namespace have in the history."""

    async def measured(_: Cli, session: CliSession) -> set[str]:
        return {kpi.kpi_id async for run in session.history.values(limit=_RUNS) for _, kpi in run.values}

    return sorted(kpi for kpi in _asked(ctx, measured) or () if kpi.startswith(incomplete))


def complete_phase(incomplete: str) -> list[str]:
    """Offers the phases of a job, and the word for all that have not ended."""
    given = incomplete.rpartition(",")[0]
    words = [f"{given},{word}" if given else word for word in ("active", *Phase)]
    return [word for word in words if word.startswith(incomplete)]


_JOB_KINDS: Final = ("", "fj", *(f"fournosjob{tail}" for tail in ("", "s", ".fournos.dev", "s.fournos.dev")))


def is_job_kind(kind: str) -> bool:
    """True for the names of the kind FournosJob, and for no name."""
    return kind.lower() in _JOB_KINDS


def bare_name(name: str) -> str:
    """Returns the name of a job without its kind, which `list -o name` prints before it."""
    kind, _, bare = name.rpartition("/")
    return bare if is_job_kind(kind) else name


def bare_names(names: list[str] | None) -> list[str]:
    return [bare_name(name) for name in names or ()]


KpiOption = Annotated[
    str, typer.Option("--kpi", metavar="KPI", help="Only this KPI.", autocompletion=complete_kpi)
]
NameArgument = Annotated[
    str,
    typer.Argument(
        metavar="NAME",
        help="Name of the job, or @last: the newest that you (FOURNOS_OWNER) or anybody submitted.",
        autocompletion=complete_name,
        callback=bare_name,
        show_default=False,
    ),
]
NamesArgument = Annotated[
    list[str],
    typer.Argument(
        metavar="NAME...",
        help="Names of jobs, or @last: the newest that you (FOURNOS_OWNER) or anybody submitted.",
        autocompletion=complete_name,
        callback=bare_names,
        show_default=False,
    ),
]


async def find_job(cli: Cli, session: CliSession, name: str) -> Obj:
    """Returns the job that the argument names.  Raises MissingError if there is none."""
    if name in LAST:
        jobs = (await session.api.list(FOURNOS_JOB, namespace=session.namespace)).items
        return last(jobs, owner=cli.me, namespace=session.namespace)
    return await find_one(session, FOURNOS_JOB, name, command="fournos list", what="job")


async def find_of_kind(session: CliSession, resource: Resource, name: str) -> Obj:
    """Returns the object that `NAME` or `KIND/NAME` names.  Raises MissingError if there is none."""
    command, bare = f"fournos {resource.kind.lower()} list", name.rpartition("/")[2]
    return await find_one(session, resource, bare, command=command, what=resource.kind)


@contextmanager
def installed(resource: Resource) -> Iterator[None]:
    """Raises Fail, with the command that installs the kind, if the API server does not know it."""
    try:
        yield
    except NoSuchResourceError:
        file = _INSTALLS.get(resource, "-f manifests/crd.yaml")
        fix = f"install it (kubectl apply --server-side {file}), or choose the right cluster with --context"
        raise Fail(f"the cluster does not know {resource}", fix=fix, code=Exit.SERVER) from None


async def find_one(session: CliSession, resource: Resource, name: str, *, command: str, what: str) -> Obj:
    """Returns the object of this name in the session's namespace; `what` is the noun for the kind.

    Raises MissingError, with similar names, if there is none.
    """
    with installed(resource):
        return await named(session.api, resource, Key(session.namespace, name), noun=what, command=command)
