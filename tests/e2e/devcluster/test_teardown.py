"""Tear-down leaves nothing, whatever was killed and when; and `up` cleans up after itself."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from devcluster import down, state, up
from devcluster.cluster import Cluster
from devcluster.namespaces import children
from devcluster.progress import Progress
from tests.e2e.devcluster.traces import interface, interfaces, network_traces, traces
from tests.waiting import LIMIT

pytestmark = pytest.mark.timeout(600)

NAME = f"e2e-cut-{os.getpid()}"  # two checkouts may run these tests on one machine


def _kill_up_when(recorded: str, state: Path, *arguments: str) -> None:
    """Starts `devcluster up` and kills it with SIGKILL as soon as the record names a process `recorded`."""
    process = subprocess.Popen(
        [sys.executable, "-m", "devcluster", "up", NAME, *arguments],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        env={**os.environ},
    )
    record = state / "clusters" / NAME / "cluster.json"
    deadline = time.monotonic() + LIMIT
    try:
        while not (record.is_file() and recorded in json.loads(record.read_text())["processes"]):
            assert process.poll() is None, "up ended before it could be killed"
            assert time.monotonic() < deadline
            time.sleep(0.005)
    finally:
        process.kill()
        process.wait(timeout=LIMIT)


@pytest.mark.parametrize("recorded", ["holder", "etcd", "kubelet"])
def test_nothing_is_left_of_an_up_that_was_killed_half_way(
    recorded: str, own_state: Path, quiet: Progress
) -> None:
    _kill_up_when(recorded, own_state, "--without", "tekton,kueue")
    assert traces(own_state) != [], "the test must have something to find"
    assert network_traces(NAME) != []
    made = interface(state.require(NAME))
    assert down(NAME, progress=quiet)
    assert traces(own_state) == []
    assert network_traces(NAME) == []
    assert made not in interfaces()


_KUBECTL_OF_UP = """
from devcluster import native, state
native._kubectl(state.require({name!r})).run("proxy", "--port=0", limit=600)
"""


def test_nothing_is_left_of_the_kubectl_of_an_up_that_was_killed(own_state: Path, quiet: Progress) -> None:
    """`kubectl proxy` stands for one that goes on: an apply ends by itself, sooner or later.

    Its kubeconfig is written between the holder and etcd.
    """
    _kill_up_when("etcd", own_state, "--profile", "control-plane", "--without", "tekton,kueue")
    process = subprocess.Popen([sys.executable, "-c", _KUBECTL_OF_UP.format(name=NAME)])
    deadline = time.monotonic() + LIMIT
    while not any(" proxy --port=0" in trace for trace in traces(own_state)):
        assert process.poll() is None, "it ended before it could be killed"
        assert time.monotonic() < deadline
        time.sleep(0.05)
    process.kill()
    process.wait(timeout=LIMIT)
    assert down(NAME, progress=quiet)
    assert traces(own_state) == []


def test_up_first_removes_a_half_dead_cluster_of_its_name(own_state: Path, quiet: Progress) -> None:
    wanted = {"profile": "control-plane", "without": {"tekton", "kueue"}}
    _kill_up_when("etcd", own_state, "--profile", "control-plane", "--without", "tekton,kueue")
    cluster = up(NAME, progress=quiet, **wanted)  # type: ignore[arg-type]
    try:
        assert {row.state for row in cluster.status()} == {"running"}
        assert len(network_traces(NAME)) == 1
    finally:
        assert down(NAME, progress=quiet)
    assert network_traces(NAME) == []


@pytest.mark.parametrize("inside", [True, False], ids=["process-1", "holder"])
def test_nothing_is_left_of_a_cluster_whose_holder_was_killed(
    inside: bool, own_state: Path, quiet: Progress
) -> None:
    cluster: Cluster = up(NAME, without={"tekton", "kueue"}, progress=quiet)
    holder = cluster.record.processes["holder"]
    os.kill(children(holder)[0] if inside else holder.pid, signal.SIGKILL)
    deadline = time.monotonic() + LIMIT
    while any(row.state == "running" for row in cluster.status()):
        assert time.monotonic() < deadline, "with the holder every process of the cluster must end"
        time.sleep(0.1)
    assert down(NAME, progress=quiet)
    assert traces(own_state) == []
    assert network_traces(NAME) == []


def test_down_twice_is_no_error(quiet: Progress) -> None:
    assert not down(NAME, progress=quiet)
