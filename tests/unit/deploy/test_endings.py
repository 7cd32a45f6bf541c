"""How commands for newcomers end when something fails: each error is a sentence, none is a traceback."""

from __future__ import annotations

import errno
import json
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from dev import demo, endings, run, setup
from dev.endings import evidence
from dev.rollout import await_rollout
from devcluster import DevclusterError, cli
from devcluster.endings import FAILED, INTERRUPTED
from devcluster.errors import CommandFailedError, ComponentFailedError
from devcluster.kubectl import rolled_out
from fournos.client.errors import from_kube
from fournos.engine.kube.errors import ConnectionLostError, ForbiddenError, ServerError

AWAY = "the store of the history does not answer, its API does"
CASES = [
    (DevclusterError("no cluster", hint="Make one."), "no cluster\nMake one."),
    (CommandFailedError("`go build` returned 1", evidence="undefined: x"), "undefined: x"),
    (ComponentFailedError("etcd", "it ended", log_tail="disk full"), "etcd: it ended\nLast lines of its log"),
    (from_kube(ServerError(AWAY, status=503)), f"{AWAY}\nthe API server has a problem: try again"),
    (ConnectionLostError("refused"), "The API server of the cluster: refused"),
    (ForbiddenError("may not"), "The API server of the cluster: may not"),
    (OSError(errno.ENOSPC, "No space left on device", "/b/x"), "The disk is full: /b/x: No space left"),
    (OSError(errno.EDQUOT, "Quota exceeded"), "The disk is full: Quota exceeded"),
    (PermissionError(errno.EACCES, "Permission denied", "/x"), "Run the command as root."),
    (FileNotFoundError(errno.ENOENT, "No such file", "/x"), "The system refuses: /x: No such file"),
    (ConnectionRefusedError(errno.ECONNREFUSED, "refused"), "The system refuses: refused"),
    (OSError("no port of this machine"), "The system refuses: no port of this machine"),
    (TimeoutError(), "No answer in time"),
    (subprocess.TimeoutExpired(["ctr", "import"], 300), "`ctr import` did not end within 300 s"),
    (subprocess.CalledProcessError(2, ["pip", "install"], stderr=b"no wheel"), "returned 2\nno wheel"),
    (ExceptionGroup("x", [ExceptionGroup("y", [TimeoutError("Lease")])]), "No answer in time: Lease"),
]


def raising(error: BaseException) -> Callable[..., Any]:
    def command(*_: object, **__: object) -> int:
        raise error

    return command


