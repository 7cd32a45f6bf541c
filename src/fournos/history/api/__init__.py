"""The HTTP API of the history, /api/v1: what programs, the command line and the page read."""
