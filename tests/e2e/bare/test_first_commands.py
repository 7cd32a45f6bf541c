"""A newcomer's first commands, on a machine that has Debian, Python, make and certificates, and nothing else.

What the product starts and does not bring is missing there, and then one of these tests fails.
"""

from __future__ import annotations

import re
import socket
from urllib.request import HTTPCookieProcessor, ProxyHandler, build_opener

import pytest

from dev.demo import DEMO_NAMESPACE as NAMESPACE
from dev.demo_jobs import SAMPLES
from fournos.web.local import HOST
from tests.e2e.bare.conftest import TEARDOWN
from tests.e2e.bare.machine import HOME, Machine
from tests.e2e.devcluster.traces import network_traces

pytestmark = pytest.mark.timeout(900)

STATE = f"{HOME}/.local/state/fournos/clusters"
NOTHING = r"executable file not found|command not found|not found in .?PATH|not installed|: not found"


def test_a_control_plane_alone_comes_up_and_ends(machine: Machine) -> None:
    """It installs fewer packages, so this comes before anything that has a node."""
    assert machine.run("make", "--silent", ".venv/.installed", limit=600).returncode == 0
    devcluster = (".venv/bin/python", "-m", "devcluster")
    words = ("--profile", "control-plane", "--without", "tekton,kueue")
    done = machine.run(*devcluster, "up", "alone", *words, limit=240)
    assert done.returncode == 0, done.stdout
    assert machine.run(*devcluster, "down", "alone", limit=120).returncode == 0


def test_the_demonstration_ends_with_a_job_that_succeeded(machine: Machine) -> None:
    done = machine.run("make", "demo", limit=800)
    assert done.returncode == 0, done.stdout[-6000:]
    ended = re.findall(r"^(demo-[\w-]+): Succeeded$", done.stdout, re.MULTILINE)
    assert len(ended) == SAMPLES + 1, done.stdout[-6000:]
    printed = re.search(r"export KUBECONFIG=(\S+) FOURNOS_NAMESPACE=(\S+)", done.stdout)
    assert printed, done.stdout[-6000:]
    fournos = (".venv/bin/fournos", "--kubeconfig", printed[1], "-n", printed[2])
    shown = machine.run(*fournos, "get", ended[0], limit=120).stdout
    assert "throughput" in shown and "tokens/s" in shown, shown
    compared = machine.run(*fournos, "compare", ended[0], ended[-1], limit=120).stdout
    assert re.search(r"throughput \(load=heavy, model=mock-8b\).* -\d\d\.\d%", compared), compared
    trend = machine.run(*fournos, "trend", ended[0], limit=120).stdout
    assert re.search(r"throughput +load=heavy model=mock-8b +4 ", trend), trend


def test_the_page_of_the_demonstration_shows_a_fleet_at_work(machine: Machine) -> None:
    """A second run ends soon: what there is is used."""
    again = machine.run("make", "demo", limit=400)
    assert again.returncode == 0, again.stdout[-6000:]
    assert len(re.findall(r"^(demo-[\w-]+): Succeeded$", again.stdout, re.MULTILINE)) == 1
    (address,) = re.findall(rf"http://{HOST}:\d+/open/\S+", again.stdout)
    browser = build_opener(ProxyHandler({}), HTTPCookieProcessor())
    fleet = browser.open(address, timeout=120).read().decode()
    for name in ("cluster-1", "cluster-2", "cluster-3", "cluster-4", "demo-lock", "Lock held"):
        assert name in fleet, name
    (job,) = re.findall(r"^(demo-[\w-]+): Succeeded$", again.stdout, re.MULTILINE)
    first = f"{NAMESPACE}/{job}"
    root = address.partition("/open/")[0]
    for path, shown in (
        ("/queue", "waits for cluster-1, which demo-lock has locked."),
        ("/jobs", job),
        (f"/jobs/{first}", "throughput"),
        (f"/jobs/{first}/logs", f"Running {job} of {NAMESPACE}"),
        (f"/trends/{first}", "throughput of"),
        ("/usage", "perf-team"),
        ("/submit", "cluster-4"),
        ("/kinds", "PipelineRun"),
        ("/health", "ClusterQueue"),
    ):
        found = browser.open(root + path, timeout=120).read().decode()
        assert shown in re.sub(r"<[^>]+>", "", found), path


def test_no_component_of_the_cluster_missed_a_program(machine: Machine) -> None:
    logs = machine.run("sh", "-c", f"ls {STATE}/*/log/*.log", limit=120).stdout.split()
    assert any(log.endswith("kubelet.log") for log in logs), "the test must have something to read"
    found = machine.run("grep", "-E", NOTHING, *logs, limit=120).stdout.splitlines()
    # The kubelet looks for containers that containerd has removed just now.
    assert [line for line in found if "when try to find container" not in line] == []


def test_its_clusters_end_at_one_command(machine: Machine) -> None:
    assert network_traces("fournos-dev") != [], "the test must have something to find"
    printed = machine.run("cat", f"{STATE}/fournos-dev/log/page.log", limit=120).stdout
    (port,) = re.findall(rf"http://{HOST}:(\d+)/open/", printed)
    socket.create_connection((HOST, int(port)), timeout=120).close()
    done = machine.run(*TEARDOWN, limit=240)
    assert done.returncode == 0, done.stdout
    with pytest.raises(ConnectionRefusedError):
        socket.create_connection((HOST, port), timeout=120)
    assert machine.run("ls", "-A", STATE, limit=120).stdout == ""
    assert machine.run("ip", "netns", limit=120).stdout == ""
