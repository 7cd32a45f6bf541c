"""`python -m fournos`: the command line, where its script is not installed."""

from fournos.cli import main

main()
