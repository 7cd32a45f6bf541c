"""fournos version and fournos completion."""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated, Final

import typer
from rich.text import Text
from typer.completion import get_completion_script  # type: ignore[attr-defined]

from fournos import __version__
from fournos.api.kinds import FOURNOS_JOB
from fournos.cli.command import Cli

VERSION: Final = f"fournos {__version__} ({FOURNOS_JOB.api_version})"


class Shell(StrEnum):
    BASH = "bash"
    ZSH = "zsh"
    FISH = "fish"
    POWERSHELL = "powershell"


def version(cli: Cli) -> None:
    """Show the version of this program and of the API that it speaks."""
    data = {"version": __version__, "api": FOURNOS_JOB.api_version}
    if cli.output.structured:
        cli.output.data(data)
    else:
        cli.output.say(VERSION)


def completion(
    cli: Cli, shell: Annotated[Shell, typer.Argument(help="Shell to complete in.", show_default=False)]
) -> None:
    """Print the script that completes commands, options and names of live jobs.

    \b
    source <(fournos completion bash)              this shell
    fournos completion zsh > ~/.zfunc/_fournos     every zsh
    fournos --install-completion                   or let fournos set it up
    """
    script = get_completion_script(prog_name="fournos", complete_var="_FOURNOS_COMPLETE", shell=shell)
    cli.output.say(Text(script))
