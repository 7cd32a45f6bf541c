"""fournos minicluster …: Flux clusters.  The commands that need a cluster are in `minicluster_live`."""

from __future__ import annotations

import sys
from typing import Annotated, Any

import typer
import yaml

from fournos.api.kinds import MINICLUSTER
from fournos.cli.command import Cli, command_group, verb
from fournos.cli.errors import Fail
from fournos.cli.manifest import read
from fournos.cli.minicluster_live import install
from fournos.engine.api.values import escaped
from fournos.insight.manifests import documents
from fournos.insight.miniclusters import accepted, entrypoint_file, objects_of
from fournos.insight.values import Obj

app = command_group("MiniClusters: Flux clusters in the pods of a Job.")
install(app)


@verb(app, "render")
def render(
    cli: Cli,
    file: Annotated[
        str, typer.Option("--file", "-f", metavar="FILE", help="The manifest; - is standard input.")
    ],
    only: Annotated[
        str | None,
        typer.Option(
            "--only",
            metavar="KEY",
            help="Print one file of the entrypoint ConfigMap, such as wait-0, broker.toml or hostlist.",
        ),
    ] = None,
    certificate: Annotated[
        bool,
        typer.Option("--certificate", help="Make a certificate, so that what is printed can be applied."),
    ] = False,
) -> int:
    """Print what a MiniCluster is made of, after the same checks as the API server's. Needs no cluster.

    \b
    fournos minicluster render -f minicluster.yaml
    fournos minicluster render -f minicluster.yaml --only wait-0
    """
    minicluster = _read(file, cli.common.namespace)
    if only is not None:
        script = entrypoint_file(minicluster, only)
        typer.echo(escaped(script) if sys.stdout.isatty() else script, nl=not script.endswith("\n"))
        return 0
    typer.echo("---\n".join(map(_yaml, objects_of(minicluster, certificate=certificate))), nl=False)
    return 0


def _read(path: str, namespace: str | None) -> dict[str, Any]:
    """Returns the only MiniCluster of a file.  Raises Fail, or ManifestError if it would be refused."""
    miniclusters = [one for one in documents(read(path), path) if one.get("kind") == MINICLUSTER.kind]
    if len(miniclusters) != 1:
        raise Fail(f"{path} holds {len(miniclusters)} MiniClusters", fix="name a file with exactly one")
    minicluster = miniclusters[0]
    accepted(minicluster, path)
    if namespace:
        minicluster["metadata"]["namespace"] = namespace
    return minicluster


class _Dumper(yaml.SafeDumper):
    """Writes strings of several lines as literal blocks, and no anchors."""

    def ignore_aliases(self, data: Any) -> bool:
        return True


def _text(dumper: yaml.SafeDumper, text: str) -> yaml.ScalarNode:
    return dumper.represent_scalar("tag:yaml.org,2002:str", text, style="|" if "\n" in text else None)


_Dumper.add_representer(str, _text)


def _yaml(obj: Obj | str) -> str:
    return str(yaml.dump(obj, Dumper=_Dumper, sort_keys=False, width=110))
