"""Builds promtool, which checks and tests Prometheus rules, from its Go module into the cache.

`python -m dev.promtool ARGUMENT…` runs it.
"""

from __future__ import annotations

import hashlib
import os
import subprocess
import sys
from pathlib import Path

from devcluster import DevclusterError
from devcluster.locks import file_lock
from devcluster.paths import cache_root
from devcluster.progress import Progress
from devcluster.shell import stream
from devcluster.system import ensure_go

SOURCES = Path(__file__).parent / "go" / "promtool"
"""A separate Go module: its requirements must not change the versions of a local cluster's programs, or cause
them to be compiled again."""
_PACKAGE = "github.com/prometheus/prometheus/cmd/promtool"
_LIMIT = 1800.0
# Only the service discoveries by file and http are built: the others need the libraries of cloud providers.
_TAGS = "remove_all_sd"


def ensure_promtool(progress: Progress) -> Path:
    """Returns the program, built if this version is not in the cache.  Raises DevclusterError."""
    pinned = b"".join((SOURCES / name).read_bytes() for name in ("go.mod", "go.sum"))
    program = cache_root() / f"promtool-{hashlib.sha256(pinned).hexdigest()[:12]}"
    with file_lock(cache_root() / ".promtool.lock", limit=_LIMIT, what="the build of promtool"):
        if program.is_file():
            return program
        go = ensure_go(progress, at_least=(1, 25))
        unfinished = program.with_suffix(".new")
        environment = {
            "CGO_ENABLED": "0",
            "GOFLAGS": "-mod=readonly",
            "GOTOOLCHAIN": "local",
            "PATH": f"{go.parent}:{os.environ.get('PATH', '')}",
        }
        with progress.step("Building promtool", usual="2 min, warm 5 s") as step:

            def show(line: str) -> None:
                step.detail = line[-60:]

            words: list[str | Path] = [go, "build", "-v", "-tags", _TAGS, "-ldflags", "-s -w"]
            stream(
                [*words, "-o", unfinished, _PACKAGE], on_line=show, limit=_LIMIT, cwd=SOURCES, env=environment
            )
        unfinished.replace(program)
    return program


def main() -> int:
    try:
        program = ensure_promtool(Progress())
    except DevclusterError as error:
        print(f"error: {error}", file=sys.stderr)
        return 1
    return subprocess.run([program, *sys.argv[1:]], check=False).returncode


if __name__ == "__main__":
    sys.exit(main())
