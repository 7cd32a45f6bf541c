"""A place where a rendered entrypoint really runs under bash, with a `flux` that notes how it was called.

This `flux` starts programs and returns their exit codes; it has no brokers.
"""

from __future__ import annotations

import os
import signal
import subprocess
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from fournos.systems.miniclusters.containers import file_of
from tests.unit.systems.miniclusters.objects import scripts

QUIET = {"quiet": True}
_BANNER = ("Flux ", "Options of the broker: ", "Command: ")

FLUX = r"""#!/bin/bash
{ printf '%s\x1f' "$@"; printf '\n'; } >>"$STAGE/calls"

rc() {
  # As measured: rc1 restores the state and then runs what FLUX_RC_EXTRA names; rc3 does so before it dumps.
  # SIGTERM in the middle of rc1 ends rc1, rc3 runs all the same, and dumps what there is: nothing.
  local folder script
  [[ $1 == 3 || -z $restore ]] || grep -q state "$restore" || return 1
  [[ $1 == 3 ]] || state=$(cat "$restore" 2>/dev/null)
  for folder in ${FLUX_RC_EXTRA//:/ }; do
    for script in "$folder/rc$1.d"/*; do
      [[ ! -x $script ]] || "$script" || return 1
    done
  done
  [[ $1 == 1 || -z $dump || -n $NO_DUMP ]] || printf '%s' "$state" >"$dump"
}

broker() {
  local child=""
  trap 'told=true; [[ -z $child ]] || kill -HUP "$child" 2>/dev/null' TERM
  told=false state=""
  touch "$STAGE/socket"  # long before anything else
  if [[ -n $SLOW_RC1 ]]; then
    for ((i = 0; i < 6000; i++)); do
      [[ $told == false ]] || { rc 3; exit 1; }
      /bin/sleep 0.01
    done
  fi
  rc 1 && [[ $told == false ]] || { rc 3; exit $([[ $told == true ]] && echo 129 || echo 1); }
  state+=" and more"
  touch "$STAGE/up"
  if [[ $# -gt 0 ]]; then
    [[ -z $KILLED ]] || kill -KILL $$
    "$@" <&0 &
    child=$!
    [[ $told == false ]] || kill -HUP "$child"
    wait "$child"
    code=$?
    # As measured: a lead with a program ends with 129, all other brokers with 0.
    [[ $told == false ]] || { wait "$child"; code=129; }
  elif [[ -n $SLEEP ]]; then
    /bin/sleep "$SLEEP" >/dev/null 2>&1 &
    child=$!
    [[ $told == false ]] || kill -HUP "$child"
    wait "$child"
    code=0
  else
    code=$(tail -n +1 "$STAGE/codes" 2>/dev/null | head -1)
    sed -i 1d "$STAGE/codes" 2>/dev/null
    code=${code:-${BROKER_CODE:-0}}
  fi
  rc 3
  exit "$code"
}

case "$1" in
R) echo '{}' ;;
getattr) echo 0 ;;
version) echo "commands:    		${FLUX_VERSION:-0.61.0}" ;;
uptime) cat "$STAGE/uptime" 2>/dev/null || exit 1 ;;
start | broker)
  what=$1
  shift
  dump="" restore=""
  while [[ $1 == -* ]]; do
    # As before 0.69.
    [[ $what == broker || $1 == -o* || $1 == --wrap=* || $1 == *,* ]] ||
      { echo "flux-start: unrecognized option '$1'" >&2; exit 1; }
    case "$1" in
    *Scontent.dump=*) dump=${1#*dump=} ;;
    *Scontent.restore=*) restore=${1#*restore=} ;;
    esac
    shift
  done
  broker "$@"
  ;;
submit | mini)
  [[ $1 == submit ]] || shift
  shift
  tasks=1
  while [[ $1 == -* ]]; do
    case "$1" in
    -n) tasks=$2; shift 2 ;;
    -N) shift 2 ;;
    --flags) shift 2 ;;
    *) shift ;;
    esac
  done
  for ((task = 0; task < tasks; task++)); do
    "$@" || code=$?
  done
  exit "${code:-0}"
  ;;
esac
"""


