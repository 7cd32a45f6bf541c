"""What importing costs."""

from __future__ import annotations

import os
import resource
import subprocess
import sys
from pathlib import Path

import pytest

SOURCES = Path(__file__).parents[3] / "src"


def run(code: str) -> str:
    environment = {**os.environ, "PYTHONPATH": str(SOURCES)}
    command = [sys.executable, "-c", code]
    return subprocess.run(command, capture_output=True, text=True, env=environment, check=True).stdout


def test_the_package_alone_loads_nothing_and_offers_the_client() -> None:
    heavy = (
        "{'pydantic', 'aiohttp', 'yaml', 'logging', 'fournos.engine.kube', 'fournos.api', 'rich', 'typer'}"
    )
    assert run(f"import sys, fournos; print({heavy} & sys.modules.keys())") == "set()\n"
    code = "import fournos; print(fournos.Client.__module__, fournos.AsyncClient.__name__, dir(fournos))"
    out = run(code)
    assert out.startswith("fournos.client.synchronous AsyncClient ")
    assert "'Client'" in out
    assert run("import fournos; print(hasattr(fournos, 'Clinet'))") == "False\n"


def test_the_client_loads_models_rules_and_terminals_when_they_are_needed() -> None:
    later = {
        "fournos.insight.reasons",
        "fournos.systems.jobs.rules",
        "fournos.systems.multikueue.names",
        "fournos.engine.queueing.workload",
        "pydantic",
        "rich",
        "typer",
    }
    assert run(f"import sys, fournos.client; print({later} & sys.modules.keys())") == "set()\n"


@pytest.mark.timing
def test_importing_the_client_takes_little_more_than_its_libraries() -> None:
    """Processor time, the best of several, side by side."""

    def best(code: str) -> float:
        times = []
        for _ in range(5):
            before = resource.getrusage(resource.RUSAGE_CHILDREN)
            run(code)
            after = resource.getrusage(resource.RUSAGE_CHILDREN)
            times.append(after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime)
        return min(times)

    assert best("import fournos.client") <= 1.5 * best("import aiohttp, pydantic")
