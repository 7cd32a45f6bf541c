"""A cluster records the checkout that created it; one command deletes those of this checkout only."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from typer.testing import CliRunner

from devcluster import checkout, cli, cluster, state
from devcluster.errors import DevclusterError
from devcluster.paths import CHECKOUT
from devcluster.progress import Progress
from devcluster.spec import ClusterSpec
from devcluster.state import Record

AROUND = [sys.executable, "-m", "devcluster", "around"]


@pytest.fixture(autouse=True)
def own_state(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FOURNOS_STATE", str(tmp_path))


def _made(name: str, *, by: str = str(CHECKOUT)) -> Record:
    """A cluster that is taken down without root: of the provider `existing`."""
    spec = ClusterSpec(name=name, provider="existing", kubeconfig="/any")
    record = Record(spec=spec, shape="s", checkout=by)
    record.save()
    return record


def test_a_record_names_the_checkout_that_made_it() -> None:
    Record(spec=ClusterSpec(name="a"), shape="s").save()
    found = state.load("a")
    assert found is not None
    assert Path(found.checkout) == Path(__file__).parents[3]


def test_a_record_of_an_older_version_belongs_to_no_checkout() -> None:
    record = _made("a")
    path = record.directory / "cluster.json"
    path.write_text(path.read_text().replace('"checkout"', '"formerly"'))
    assert state.require("a").checkout == ""
    assert checkout.records() == []


def test_teardown_ends_this_checkouts_clusters_alone() -> None:
    for name in ("a", "b"):
        _made(name)
    _made("theirs", by="/elsewhere")
    unreadable = _made("unreadable")
    (unreadable.directory / "cluster.json").write_text("{}")
    assert CliRunner().invoke(cli.app, ["teardown"]).exit_code == 0
    assert state.names() == ["theirs", "unreadable"]
    again = CliRunner().invoke(cli.app, ["teardown"])
    assert again.exit_code == 0
    assert "no cluster" in again.output


def test_a_cluster_that_would_not_go_is_named_and_keeps_no_other(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("a", "b", "c"):
        _made(name)
    stop = cluster.stop

    def stubborn(name: str, *, progress: Progress) -> bool:
        if name == "b":
            raise DevclusterError("Cluster b: could not remove it")
        return stop(name, progress=progress)

    monkeypatch.setattr(cluster, "stop", stubborn)
    with pytest.raises(DevclusterError, match="Cluster b"):
        checkout.end_all(Progress(quiet=True))
    assert state.names() == ["b"]


def test_what_is_up_is_listed_with_the_way_to_end_it() -> None:
    records = [
        Record(spec=ClusterSpec(name="fournos-test"), shape="s"),
        Record(spec=ClusterSpec(name="cp", profile="control-plane"), shape="s"),
        _made("far-away"),
    ]
    assert checkout.notice(records).splitlines() == [
        "Still up, so that the next run starts sooner: 2 clusters of this checkout",
        "  fournos-test  2026  full",
        "  cp            2026  control-plane",
        "End all of them:      make teardown",
        "Keep none next time:  make test KEEP_CLUSTERS=no",
    ]
    assert checkout.notice([_made("far-away")]) == ""


def test_after_a_command_the_clusters_are_listed_and_its_exit_code_returned() -> None:
    Record(spec=ClusterSpec(name="left"), shape="s").save()
    done = subprocess.run(
        [*AROUND, "--", "sh", "-c", "echo tested; exit 3"], capture_output=True, text=True, check=False
    )
    assert done.returncode == 3
    assert done.stdout == "tested\n"
    assert done.stderr.splitlines()[1:] == [
        "  left  2026  full",
        "End all of them:      make teardown",
        "Keep none next time:  make test KEEP_CLUSTERS=no",
    ]
    assert state.names() == ["left"]


def test_none_is_kept_on_demand_even_when_the_command_failed() -> None:
    _made("left")
    _made("theirs", by="/elsewhere")
    done = subprocess.run([*AROUND, "--keep=no", "--", "sh", "-c", "exit 3"], check=False)
    assert done.returncode == 3
    assert state.names() == ["theirs"]


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP, signal.SIGINT])
def test_none_is_kept_of_a_command_that_was_interrupted(number: signal.Signals, tmp_path: Path) -> None:
    _made("left")
    started = tmp_path / "started"
    os.mkfifo(started)
    script = f"echo >{started}; exec sleep 60"
    # Who runs the tests in the background ignores Ctrl-C and SIGHUP, and all that is started inherits that.
    words = ["env", "--default-signal=INT,HUP", *AROUND, "--keep=no", "--", "sh", "-c", script]
    with subprocess.Popen(words, start_new_session=True, stderr=subprocess.DEVNULL) as process:
        started.read_text()  # returns when the command has written
        if number == signal.SIGINT:  # a terminal interrupts all of the foreground
            os.killpg(process.pid, number)
        else:
            process.send_signal(number)
        assert process.wait(timeout=30) == 128 + number
    assert state.names() == []


@pytest.mark.parametrize(
    ("number", "code"), [(signal.SIGTERM, 128 + signal.SIGTERM), (signal.SIGINT, 0)], ids=["TERM", "INT"]
)
def test_none_is_kept_when_the_signal_comes_while_the_command_starts(
    number: signal.Signals, code: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    _made("left")
    start = subprocess.Popen

    def interrupted(words: list[str]) -> subprocess.Popen[bytes]:
        process = start(words)
        os.kill(os.getpid(), number)
        return process

    monkeypatch.setattr(checkout.subprocess, "Popen", interrupted)
    command = "sleep 60" if number == signal.SIGTERM else "exit 0"
    assert checkout.around(["sh", "-c", command], keep=False, progress=Progress(quiet=True)) == code
    assert state.names() == []


@pytest.mark.parametrize(("code", "expected"), [(0, 4), (3, 3)])
def test_what_failed_before_is_a_failure(code: int, expected: int) -> None:
    words = ["around", "--earlier=4", "--", "sh", "-c", f"exit {code}"]
    assert CliRunner().invoke(cli.app, words).exit_code == expected


def test_a_command_that_cannot_be_started_is_named() -> None:
    with pytest.raises(DevclusterError, match="no-such-program"):
        checkout.around(["no-such-program"], keep=True, progress=Progress(quiet=True))
