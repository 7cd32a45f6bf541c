"""A node on a kernel of its own, on a machine whose habits are the strictest: up, a pod, down, nothing left.

`make vm` runs it, in about ten minutes where the machine is emulated.
"""

from __future__ import annotations

import re

import pytest

from devcluster.images import KUBECTL_IMAGE
from devcluster.kernel import MODULES, NODE_ABILITIES, VETH
from tests.e2e.bare.machine import HOME
from tests.vm.machine import PYTHON_PACKAGES, VirtualMachine

pytestmark = pytest.mark.timeout(1800)

DEVCLUSTER = ("env", f"PYTHONPATH={PYTHON_PACKAGES}", "python3", "-m", "devcluster")
NO_PROXY_THERE = {"HTTPS_PROXY": "http://127.0.0.1:9", "https_proxy": "http://127.0.0.1:9"}
"""A proxy that answers nothing: what goes through it fails."""
POD = f"""
apiVersion: v1
kind: Pod
metadata: {{name: probe}}
spec:
  restartPolicy: Never
  containers:
  - name: main
    image: {KUBECTL_IMAGE}
    command: [sh, -ec, "nslookup kubernetes.default.svc.cluster.local && kubectl version --output=json"]
    securityContext: {{runAsNonRoot: true, runAsUser: 65532}}
    env: [{{name: HOME, value: /tmp}}]
"""
ON_DEMAND = {
    "nf_tables": "iptables",
    "x_tables": "iptables",
    "xt_tcpudp": "iptables, for a port",
    "xt_multiport": "CNI's portmap",
    "xt_nfacct": "kube-proxy, which counts with it where it is",
    "nfnetlink_acct": "kube-proxy, as xt_nfacct",
    "nf_conntrack_netlink": "kube-proxy, which ends connections to pods that are gone",
}
"""Modules that are loaded beside those of the tables, and who asks for them."""


@pytest.fixture(scope="module")
def loaded_before(strict: VirtualMachine) -> set[str]:
    return modules(strict)


def modules(machine: VirtualMachine) -> set[str]:
    return {line.split()[0] for line in machine.run("cat", "/proc/modules", limit=60).stdout.splitlines()}


def test_this_is_the_machine_that_it_is_meant_to_be(strict: VirtualMachine, loaded_before: set[str]) -> None:
    def shown(script: str) -> str:
        return strict.run("sh", "-c", script, limit=60).stdout.strip()

    assert shown("umask") == "0077"
    assert shown("stat -fc %T /sys/fs/cgroup") == "cgroup2fs"
    assert "noexec" in shown("grep ' /tmp ' /proc/mounts")
    assert "/dev/vdb" in shown("cat /proc/swaps")
    assert "127.0.0.53" in shown("cat /etc/resolv.conf")
    assert shown("ls -d /proc/sys/net/ipv6 || true").endswith("No such file or directory")
    assert "nf_conntrack" not in loaded_before


def test_a_node_comes_up_behind_a_proxy(strict: VirtualMachine) -> None:
    words = ("up", "setup", "--without", "tekton,kueue")
    done = strict.run(*DEVCLUSTER, *words, limit=1200, environment=NO_PROXY_THERE)
    assert done.returncode == 0, done.stdout
    assert strict.run(*DEVCLUSTER, "status", "setup", limit=120).returncode == 0


def test_a_pod_without_rights_ends_and_has_used_dns_and_the_api(strict: VirtualMachine) -> None:
    def kubectl(*words: str, limit: float = 120) -> str:
        done = strict.run(*DEVCLUSTER, "kubectl", "setup", "--", *words, limit=limit)
        assert done.returncode == 0, done.stdout
        return done.stdout

    strict.run("sh", "-c", f"cat >/tmp/pod.yaml <<'E'\n{POD}\nE", limit=60)
    kubectl("apply", "-f", "/tmp/pod.yaml")
    ended = "--for=jsonpath={.status.phase}=Succeeded"
    done = strict.run(
        *DEVCLUSTER, "kubectl", "setup", "--", "wait", ended, "pod/probe", "--timeout=240s", limit=300
    )
    assert done.returncode == 0, kubectl("describe", "pod", "probe") + kubectl("logs", "probe")
    assert '"serverVersion"' in kubectl("logs", "probe")


def test_every_module_that_was_loaded_is_one_of_the_tables(
    strict: VirtualMachine, loaded_before: set[str]
) -> None:
    """A kernel without one of them would fail late; in a table it is tried before anything is built."""
    named = {module.name for module in MODULES} | set(ON_DEMAND)
    named |= {name for ability in (VETH, *NODE_ABILITIES) for name in ability.modules}
    lines = strict.run("cat", "/proc/modules", limit=60).stdout.splitlines()
    # Name, size, uses, users: what other modules use came with them.
    alone = {words[0] for words in map(str.split, lines) if words[3] == "-"}
    assert alone - loaded_before - named == set()


def test_no_component_missed_a_setting(strict: VirtualMachine) -> None:
    logs = f"{HOME}/.local/state/fournos/clusters/setup/log"
    lines = strict.run("sh", "-c", f"grep -hE /proc/sys {logs}/*.log || true", limit=60).stdout.splitlines()
    assert [line for line in lines if re.search("no such file", line) and "ipv6" not in line] == []


def test_it_ends_and_leaves_nothing(strict: VirtualMachine) -> None:
    done = strict.run(*DEVCLUSTER, "down", "setup", limit=240)
    assert done.returncode == 0, done.stdout
    assert strict.traces() == ""
