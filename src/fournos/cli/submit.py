"""fournos submit: creates jobs from manifests."""

from __future__ import annotations

import copy
import sys
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any

import typer

from fournos.api.kinds import FOURNOS_JOB
from fournos.cli.command import Cli, CliSession
from fournos.cli.errors import Fail
from fournos.cli.options import Format
from fournos.cli.watch import follow_to_end
from fournos.insight import manifests as m
from fournos.insight.manifests import assign, field_path, unknown_names, value_at
from fournos.insight.values import Obj, name_of


def read(path: str) -> str:
    """Returns the text of a file, or of stdin for "-".  Raises Fail."""
    if path == "-":
        return sys.stdin.read()
    try:
        return Path(path).read_text(encoding="utf-8")
    except OSError as error:
        raise Fail(
            f"cannot read {path}: {error.strerror}", fix="name a file of yours, or - for standard input"
        ) from None
    except UnicodeDecodeError:
        raise Fail(f"{path} is not text in UTF-8", fix="name a YAML or JSON file") from None


def put(manifest: dict[str, Any], given: str, *, text: bool = False) -> None:
    """Applies one assignment to the manifest.  Raises Fail."""
    path, value = assignment(given, text=text)
    assign(manifest, field_path(path), value, asked=f"--set {path}")


def assignment(given: str, *, text: bool = False) -> tuple[str, Any]:
    """Splits one `path=value` into path and value.

    The path is relative to spec unless it starts with spec or metadata; `\\.` is a dot within a name.  The
    value is parsed as YAML, so that 2, true and [a, b] have the types of the field; with `text` it stays a
    string.  An empty YAML value is null, which removes the field.  Raises Fail.
    """
    path, equals, value = given.partition("=")
    parts = field_path(path)
    if not equals or not parts:
        raise Fail(
            f"--set {given!r:.80} is not path=value",
            fix="write it like --set hardware.gpuCount=4 or --set env.OCPCI_SUITE=regression",
        )
    if len(parts) == 1:
        raise Fail(f"--set {path} names no field", fix=f"write the field too, like --set {path}.cluster=…")
    try:
        parsed = value if text else value_at(path, value)
    except ValueError as error:
        raise Fail(f"--set {path}: the value {error}", fix="use --set-string for a text") from None
    return path, parsed


class DryRun(StrEnum):
    CLIENT = "client"
    SERVER = "server"


FilesOption = Annotated[
    list[str] | None,
    typer.Option(
        "--file", "-f", metavar="FILE", help="Manifest in YAML or JSON; - is standard input. Repeatable."
    ),
]
SetOption = Annotated[
    list[str] | None,
    typer.Option(
        "--set",
        metavar="PATH=VALUE",
        help="Set a field of spec (or metadata.…); the value is YAML, an empty one removes the field. "
        "Repeatable; without -f the job is built from these alone.",
    ),
]
SetStringOption = Annotated[
    list[str] | None,
    typer.Option("--set-string", metavar="PATH=TEXT", help="As --set, but the value is always a text."),
]
NameOption = Annotated[str | None, typer.Option("--name", metavar="NAME", help="Name of the job.")]
GenerateNameOption = Annotated[
    str | None,
    typer.Option("--generate-name", metavar="PREFIX", help="Prefix of a name that the server completes."),
]
OwnerOption = Annotated[
    str | None,
    typer.Option(
        "--owner", metavar="NAME", help="Owner, where the manifest names none.", envvar="FOURNOS_OWNER"
    ),
]
RepeatOption = Annotated[
    int,
    typer.Option(
        "--repeat",
        metavar="N",
        min=1,
        max=m.MAX_REPEAT,
        help="Submit each job N times, to see how much its results vary; a name becomes the prefix of "
        "generated ones.",
    ),
]
WatchOption = Annotated[
    bool, typer.Option("--watch", "-w", help="Follow the job; the exit code is then the job's.")
]
DryRunOption = Annotated[
    DryRun | None,
    typer.Option(
        "--dry-run",
        help="Submit nothing: 'client' checks here and prints the manifest; 'server' lets the API server "
        "check too.",
    ),
]

ForceOption = Annotated[
    bool,
    typer.Option("--force", help="Submit it although nothing has the name of its cluster, Pipeline or GPU."),
]


