"""The archive of a lead broker, and the end of a broker that was stopped or killed too early for a result."""

from __future__ import annotations

import gzip
from pathlib import Path
from typing import Any

import pytest

from fournos.systems.miniclusters import names
from tests.unit.systems.miniclusters.stage import Sandbox, ran
from tests.waiting import blocking_until

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
