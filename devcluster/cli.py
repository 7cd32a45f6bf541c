"""The command line of devcluster."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any, Literal

import typer
import yaml

from devcluster import checkout, cluster, endings, state
from devcluster.archive import tags_of
from devcluster.errors import DevclusterError
from devcluster.native import build as build_all
from devcluster.progress import Progress
from devcluster.spec import ClusterSpec, Profile, ProviderName
from devcluster.versions import DEFAULT, SETS, VARIABLE, Versions

_HELP = """\
Real Kubernetes clusters on this machine, for development and tests: Kubernetes, Tekton and Kueue.

No image registry and no downloaded binaries are needed: everything is built once from Go modules (about ten
minutes) into a cache, after that a cluster takes half a minute. Clusters have names, run side by side, and
leave nothing behind when they are taken down.

\b
First steps:
  python -m devcluster up demo                      a full cluster, pods run in it
  export KUBECONFIG=$(python -m devcluster kubeconfig demo)
  python -m devcluster kubectl demo -- get pods -A
  python -m devcluster status demo                  every component, and how it is
  python -m devcluster down demo
"""

app = typer.Typer(help=_HELP, no_args_is_help=True, rich_markup_mode=None, pretty_exceptions_enable=False)

VersionsOption = Annotated[
    str,
    typer.Option(envvar=VARIABLE, help=f"Set of versions: {', '.join(SETS)} (docs/devcluster.md)."),
]
Name = Annotated[str, typer.Argument(help="The cluster's name: lower-case letters, digits, hyphens.")]


@app.command()
def up(
    name: Name,
    profile: Annotated[
        Profile,
        typer.Option(
            help="full: with a node, pods run. control-plane: API server, controllers and Kueue as plain "
            "processes, Tekton's definitions, no node; starts in 10 s."
        ),
    ] = "full",
    provider: Annotated[
        ProviderName,
        typer.Option(
            help="native: Linux and root. kind: Docker or Podman (unverified). "
            "existing: any cluster, with --kubeconfig."
        ),
    ] = "native",
    without: Annotated[str, typer.Option(help="Parts to leave out: tekton, kueue, or tekton,kueue.")] = "",
    kueue_config: Annotated[
        Path | None,
        typer.Option(
            exists=True, dir_okay=False, help="YAML to merge into Kueue's Configuration; null removes a key."
        ),
    ] = None,
    kubeconfig: Annotated[
        Path | None,
        typer.Option(exists=True, dir_okay=False, help="With --provider existing: the cluster to use."),
    ] = None,
    install: Annotated[
        bool,
        typer.Option("--install", help="With --provider existing: install Tekton and Kueue where missing."),
    ] = False,
    recreate: Annotated[
        bool, typer.Option("--recreate", help="Remove a cluster of that name first.")
    ] = False,
    versions: VersionsOption = DEFAULT,
) -> None:
    """Bring a cluster up. One that is up already is left as it is; a broken one is removed first."""
    spec = ClusterSpec(
        name=name,
        profile=profile,
        provider=provider,
        without=frozenset(part.strip() for part in without.split(",") if part.strip()),
        kueue_config=_read_yaml(kueue_config) if kueue_config else {},
        kubeconfig=str(kubeconfig.resolve()) if kubeconfig else None,
        install=install,
        versions=versions,
    )
    made = cluster.start(spec, progress=Progress(), recreate=recreate)
    typer.echo(made.kubeconfig_path)


@app.command()
def down(name: Name) -> None:
    """Take a cluster down and remove everything of it, whatever condition it is in."""
    if not cluster.stop(name, progress=Progress()):
        typer.echo(f"There is no cluster {name}.", err=True)


@app.command()
def teardown() -> None:
    """Take every cluster down that this checkout made; those of other checkouts stay."""
    if not checkout.end_all(Progress()):
        typer.echo("This checkout has no cluster.", err=True)


@app.command(context_settings={"ignore_unknown_options": True})
def around(
    command: Annotated[list[str], typer.Argument(help="The command and its arguments, after `--`.")],
    keep: Annotated[
        Literal["yes", "no"],
        typer.Option(help="yes: list this checkout's clusters afterwards. no: end them, however it ended."),
    ] = "yes",
    earlier: Annotated[
        int, typer.Option(help="The exit code of what ran before, returned when the command succeeds.")
    ] = 0,
) -> None:
    """Run a command that brings clusters up, such as tests: around -- COMMAND. Its exit code is returned."""
    raise typer.Exit(checkout.around(command, keep=keep == "yes", progress=Progress()) or earlier)


@app.command(name="list")
def list_clusters() -> None:
    """List the clusters of this machine."""
    rows = [("NAME", "VERSIONS", "PROFILE", "PROVIDER", "STATE", "KUBECONFIG")]
    for name in state.names():
        record = state.require(name)
        condition = (
            "up"
            if cluster.healthy(record)
            else "broken"
            if record.phase == "ready"
            else "starting or cut short"
        )
        spec = record.spec
        rows.append((name, spec.versions, spec.profile, spec.provider, condition, str(record.kubeconfig)))
    _print_columns(rows)


@app.command()
def status(name: Name) -> None:
    """Show every component of a cluster. The exit code is 1 when one of them is not running."""
    rows = cluster.Cluster(state.require(name)).status()
    _print_columns(
        [("COMPONENT", "STATE", "DETAIL"), *((row.component, row.state, row.detail) for row in rows)]
    )
    if any(row.state != "running" for row in rows):
        raise typer.Exit(1)


@app.command()
def logs(
    name: Name,
    component: Annotated[
        str, typer.Argument(help="As `status` names it: etcd, kube-apiserver, kubelet, kueue, …")
    ],
    tail: Annotated[int, typer.Option(help="How many lines, from the end.")] = 200,
) -> None:
    """Print the last lines of a component's log."""
    typer.echo(cluster.Cluster(state.require(name)).logs(component, tail=tail))


