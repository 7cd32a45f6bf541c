"""The common options of all commands, and their values."""

from __future__ import annotations

from dataclasses import dataclass, fields, replace
from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer


class Format(StrEnum):
    """The formats of `-o`."""

    TABLE = "table"
    WIDE = "wide"
    NAME = "name"
    JSON = "json"
    YAML = "yaml"
    CSV = "csv"
    """Of commands that say so, like MARKDOWN."""
    MARKDOWN = "md"


PANEL = "Common options"


# Completions are imported when they are asked for: their module imports this one.
def _contexts(ctx: typer.Context, incomplete: str) -> list[str]:
    from fournos.cli.find import complete_context

    return complete_context(ctx, incomplete)


def _namespaces(ctx: typer.Context, incomplete: str) -> list[tuple[str, str]]:
    from fournos.cli.find import complete_namespace

    return complete_namespace(ctx, incomplete)


NamespaceOption = Annotated[
    str | None,
    typer.Option(
        "--namespace",
        "-n",
        metavar="NAME",
        help="Namespace of the jobs; default: FOURNOS_NAMESPACE, then the kubeconfig context's.",
        autocompletion=_namespaces,
        rich_help_panel=PANEL,
    ),
]
KubeconfigOption = Annotated[
    Path | None,
    typer.Option(
        "--kubeconfig",
        metavar="FILE",
        help="Kubeconfig; default: KUBECONFIG, then ~/.kube/config.",
        rich_help_panel=PANEL,
    ),
]
ContextOption = Annotated[
    str | None,
    typer.Option(
        "--context",
        metavar="NAME",
        help="Context of the kubeconfig; default: its current one.",
        autocompletion=_contexts,
        rich_help_panel=PANEL,
    ),
]
ToOption = Annotated[
    Path | None, typer.Option("--to", metavar="FILE", help="Write it here; without it, to stdout.")
]
FormatOption = Annotated[
    Format | None,
    typer.Option("--output", "-o", help="Form of the answer; default: table.", rich_help_panel=PANEL),
]
NoColorOption = Annotated[
    bool,
    typer.Option(
        "--no-color", help="No colours; the variable NO_COLOR does the same.", rich_help_panel=PANEL
    ),
]


@dataclass(frozen=True, slots=True)
class CommonOptions:
    """Values of the common options."""

    namespace: NamespaceOption = None
    kubeconfig: KubeconfigOption = None
    context: ContextOption = None
    output: FormatOption = None
    no_color: NoColorOption = False

    def over(self, outer: CommonOptions) -> CommonOptions:
        """Merges two sets of options.  An option after the verb overrides the same option before it."""
        given = {f.name: value for f in fields(self) if (value := getattr(self, f.name))}
        return replace(outer, **given)
