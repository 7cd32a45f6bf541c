"""What happens to a pod that is stopped, and to the archive."""

from __future__ import annotations

import gzip
import signal
import time
from pathlib import Path
from typing import Any

import pytest

from fournos.systems.miniclusters import names
from tests.unit.systems.miniclusters.stage import FLUX, QUIET, Sandbox, ran
from tests.waiting import blocking_until


@pytest.mark.parametrize("interactive", [False, True], ids=["command", "interactive"])
@pytest.mark.parametrize("index", [0, 1])
def test_a_stopped_script_has_a_code_of_its_own(stage: Sandbox, index: int, interactive: bool) -> None:
    """Whatever the broker ends with, which is 0 for all but a lead with a command."""
    post = {"commands": {"post": "echo post"}}
    stage.put({"command": "sleep 60", "launcher": True, **post}, size=2, interactive=interactive)
    process = stage.start(index=index, SLEEP="600")
    _until_started(stage)
    found = stage.terminate(process)
    assert found.code == names.STOPPED
    assert found.out.endswith("post\n")
    assert not (stage.root / "termination").exists(), "being stopped is not a result"


@pytest.mark.parametrize("index", [0, 1])
def test_with_complete_workers_a_stop_is_an_end(stage: Sandbox, index: int) -> None:
    stage.put({"command": None}, size=2, flux={"completeWorkers": True})
    process = stage.start(index=index, SLEEP="600")
    _until_started(stage)
    assert stage.terminate(process).code == 0
    assert not (stage.root / "termination").exists()


def test_a_worker_that_is_stopped_as_it_waits_fails_nothing(stage: Sandbox) -> None:
    (stage.root / "codes").write_text("1\n")
    stage.executable("sleep", '#!/bin/bash\ntouch "$STAGE/asleep"\nexec /bin/sleep 60 >/dev/null 2>&1\n')
    stage.put(size=2, flux={"disableSocket": True})
    process = stage.start(index=1)
    blocking_until((stage.root / "asleep").exists, pause=0.05)
    assert stage.terminate(process).code == names.STOPPED


def test_a_worker_whose_pod_is_taken_away_is_not_done_when_its_lead_goes_first(stage: Sandbox) -> None:
    stage.put(size=2)
    (stage.mount / "flux-operator-leaving").touch()
    assert stage.run(index=1).code == names.STOPPED


def test_workers_outlive_a_lead_that_may_be_tried_again(stage: Sandbox) -> None:
    stage.put(size=2, backoffLimit=1, flux={"disableSocket": True})
    stage.executable("sleep", '#!/bin/bash\necho >>"$STAGE/pauses"\nexec /bin/sleep 0.1\n')
    process = stage.start(index=1)
    pauses = stage.root / "pauses"
    blocking_until(lambda: pauses.exists() and len(pauses.read_text()) > 2, pause=0.05)
    found = stage.terminate(process)
    assert found.code == names.STOPPED
    assert [call[0] for call in found.calls].count("start") > 2


@pytest.mark.parametrize("delay", [0.0, 0.02, 0.05, 0.1])
def test_what_is_reported_does_not_depend_on_who_is_first(stage: Sandbox, delay: float) -> None:
    """A broker that ends as the signal arrives is reported as stopped or as ended, and nothing else."""
    stage.executable("flux", f"{FLUX}\n".replace("exit 129", "exit 0"))
    stage.put({"command": "sleep 0.05", "launcher": True}, logging=QUIET)
    process = stage.start()
    _until_started(stage)
    time.sleep(delay)
    process.send_signal(signal.SIGTERM)
    found = stage.finish(process)
    ended = (stage.root / "termination").exists()
    assert found.code == (0 if ended else names.STOPPED)


def test_a_signal_before_the_broker_starts_is_not_lost(stage: Sandbox) -> None:
    hooks = {"preWorker": "kill -TERM $$"}
    assert ran(stage, {"commands": hooks}, size=2, index=1).code == names.STOPPED
    assert not [call for call in stage.run(index=1).calls if call[0] == "start"]


@pytest.mark.parametrize("where", ["init", "pre"])
def test_code_of_users_cannot_end_as_if_stopped(stage: Sandbox, where: str) -> None:
    assert ran(stage, {"commands": {where: f"exit {names.STOPPED}"}}).code == 1
    assert ran(stage, {"commands": {where: "exit 5"}}).code == 5


def _until_started(stage: Sandbox) -> None:
    calls = stage.root / "calls"
    started = ("start", "broker")
    blocking_until(
        lambda: calls.exists() and any(line.startswith(started) for line in calls.read_text().split("\n"))
    )


