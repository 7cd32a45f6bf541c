"""The command line `fournos`."""

from __future__ import annotations

import logging

# Without a handler Python prints log records to stderr.  Commands print what the user needs themselves;
# `fournos run` installs its own handlers.
logging.getLogger("fournos").addHandler(logging.NullHandler())


def main() -> None:
    """The entry point of the program `fournos`."""
    from fournos.cli.app import build

    build()()
