"""The command line: what people type."""

from __future__ import annotations

import logging

# Without a handler Python prints warnings to stderr; commands say themselves what people should know.
# `fournos run` sets its own handlers up.
logging.getLogger("fournos").addHandler(logging.NullHandler())


def main() -> None:
    """The program `fournos`."""
    from fournos.cli.app import build

    build()()
