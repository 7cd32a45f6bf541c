"""Builds programs that tests need from their Go modules into the cache.

`python -m dev.go_tools NAME ARGUMENT…` runs one, `python -m dev.go_tools --build` builds all.
"""

from __future__ import annotations

import hashlib
import os
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from devcluster import DevclusterError
from devcluster.locks import file_lock
from devcluster.paths import cache_root
from devcluster.progress import Progress
from devcluster.shell import stream
from devcluster.system import ensure_go

_LIMIT: Final = 1800.0


@dataclass(frozen=True)
class GoTool:
    """A program of a Go module of its own, dev/go/NAME.

    Its requirements must not change the versions of a local cluster's programs, or cause them to be compiled
    again.
    """

    name: str
    package: str
    at_least: tuple[int, int]
    """The version of Go."""
    options: tuple[str, ...] = ()
    """Of `go build`."""

    @property
    def sources(self) -> Path:
        return Path(__file__).parent / "go" / self.name


PROMTOOL: Final = GoTool(
    "promtool",
    "github.com/prometheus/prometheus/cmd/promtool",
    (1, 25),
    # Of the service discoveries only those by file and http: the others need libraries of cloud providers.
    ("-tags", "remove_all_sd"),
)
"""Checks and tests Prometheus rules."""
HELM: Final = GoTool("helm", "helm.sh/helm/v3/cmd/helm", (1, 26))
"""Tries charts/fournos."""
OAUTH2_PROXY: Final = GoTool("oauth2-proxy", "github.com/oauth2-proxy/oauth2-proxy/v7", (1, 26))
"""Logs people in before the page."""
OIDC_PROVIDER: Final = GoTool("oidc-provider", "github.com/zitadel/oidc/v3/example/server", (1, 26))
"""An OpenID provider: environment PORT, REDIRECT_URI, USERS_FILE; its client is `web` with `secret`."""
_TOOLS: Final = {tool.name: tool for tool in (PROMTOOL, HELM, OAUTH2_PROXY, OIDC_PROVIDER)}


def ensure(tool: GoTool, progress: Progress) -> Path:
    """Returns the program, built if this version is not in the cache.  Raises DevclusterError."""
    pinned = b"".join((tool.sources / name).read_bytes() for name in ("go.mod", "go.sum"))
    program = cache_root() / f"{tool.name}-{hashlib.sha256(pinned).hexdigest()[:12]}"
    with file_lock(cache_root() / f".{tool.name}.lock", limit=_LIMIT, what=f"the build of {tool.name}"):
        if program.is_file():
            return program
        go = ensure_go(progress, at_least=tool.at_least)
        unfinished = program.with_suffix(".new")
        environment = {
            "CGO_ENABLED": "0",
            "GOFLAGS": "-mod=readonly",
            "GOTOOLCHAIN": "local",
            "PATH": f"{go.parent}:{os.environ.get('PATH', '')}",
        }
        with progress.step(f"Building {tool.name}", usual="2 to 4 min, warm 5 s") as step:

            def show(line: str) -> None:
                step.detail = line[-60:]

            words: list[str | Path] = [go, "build", "-v", *tool.options, "-ldflags", "-s -w"]
            words += ["-o", unfinished, tool.package]
            stream(words, on_line=show, limit=_LIMIT, cwd=tool.sources, env=environment)
        unfinished.replace(program)
    return program


def main(words: Sequence[str] = tuple(sys.argv[1:])) -> int:
    build = list(words) == ["--build"]
    if not build and (not words or words[0] not in _TOOLS):
        print(f"error: name one of {', '.join(_TOOLS)}", file=sys.stderr)
        return 2
    try:
        programs = [ensure(_TOOLS[name], Progress()) for name in (_TOOLS if build else words[:1])]
    except DevclusterError as error:
        print(f"error: {error}", file=sys.stderr)
        return 1
    return 0 if build else subprocess.run([programs[0], *words[1:]], check=False).returncode


if __name__ == "__main__":
    sys.exit(main())