async def submit(
    cli: Cli,
    files: FilesOption = None,
    assignments: SetOption = None,
    texts: SetStringOption = None,
    name: NameOption = None,
    generate_name: GenerateNameOption = None,
    owner: OwnerOption = None,
    repeat: RepeatOption = 1,
    watch: WatchOption = False,
    dry_run: DryRunOption = None,
    force: ForceOption = False,
) -> int:
    """Submit jobs.

    The manifest is checked here first, by the rules of the API server, and whether its cluster,
    Pipeline and GPU type exist; errors name the field, with what to write instead (exit code 2).

    \b
    fournos submit -f job.yaml --watch
    fournos submit -f job.yaml --set hardware.gpuCount=4 --set env.OCPCI_SUITE=nightly
    generate-job | fournos submit -f - --name nightly-42
    fournos submit --set cluster=cluster-1 --set executionEngine.forge.project=llmd
    fournos submit -f job.yaml --repeat 5
    fournos submit -f job.yaml --dry-run client
    """
    if name and generate_name:
        raise Fail("--name and --generate-name exclude one another", fix="leave one out")
    manifests = prepare(
        documents_of(files or ()),
        assignments=assignments or (),
        texts=texts or (),
        name=name,
        generate_name=generate_name,
        owner=owner,
        repeat=repeat,
    )
    if watch and len(manifests) > 1:
        raise Fail(f"--watch follows one job, here are {len(manifests)}", fix="leave --watch out")
    if dry_run is DryRun.CLIENT:
        for manifest in manifests:
            if cli.common.namespace:
                m.place(manifest, asked=cli.common.namespace, otherwise="")
        return _show(cli, manifests)
    async with cli.session() as session:
        for manifest in manifests:
            m.place(manifest, asked=cli.common.namespace, otherwise=session.namespace)
        if not force:
            await refuse_unknown(session, manifests)
        if dry_run is DryRun.SERVER:
            answers = [await session.api.create(FOURNOS_JOB, job, dry_run=True) for job in manifests]
            return _show(cli, answers)
        return await _create(cli, session, manifests, watch=watch)


async def refuse_unknown(session: CliSession, manifests: list[dict[str, Any]]) -> None:
    """Raises Fail for the names in manifests that nothing has.  Copies of one manifest are looked at once."""
    unlike = [job for place, job in enumerate(manifests) if job not in manifests[:place]]
    for manifest in unlike:
        if unknown := await unknown_names(session.api, manifest):
            refusal = m.refused(manifest, unknown, "would fail at once")
            raise Fail(refusal.message, fix="correct these fields, or submit it anyway: --force")


async def _create(cli: Cli, session: CliSession, manifests: list[dict[str, Any]], *, watch: bool) -> int:
    created: list[Obj] = []
    try:
        for manifest in manifests:
            created.append(await session.api.create(FOURNOS_JOB, manifest))
            if cli.output.form in (Format.TABLE, Format.WIDE):
                cli.output.say(f"{name_of(created[-1])} submitted to {created[-1]['metadata']['namespace']}")
    finally:
        # Printed also when a later manifest is refused: these jobs exist.
        if created:
            cli.output.objects(FOURNOS_JOB, created, single=len(manifests) == 1)
    if watch:
        return await follow_to_end(cli, session, created[0], quiet=cli.output.form is not Format.TABLE)
    if cli.output.interactive and len(created) == 1:
        cli.output.hint(f"Follow it: fournos watch {name_of(created[0])}")
    return 0


def documents_of(files: list[str] | tuple[()]) -> list[tuple[str, dict[str, Any]]]:
    documents_by_source = []
    for file in files:
        source = "standard input" if file == "-" else file
        documents_by_source += [(source, document) for document in m.parse(read(file), source)]
    return documents_by_source


def prepare(
    sources: list[tuple[str, dict[str, Any]]],
    *,
    assignments: list[str] | tuple[()],
    texts: list[str] | tuple[()],
    name: str | None,
    generate_name: str | None,
    owner: str | None,
    repeat: int = 1,
) -> list[dict[str, Any]]:
    """Returns the manifests as they are sent.  Raises Fail with all violations of all manifests."""
    if not sources and not assignments and not texts:
        raise Fail("no job to submit", fix="name a manifest with -f FILE, or set fields with --set")
    if not sources:
        sources = [("the command line", m.skeleton())]
    if name and len(sources) > 1:
        raise Fail(f"--name names one job, here are {len(sources)}", fix="use --generate-name")
    result, failures = [], []
    for source, original in sources:
        manifest = copy.deepcopy(original)
        for assignment in assignments:
            put(manifest, assignment)
        for assignment in texts:
            put(manifest, assignment, text=True)
        m.rename(manifest, name=name, generate_name=generate_name)
        if repeat > 1:
            manifest = m.with_generated_name(manifest)
        m.with_owner(manifest, owner)
        if violations := m.check(manifest):
            failures.append(m.refused(manifest, violations, source))
        result += [copy.deepcopy(manifest) for _ in range(repeat)]
    if failures:
        raise Fail("\n".join(failure.message for failure in failures), fix=failures[0].fix)
    return result


def _show(cli: Cli, objects: list[Any]) -> int:
    """Prints the manifests of a dry run, as YAML unless `-o` selects another format."""
    single = len(objects) == 1
    if cli.output.form is Format.NAME:
        cli.output.lines(o["metadata"].get("name") or f"{o['metadata']['generateName']}…" for o in objects)
    elif not cli.output.objects(FOURNOS_JOB, objects, single=single):
        cli.output.data(objects[0] if single else {"apiVersion": "v1", "kind": "List", "items": objects})
    return 0
