"""The command line `fournos`."""

from __future__ import annotations

import logging
import sys

# Without a handler Python prints log records to stderr.  Commands print what the user needs themselves;
# `fournos run` installs its own handlers.
logging.getLogger("fournos").addHandler(logging.NullHandler())


def main() -> None:
    """The entry point of the program `fournos`, and of kubectl's plugin `kubectl-fournos`."""
    from fournos.cli.app import build

    plugin = sys.argv[0].rpartition("/")[2].startswith("kubectl-")
    # The usage and the errors show what the user types.
    build()(prog_name="kubectl fournos" if plugin else None)
