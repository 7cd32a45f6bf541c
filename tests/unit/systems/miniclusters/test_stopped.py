"""The rendered entrypoint under bash when it is stopped: it has an exit code of its own."""

from __future__ import annotations

import signal
import time

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