@pytest.mark.parametrize(("error", "text"), CASES, ids=lambda value: type(value).__name__)
def test_each_error_is_a_sentence(
    error: BaseException, text: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert endings.run(raising(error), go_on="To go on: make demo.") == FAILED
    shown = capsys.readouterr().err
    assert shown.startswith("error: ") and text in shown
    assert shown.endswith("To go on: make demo.\n")
    assert "Traceback" not in shown


def test_ctrl_c_ends_with_the_exit_code_of_a_shell(capsys: pytest.CaptureFixture[str]) -> None:
    assert endings.run(raising(KeyboardInterrupt()), go_on="") == INTERRUPTED
    assert capsys.readouterr().err == "error: Interrupted\n"


def test_the_traceback_of_a_fault_of_the_program_is_in_a_file(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    assert endings.run(raising(KeyError("status")), go_on="") == FAILED
    (file,) = tmp_path.iterdir()
    shown = capsys.readouterr().err
    assert shown == f"error: KeyError: 'status'\nThis is a fault of the program. Report it with {file}.\n"
    assert "in command" in file.read_text() and file.stat().st_mode & 0o077 == 0


def test_a_command_that_succeeds_prints_nothing(capsys: pytest.CaptureFixture[str]) -> None:
    assert endings.run(lambda: 0, go_on="To go on") == 0
    assert capsys.readouterr().err == ""


def test_the_errors_of_all_commands_are_explained(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    full = OSError(errno.ENOSPC, "No space left on device")
    monkeypatch.setattr("sys.argv", ["command"])
    monkeypatch.setattr(demo, "run", raising(full))
    monkeypatch.setattr(setup, "prepare", raising(full))
    monkeypatch.setattr(run, "require", raising(full))
    monkeypatch.setattr(cli, "app", raising(full))
    for main, go_on in (
        (demo.main, "make demo"),
        (setup.main, "make dev-setup"),
        (run.main, "make dev-setup"),
    ):
        assert main() == FAILED
        shown = capsys.readouterr().err
        assert "The disk is full" in shown and go_on in shown
    with pytest.raises(SystemExit) as ended:
        cli.main()
    assert ended.value.code == FAILED
    assert "The disk is full" in capsys.readouterr().err


def test_an_error_shows_the_pods_that_are_waited_for() -> None:
    with pytest.raises(DevclusterError) as error, evidence(lambda: "pod/history 0/1"):
        raise ServerError(AWAY, status=503)
    assert str(error.value) == f"The API server of the cluster: {AWAY}\npod/history 0/1"
    with pytest.raises(KeyError), evidence(lambda: "pod/history 0/1"):
        raise KeyError("a fault of the program is not explained by pods")


def test_a_rollout_that_is_late_shows_the_last_lines_of_its_pods() -> None:
    def kubectl(*words: str) -> str:
        if words[0] == "logs":
            assert "--selector=app=history" in words
            return "the store of the history does not answer: Permission denied"
        if words[1] == "pods":
            raise DevclusterError("kubectl get pods failed")
        spec = {"selector": {"matchLabels": {"app": "history"}}}
        return json.dumps({"metadata": {"generation": 1}, "spec": spec, "status": {}})

    with pytest.raises(DevclusterError, match="fournos-history rolled out: not within 0 s") as error:
        await_rollout(kubectl, "fournos-history", limit=0)
    assert "Permission denied" in error.value.evidence, "what can be read is shown, whatever cannot"
    assert "kubectl get pods failed" in error.value.evidence


# --- When a Deployment has rolled out: not by the conditions, which a broken image leaves behind -----

SELECTOR = {"matchLabels": {"app": "fournos"}}
LATE = {"type": "Progressing", "status": "False", "reason": "ProgressDeadlineExceeded"}


def deployment(seen: int, pods: int, updated: int, available: int) -> dict[str, Any]:
    """The second generation, two replicas; an earlier one has exceeded its deadline."""
    status = {
        "observedGeneration": seen,
        "replicas": pods,
        "updatedReplicas": updated,
        "availableReplicas": available,
        "conditions": [LATE],
    }
    return {"metadata": {"generation": 2}, "spec": {"replicas": 2, "selector": SELECTOR}, "status": status}


@pytest.mark.parametrize(
    ("found", "expected"),
    [
        (deployment(2, 2, 2, 2), True),
        (deployment(1, 2, 2, 2), False),
        (deployment(2, 3, 2, 2), False),
        (deployment(2, 2, 1, 2), False),
        (deployment(2, 2, 2, 1), False),
        ({"metadata": {"generation": 1}, "spec": {"replicas": 1}}, False),
    ],
    ids=["done", "not seen yet", "an old pod is left", "an old one counts", "not available", "new"],
)
def test_rolled_out(found: dict[str, Any], expected: bool) -> None:
    assert rolled_out(found) is expected


def test_a_condition_of_an_earlier_image_ends_no_wait() -> None:
    answers = iter([deployment(2, 3, 1, 2), deployment(2, 2, 2, 2)])
    await_rollout(lambda *words: json.dumps(next(answers)), "fournos", limit=60)
    assert next(answers, None) is None


def test_after_the_limit_the_status_is_shown() -> None:
    broken = json.dumps(deployment(2, 3, 1, 2))
    with pytest.raises(DevclusterError) as late:
        await_rollout(lambda *words: broken, "fournos", limit=0)
    assert "ProgressDeadlineExceeded" in str(late.value) + str(vars(late.value))
