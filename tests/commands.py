"""make targets and scripts of this checkout, run as people run them, with this environment's Python."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from tests.waiting import LIMIT

ROOT = Path(__file__).resolve().parents[1]
_OURS = ("MAKE", "FOURNOS_NAMESPACE", "FOURNOS_SECRETS_NAMESPACE", "KUBECONFIG", "MFLAGS")
"""Variables of the run that these tests are part of, which a person would not have."""


def environment(variables: Mapping[str, str]) -> dict[str, str]:
    found = {name: value for name, value in os.environ.items() if not name.startswith(_OURS)}
    return {**found, "VENV": sys.prefix, **variables}


def run(*words: str, limit: float = 400.0, fails: bool = False, **variables: str) -> str:
    """What is shown, errors included."""
    done = subprocess.run(
        words,
        cwd=ROOT,
        env=environment(variables),
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=limit,
        check=False,
    )
    assert (done.returncode != 0) == fails, f"{' '.join(words)}\n{done.stdout}"
    return done.stdout


@contextmanager
def running(*words: str, **variables: str) -> Iterator[Path]:
    """Meanwhile, in a terminal of its own, where Ctrl-C ends it; yields the file of what it shows."""
    with tempfile.TemporaryDirectory() as directory:
        shown = Path(directory) / "shown"
        with shown.open("w") as output:
            process = subprocess.Popen(
                words,
                cwd=ROOT,
                env=environment(variables),
                stdout=output,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )
        try:
            yield shown
            assert process.poll() is None, f"{' '.join(words)} has ended\n{shown.read_text()}"
            os.killpg(process.pid, signal.SIGINT)
            process.wait(timeout=LIMIT)
        finally:
            if process.poll() is None:
                os.killpg(process.pid, signal.SIGKILL)
                process.wait(timeout=LIMIT)
