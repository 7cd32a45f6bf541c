"""fournos frameworks …: the kinds that are queued by configuration, and why one of their objects waits."""

from __future__ import annotations

import difflib
from collections.abc import Sequence
from typing import Annotated

import typer

from fournos.cli.command import Cli, Session, verb
from fournos.cli.errors import Fail
from fournos.cli.exits import Exit
from fournos.cli.explain import view as explanation
from fournos.cli.lazy import sub_app
from fournos.cli.output import table
from fournos.frameworks.kind_spec import FinishRule, Framework
from fournos.insight.explanation import as_data
from fournos.insight.frameworks_facts import gather
from fournos.insight.frameworks_kinds import kinds_of, words_of
from fournos.insight.frameworks_reasons import explain, phase
from fournos.insight.values import name_of
from fournos.kube.errors import ForbiddenError, KubeError, NoSuchResourceError, NotFoundError
from fournos.kube.resource import Key, Obj
from fournos.queueing.workload import QUEUE_NAME_LABEL

app = sub_app()


@verb(app, "list", "ls")
def list_kinds(
    cli: Cli,
    file: Annotated[
        str, typer.Option("--file", "-f", metavar="FILE", help="Also those of this file, which is checked.")
    ] = "",
) -> None:
    """List the kinds that the operator queues, and how. Needs no cluster.

    \b
    fournos frameworks list
    fournos frameworks list -f samples/frameworks.yaml    before the operator gets it
    """
    found = kinds_of(file)
    if cli.output.structured:
        cli.output.data({"frameworks": [one.model_dump(by_alias=True, mode="json") for one in found]})
        return
    rows = [[one.name, _held(one), _asked(one), _ended(one)] for one in found]
    header = ["KIND", "HELD BY", "ASKS FOR", "ENDS BY"]
    cli.output.lines(table(header, rows, width=cli.output.width))


@verb(app, "explain", "why")
async def explain_object(
    cli: Cli,
    name: Annotated[
        str,
        typer.Argument(
            metavar="[KIND/]NAME",
            help="Name of the object; the kind where several have one of that name.",
            show_default=False,
        ),
    ],
    file: Annotated[
        str,
        typer.Option(
            "--file",
            "-f",
            metavar="FILE",
            envvar="FOURNOS_FRAMEWORKS_FILE",
            help="The operator's file of kinds.",
        ),
    ] = "",
) -> None:
    """Say why an object of such a kind waits, what its queue says of it, and what follows.

    \b
    fournos frameworks explain build-x7k2m
    fournos frameworks explain foo/mine -f samples/frameworks.yaml
    """
    kinds = kinds_of(file)
    async with cli.session() as session:
        framework, obj = await _find(session, kinds, name)
        found = await gather(session.api, framework, obj)
    told = explain(found)
    shown = {**obj, "status": {"phase": phase(found)}}
    if cli.output.structured:
        cli.output.data(as_data(shown, told))
    else:
        cli.output.lines(explanation(shown, told, cli.world.now(), width=cli.output.width))


# --- which object is meant ---------------------------------------------------------------------------


async def _find(session: Session, kinds: Sequence[Framework], text: str) -> tuple[Framework, Obj]:
    """Returns the object that `text` names, and its kind.  Raises Fail if none or several match."""
    kind, _, name = text.rpartition("/")
    meant = [one for one in kinds if not kind or kind.lower() in words_of(one)]
    if not meant:
        known = ", ".join(one.name for one in kinds)
        raise Fail(
            f"{kind} is no kind that is queued by configuration", fix=f"known: {known}; others: -f FILE"
        )
    there = []
    for one in meant:
        try:
            there.append((one, await session.api.get(one.resource, Key(session.namespace, name))))
        except (NotFoundError, NoSuchResourceError):
            continue
        except ForbiddenError:
            if kind:
                raise
    if len(there) == 1:
        return there[0]
    if there:
        choice = " or ".join(f"{one.resource.kind}/{name}" for one, _ in there)
        raise Fail(f"several kinds have a {name}", fix=f"say which: {choice}")
    others = [other for one in meant for other in await _queued(session, one)]
    near = difflib.get_close_matches(name, others, n=3, cutoff=0.6)
    plurals = ",".join(f"{one.resource.plural}.{one.resource.group}" for one in meant)
    look = f"see what there is: kubectl get {plurals} -n {session.namespace} -l {QUEUE_NAME_LABEL}"
    raise Fail(
        f"no {' or '.join(one.resource.kind for one in meant)} {name} in namespace {session.namespace}",
        fix=f"did you mean {' or '.join(near)}?" if near else look,
        code=Exit.NOT_FOUND,
    )


async def _queued(session: Session, framework: Framework) -> list[str]:
    try:
        found = await session.api.list(
            framework.resource, namespace=session.namespace, selector=QUEUE_NAME_LABEL
        )
    except KubeError:
        return []
    return [name_of(one) for one in found.items]


# --- the list of kinds -------------------------------------------------------------------------------


def _held(one: Framework) -> str:
    return f"{one.hold.path}={_value(one.hold.held)}"


def _asked(one: Framework) -> str:
    if one.pod_sets:
        return ", ".join(rule.template for rule in one.pod_sets)
    return ", ".join(f"{name}={amount}" for name, amount in one.default_requests.items())


def _ended(one: Framework) -> str:
    def words(rule: FinishRule) -> str:
        return f"condition {rule.condition}" if rule.condition else str(rule.path)

    return ", ".join(map(words, one.finished))


def _value(value: object) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)