# --- archive -------------------------------------------------------------------------------------------
# The archive of a lead broker, and the end of a broker that was stopped or killed too early for a result.

ROUND = "state"


@pytest.fixture
def archive(stage: Sandbox) -> Path:
    path = stage.root / "archive.tar"
    path.write_text(ROUND)
    return path


def _put(stage: Sandbox, path: Path, **more: Any) -> None:
    stage.put({"command": None}, archive={"path": str(path)}, **more)


@pytest.mark.parametrize("command", [None, "echo hello"], ids=["interactive", "command"])
def test_a_lead_that_is_stopped_before_it_has_the_state_leaves_the_archive_alone(
    stage: Sandbox, archive: Path, command: str | None
) -> None:
    """Measured: Flux dumps an empty state then."""
    stage.put({"command": command}, archive={"path": str(archive)})
    process = stage.start(SLOW_RC1="1")
    blocking_until((stage.root / "socket").exists, pause=0.05)
    found = stage.terminate(process)
    assert found.code == names.STOPPED
    assert archive.read_text() == ROUND
    assert "archive.tar stays as it was" in found.err


def test_a_lead_that_is_stopped_later_replaces_the_archive(stage: Sandbox, archive: Path) -> None:
    _put(stage, archive)
    process = stage.start(SLEEP="60")
    blocking_until((stage.root / "up").exists, pause=0.05)
    assert stage.terminate(process).code == names.STOPPED
    assert archive.read_text() == "state and more"
    assert [path.name for path in stage.root.glob(".new-*")] == []


def test_an_archive_that_cannot_be_loaded_is_not_replaced(stage: Sandbox, archive: Path) -> None:
    archive.write_text("of another kind")
    _put(stage, archive)
    assert stage.run().code == 1
    assert archive.read_text() == "of another kind"


def test_what_an_earlier_pod_left_half_written_is_not_taken(stage: Sandbox, archive: Path) -> None:
    (stage.root / ".new-archive.tar").write_text("half")
    _put(stage, archive)
    assert stage.run(NO_DUMP="1").code == 0
    assert archive.read_text() == ROUND


@pytest.mark.parametrize("whole", [True, False])
def test_a_compressed_archive_that_was_cut_short_replaces_nothing(stage: Sandbox, whole: bool) -> None:
    """A full volume, for example: Flux shows it in an exit code that also may be the command's."""
    path = stage.root / "archive.tar.gz"
    path.write_text(ROUND)
    body = gzip.compress(b"state" * 1000)
    (stage.root / "body").write_bytes(body if whole else body[:-9])
    copy = f'cp "{stage.root}/body" "{stage.root}/.new-archive.tar.gz"'
    stage.put({"command": f"sh -c '{copy}'", "launcher": True}, archive={"path": str(path)})
    assert stage.run(NO_DUMP="1").code == 0
    assert path.read_bytes() == (body if whole else ROUND.encode())


def test_a_batch_s_own_brokers_leave_no_mark(stage: Sandbox) -> None:
    ran(stage)
    marks = stage.mount / "flux-operator-rc"
    assert {path.name for path in marks.iterdir()} == {"1", "3", "rc1.d", "rc3.d"}
    flux = (stage.root / "bin" / "flux").read_text()
    stage.executable("flux", flux.replace("getattr) echo 0", "getattr) echo 1"))
    (stage.mount / "flux-operator-result").unlink()
    assert stage.run().code == 0
    assert {path.name for path in marks.iterdir()} == {"rc1.d", "rc3.d"}


def test_a_lead_broker_that_was_killed_has_no_result(stage: Sandbox) -> None:
    """Out of memory: 137 is not the command's then, and another pod runs it again."""
    stage.put({"command": "echo hello", "commands": {"post": "echo post"}})
    found = stage.run(KILLED="1")
    assert (found.code, found.out) == (137, "post\n")
    assert "the lead broker was killed" in found.err
    assert not (stage.root / "termination").exists()


@pytest.mark.parametrize("user", ["init", "pre", "preBroker", "preCommand"])
@pytest.mark.parametrize(("code", "strict"), [("false", True), ("exit 1", False), ("exit 1", True)])
def test_code_of_users_that_ends_the_script_is_named(
    stage: Sandbox, user: str, code: str, strict: bool
) -> None:
    container = {user: code} if user == "preCommand" else {"commands": {user: code}}
    found = ran(stage, container, logging={"strict": strict, "quiet": True})
    name = {"preCommand": user, "preBroker": "commands.brokerPre"}.get(user, f"commands.{user}")
    text = f"{name} has ended with exit code 1"
    assert (found.code, found.err) == (1, f"fournos: {text}\n")
    assert (stage.root / "termination").read_text() == text
