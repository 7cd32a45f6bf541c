"""The command line: what people type."""

from __future__ import annotations


def main() -> None:
    """The program `fournos`."""
    from fournos.cli.app import build

    build()()
