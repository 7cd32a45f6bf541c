"""What runs beside the operator of the jobs in a lab: a history that records, and a page with an open tab."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Final

from bench.operator import operator
from bench.rig import NAMESPACE
from bench.tasks import background
from bench.web import Site, open_tab, server

JOBS_SETTINGS: Final = {"FOURNOS_HISTORY_ENABLED": "true"}
"""Of the operator of the jobs: after its ttl a job stays until its end is recorded."""


@asynccontextmanager
async def history_and_page(kubeconfig: Path, directory: Path) -> AsyncIterator[dict[str, int]]:
    """Starts both and opens a tab; yields their PIDs by name, and ends them at the end."""
    settings = {
        "FOURNOS_HISTORY_DIRECTORY": str(directory / "history"),
        "FOURNOS_HISTORY_URL": f"sqlite:///{directory}/history.db",
        "FOURNOS_HISTORY_JOBS_NAMESPACE": NAMESPACE,
    }
    log = directory / "history.log"
    async with (
        operator(kubeconfig, log, enable="history", settings=settings) as history,
        server(kubeconfig) as (address, page),
        background(open_tab(await Site.of(address))),
    ):
        yield {"history": history.pid, "page": page}
