"""The startup probe and the preStop hook under bash, and a worker that comes back."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from tests.unit.systems.miniclusters.stage import Sandbox
from tests.waiting import blocking_until

# --- a worker that is taken away ---------------------------------------------------------------------


_DRAIN = r"""#!/bin/bash
printf '%s\n' "$*" >>"$STAGE/drained"
case "$1 $2" in
"getattr rank") echo 3 ;;
"job list")
  printf '{"id": 1, "ranks": "%s", "a": "b"}\n' "$(head -1 "$STAGE/ranks")"
  sed -i 1d "$STAGE/ranks"
  ;;
"uptime ") cat "$STAGE/uptime" ;;
esac
"""


@pytest.mark.parametrize(
    ("answers", "requested"),
    [(["0-1"], 1), (["0,3", "[2-4]", "4-7"], 3), ([""], 1), (["3", "0\n1-3"], 2)],
)
def test_it_waits_for_its_tasks(stage: Sandbox, answers: list[str], requested: int) -> None:
    stage.put({"lifeCycle": {"preStopExec": "echo bye"}}, size=4)
    stage.executable("flux", _DRAIN)
    stage.executable("sleep", "#!/bin/bash\n")
    (stage.root / "ranks").write_text("\n".join(answers) + "\n")
    (stage.root / "uptime").write_text(" 12:00:00 run 5s,  owner me,  depth 0,  size 4\n")
    with _listening(stage):
        found = stage.run("stop-0", index=3)
    assert found.out == "bye\n"
    calls = (stage.root / "drained").read_text().splitlines()
    assert calls[:3] == ["uptime", "getattr rank", "resource drain 3 taken away"]
    assert calls[3:] == ["job list --states=running --user=all"] * requested, "no Python while it waits"


@pytest.mark.parametrize("shown", ["", " 12:00:00 join 5s,  owner me,  depth 0,  size 4\n"])
def test_a_worker_without_its_lead_is_not_drained(stage: Sandbox, shown: str) -> None:
    """flux uptime asks the lead, and hangs where it is dead."""
    stage.put(size=4)
    stage.executable("flux", _DRAIN)
    (stage.root / "uptime").write_text(shown)
    with _listening(stage):
        assert stage.run("stop-0", index=3).code == 0
    assert (stage.root / "drained").read_text().splitlines() == ["uptime"]


def _uptime(state: str, more: str = "") -> str:
    return f" 12:00:00 {state} 5s,  owner me,  depth 0,  size 4{more}\n"


@pytest.mark.parametrize(
    ("index", "shown", "joined"),
    [
        (0, "run", True),
        (1, "run", True),
        (0, "quorum", False),
        (1, "quorum", True),
        (0, "init", False),
        (1, "join", False),
        (1, "shutdown", False),
        (1, "", False),
    ],
)
def test_ready_is_a_broker_that_flux_says_has_joined(
    stage: Sandbox, index: int, shown: str, joined: bool
) -> None:
    """The socket is there long before: a lead waits for its quorum, a worker for its lead."""
    stage.put(size=4)
    (stage.root / "uptime").write_text(_uptime(shown) if shown else "")
    with _listening(stage):
        found = stage.run("ready-0", index=index)
    assert (found.code == 0) is joined
    assert joined or found.out == f"the broker has not joined yet, its state is {shown or 'not known'}\n"


def test_a_broker_without_a_socket_is_not_asked(stage: Sandbox) -> None:
    stage.put(size=4)
    assert stage.run("ready-0").out == "the broker has not joined yet, its state is none\n"
    assert not (stage.root / "calls").exists()


@contextmanager
def _listening(stage: Sandbox) -> Iterator[None]:
    where = stage.mount / "config" / "run" / "flux"
    where.mkdir(parents=True)
    (stage.mount / "flux-view.sh").write_text("asFlux=''\n")
    with socket.socket(socket.AF_UNIX) as listening:
        listening.bind(str(where / "local"))
        yield


@pytest.mark.parametrize("drained", [True, False])
def test_a_worker_undrains_its_host_only_if_one_is_drained(stage: Sandbox, drained: bool) -> None:
    """Each call about resources is a Python program, and all workers start at once."""
    stage.put({"command": None}, size=2)
    stage.executable("sleep", "#!/bin/bash\nexec /bin/sleep 0.1\n")
    (stage.root / "uptime").write_text(_uptime("join"))
    with _listening(stage):
        process = stage.start(index=1, SLEEP="60")
        calls = stage.root / "calls"
        blocking_until(lambda: calls.exists() and "uptime" in calls.read_text(), pause=0.05)
        assert "resource" not in calls.read_text()
        before = calls.read_text().count("uptime")
        (stage.root / "uptime").write_text(_uptime("run", ",  1 drained" if drained else ""))
        if drained:
            blocking_until(lambda: "\x1fundrain\x1f" in calls.read_text(), pause=0.05)
        else:
            blocking_until(lambda: calls.read_text().count("uptime") > before, pause=0.05)
        found = stage.terminate(process)
    asked = [call for call in found.calls if call[0] == "resource"]
    assert asked == ([["resource", "undrain", "flux-sample-1"]] if drained else [])
