"""The entry point of `python -m devcluster`."""

from devcluster.cli import main

main()
