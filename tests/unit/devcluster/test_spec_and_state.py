"""Names, shapes, records, sets of versions, and which process and cluster is whose."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest
from typer.testing import CliRunner

from devcluster import checkout, cli, cluster, state, versions
from devcluster.cluster import differs_in_kueue_alone
from devcluster.errors import DevclusterError
from devcluster.locks import file_lock
from devcluster.paths import CHECKOUT
from devcluster.progress import Progress
from devcluster.spec import ClusterSpec
from devcluster.state import ProcessRef, Record
from devcluster.versions import Versions


@pytest.fixture(autouse=True)
def own_state(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FOURNOS_STATE", str(tmp_path))


@pytest.mark.parametrize("name", ["", "Team", "9lives", "a_b", "a-", "a" * 31, "../x", "a/b"])
def test_a_name_that_linux_or_kubernetes_would_refuse_is_refused(name: str) -> None:
    with pytest.raises(DevclusterError, match="cannot name a cluster"):
        ClusterSpec(name=name)


@pytest.mark.parametrize("name", ["a", "team", "team-cp", "a" * 30, "t1"])
def test_a_good_name_is_taken(name: str) -> None:
    assert ClusterSpec(name=name).name == name


def test_an_unknown_part_is_named_together_with_the_known_ones() -> None:
    with pytest.raises(DevclusterError) as caught:
        ClusterSpec(name="a", without=frozenset({"istio"}))
    assert "istio" in str(caught.value)
    assert "tekton, kueue" in str(caught.value)


def test_the_existing_provider_needs_a_kubeconfig() -> None:
    with pytest.raises(DevclusterError, match="--kubeconfig"):
        ClusterSpec(name="a", provider="existing")


def test_everything_that_makes_a_cluster_differ_changes_its_shape() -> None:
    plain = ClusterSpec(name="a")
    others = [
        ClusterSpec(name="b"),
        ClusterSpec(name="a", profile="control-plane"),
        ClusterSpec(name="a", without=frozenset({"kueue"})),
        ClusterSpec(name="a", kueue_config={"metrics": {}}),
        ClusterSpec(name="a", controllers="*"),
        ClusterSpec(name="a", versions="2025"),
    ]
    assert len({spec.shape() for spec in (plain, *others)}) == len(others) + 1
    assert plain.shape() == ClusterSpec(name="a").shape()


def test_a_record_survives_being_written_and_read() -> None:
    spec = ClusterSpec(name="a", without=frozenset({"tekton"}), kueue_config={"x": [1]}, controllers="*")
    record = Record(
        spec=spec,
        shape="s",
        index=7,
        phase="ready",
        processes={"etcd": ProcessRef(12, 34)},
        commands={"etcd": ["hyper", "etcd"]},
    )
    record.save()
    assert state.load("a") == record
    assert state.names() == ["a"]
    assert record.directory.stat().st_mode & 0o777 == 0o700


def test_an_unreadable_record_is_named() -> None:
    Record(spec=ClusterSpec(name="a"), shape="s").save()
    (state.cluster_directory("a") / "cluster.json").write_text("{}")
    with pytest.raises(DevclusterError, match="Another version"):
        state.load("a")


def test_an_unknown_cluster_is_reported_with_the_known_ones() -> None:
    Record(spec=ClusterSpec(name="known"), shape="s").save()
    with pytest.raises(DevclusterError, match="known"):
        state.require("unknown")


def test_removal_leaves_no_file(tmp_path: Path) -> None:
    record = Record(spec=ClusterSpec(name="a"), shape="s")
    record.save()
    (record.directory / "log").mkdir()
    state.remove("a")
    assert not record.directory.exists()
    assert state.load("a") is None


def test_a_process_is_known_by_its_start_time_too() -> None:
    me = state.reference(os.getpid())
    assert state.alive(me)
    assert not state.alive(ProcessRef(me.pid, me.started + 1))


def test_a_process_that_ended_is_not_alive_even_before_its_parent_looks() -> None:
    with subprocess.Popen(["true"]) as process:
        os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOWAIT)  # it is a zombie from here on
        zombie = state.reference(process.pid)
        assert not state.alive(zombie)
    assert not state.alive(zombie)


def test_a_lock_is_exclusive_and_leaves_no_file(tmp_path: Path) -> None:
    path = tmp_path / "below" / "lock"
    with (
        file_lock(path, limit=1, what="it"),
        pytest.raises(DevclusterError, match="the other is busy"),
        file_lock(path, limit=0, what="the other"),
    ):
        pass
    assert not path.exists()
    with file_lock(path, limit=0, what="it again"):
        assert path.exists()


def test_a_kueue_is_started_anew_where_nothing_but_its_configuration_differs() -> None:
    spec = ClusterSpec(name="a", profile="control-plane", kueue_config={"x": 1})
    programs = {"etcd": ProcessRef(1, 1), "kueue": ProcessRef(2, 2)}
    found = Record(spec=spec, shape=spec.shape(), processes=programs)
    assert differs_in_kueue_alone(found, replace(spec, kueue_config={"x": 2}))
    assert not differs_in_kueue_alone(found, spec)
    assert not differs_in_kueue_alone(found, replace(spec, kueue_config={"x": 2}, controllers="*"))
    assert not differs_in_kueue_alone(replace(found, shape="of others"), replace(spec, kueue_config={}))
    in_a_pod = replace(found, processes={"etcd": ProcessRef(1, 1)})
    assert not differs_in_kueue_alone(in_a_pod, replace(spec, kueue_config={}))


# --- The sets of versions: what the environment chooses and a cluster remembers ----------------------


def test_the_environment_names_the_set_and_a_cluster_remembers_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(versions.VARIABLE, "2025")
    spec = ClusterSpec(name="a")
    Record(spec=spec, shape=spec.shape()).save()
    monkeypatch.delenv(versions.VARIABLE)
    assert ClusterSpec(name="a").versions == versions.DEFAULT
    record = state.require("a")
    assert record.spec.version_set == Versions.named("2025")


def test_a_cluster_recorded_before_there_were_sets_has_the_first_one(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(versions.VARIABLE, "2026")
    recorded = ClusterSpec(name="a").to_json()
    del recorded["versions"]
    assert ClusterSpec.from_json(recorded).versions == "2025"


def test_an_unknown_set_is_named_together_with_the_known_ones(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(versions.VARIABLE, "2024")
    with pytest.raises(DevclusterError) as caught:
        ClusterSpec(name="a")
    assert "'2024'" in str(caught.value)
    assert "2025 (Kubernetes v1.34.4" in str(caught.value)
    assert "2026 (Kubernetes v1.36.2, Kueue v0.19.2, Tekton v1.15.0)" in str(caught.value)


def test_a_cluster_of_another_set_is_not_replaced(monkeypatch: pytest.MonkeyPatch) -> None:
    spec = ClusterSpec(name="a")
    Record(spec=spec, shape=spec.shape(), phase="ready").save()
    monkeypatch.setattr(cluster, "healthy", lambda record: True)
    with pytest.raises(DevclusterError) as caught:
        cluster.start(ClusterSpec(name="a", versions="2025"), progress=Progress(quiet=True))
    assert "Cluster a is up with the versions 2026 (" in str(caught.value)
    assert "not 2025 (" in str(caught.value)
    assert "--recreate" in str(caught.value)


# --- A cluster records the checkout that created it; teardown deletes those alone --------------------

AROUND = [sys.executable, "-m", "devcluster", "around"]


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