@app.command()
def kubeconfig(name: Name) -> None:
    """Print the path of a cluster's kubeconfig."""
    typer.echo(state.require(name).kubeconfig)


@app.command(context_settings={"ignore_unknown_options": True, "allow_extra_args": True})
def kubectl(context: typer.Context, name: Name) -> None:
    """Run kubectl against a cluster: kubectl NAME -- get pods -A."""
    words = [*cluster.Cluster(state.require(name)).kubectl_words(), *context.args]
    os.execvp(words[0], words)  # noqa: S606 (it becomes kubectl: terminal, signals and exit code are its own)


@app.command()
def load(
    name: Name,
    archive: Annotated[Path, typer.Argument(exists=True, dir_okay=False, help="A docker archive.")],
) -> None:
    """Load an image into a cluster's node."""
    cluster.Cluster(state.require(name)).load(archive, progress=Progress())
    typer.echo("\n".join(tags_of(archive)))


@app.command()
def build(versions: VersionsOption = DEFAULT) -> None:
    """Build programs and images into the cache, and start nothing."""
    built, _ = build_all(Progress(), Versions.named(versions))
    typer.echo(built.root)


def main() -> None:
    """Runs the command line. An error ends it with a sentence and exit code 1."""

    def command() -> int:
        app(prog_name="python -m devcluster")
        return 0

    sys.exit(endings.run(command))


def _read_yaml(path: Path) -> dict[str, Any]:
    try:
        data = yaml.safe_load(path.read_text())
    except yaml.YAMLError as error:
        raise DevclusterError(f"{path} is not YAML: {error}") from None
    if not isinstance(data, dict):
        raise DevclusterError(f"{path} must hold a map: fields of Kueue's Configuration")
    return data


def _print_columns(rows: Sequence[Sequence[str]]) -> None:
    """Prints aligned columns. The last column is never truncated, so that a path can be copied from it."""
    widths = [max(len(row[column]) for row in rows) for column in range(len(rows[0]) - 1)]
    for row in rows:
        cells = [cell.ljust(width) for cell, width in zip(row[:-1], widths, strict=True)]
        typer.echo("  ".join([*cells, row[-1]]).rstrip())