@dataclass
class Ran:
    code: int
    out: str
    err: str
    calls: list[list[str]] = field(default_factory=list)
    banner: list[str] = field(default_factory=list)
    """What a log begins with, unless it is quiet; `out` is without it."""

    def call(self, *begin: str) -> list[str]:
        """The one call of flux that begins so."""
        (found,) = [call for call in self.calls if call[: len(begin)] == list(begin)]
        return found


@dataclass
class Sandbox:
    root: Path

    def __post_init__(self) -> None:
        (self.root / "bin").mkdir(parents=True)
        self.executable("flux", FLUX)
        self.executable("sleep", '#!/bin/bash\n[[ $1 == 5 ]] || exec /bin/sleep "$1"\n')
        for name in ("entrypoint", "curve", "mnt", "home"):
            (self.root / name).mkdir()
        (self.root / "curve" / "curve.cert").write_text("a certificate")

    @property
    def mount(self) -> Path:
        return self.root / "mnt"

    def executable(self, name: str, text: str) -> None:
        path = self.root / "bin" / name
        path.write_text(text)
        path.chmod(0o755)

    def put(self, container: dict[str, Any] | None = None, **spec: Any) -> None:
        """The scripts of this MiniCluster, with the stage's own paths."""
        flux = spec.setdefault("flux", {})
        flux.setdefault("container", {"disable": True}).setdefault("mountPath", str(self.mount))
        for key, text in scripts({"logs": str(self.root / "out"), **(container or {})}, **spec).items():
            text = text.replace("/flux_operator_curve", str(self.root / "curve"))
            text = text.replace("/flux_operator", str(self.root / "entrypoint"))
            text = text.replace("/dev/termination-log", str(self.root / "termination"))
            (self.root / "entrypoint" / file_of(key)).write_text(text)

    def environment(self, index: int, extra: Mapping[str, str] | None = None) -> dict[str, str]:
        return {
            "PATH": f"{self.root}/bin:{os.environ['PATH']}",
            "HOME": str(self.root / "home"),
            "HOSTNAME": f"flux-sample-{index}",
            "STAGE": str(self.root),
            **(extra or {}),
        }

    def start(self, script: str = "wait-0", *, index: int = 0, **extra: str) -> subprocess.Popen[str]:
        return subprocess.Popen(
            ["bash", str(self.root / "entrypoint" / f"{script}.sh")],
            env=self.environment(index, extra),
            cwd=self.root,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )

    def finish(self, process: subprocess.Popen[str]) -> Ran:
        out, err = process.communicate(timeout=120)
        calls = self.root / "calls"
        lines = calls.read_text().splitlines() if calls.exists() else []
        banner, rest = [], ""
        for line in out.splitlines(keepends=True):
            if line.startswith(_BANNER):
                banner.append(line.rstrip("\n"))
            else:
                rest += line
        split = [line.split("\x1f")[:-1] for line in lines]
        calls_made = [call for call in split if call[0] not in ("version", "getattr", "uptime")]
        return Ran(process.returncode, rest, err, calls_made, banner)

    def run(self, script: str = "wait-0", *, index: int = 0, **extra: str) -> Ran:
        return self.finish(self.start(script, index=index, **extra))

    def terminate(self, process: subprocess.Popen[str]) -> Ran:
        process.send_signal(signal.SIGTERM)
        return self.finish(process)


def ran(stage: Sandbox, container: dict[str, Any] | None = None, *, index: int = 0, **spec: Any) -> Ran:
    stage.put(container, **spec)
    return stage.run(index=index)


def after(call: list[str], word: str) -> list[str]:
    return call[call.index(word) :]
