"""The commands that the Hearth README publishes, run as they are written, under the rights of deploy/.

`oc` is kubectl here.  Left out, since they need OpenShift, Argo CD, an image registry or pods: image builds,
pull secrets, the Argo CD application, rollouts and logs.  The operator is a process of this checkout that
has the ServiceAccount's token and no other setting than the defaults.
"""

from __future__ import annotations

import contextlib
import json
import os
import re
import shutil
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

ROOT = Path(__file__).resolve().parents[3]
NAME = "oven-1"
FOURNOS = f"PYTHONPATH=src {sys.executable} -m fournos"

ADD = """
oc create secret generic kubeconfig-<cluster-name> \\
--from-file=kubeconfig=./<cluster-name>-kubeconfig \\
-n psap-secrets
oc label secret kubeconfig-<cluster-name> fournos.dev/cluster-kubeconfig=true -n psap-secrets
"""
LIST = "oc get fournoscluster -n hearth"
SUMMARY = "oc get fournoscluster <cluster-name> -n hearth -o jsonpath='{.status.gpuSummary}'"
GPUS = """oc get fournoscluster <cluster-name> -n hearth -o jsonpath='{.spec.hardware.gpus}' \\
| python3 -m json.tool"""
FLAVOR = "oc get resourceflavor <cluster-name>"
QUOTAS = """oc get clusterqueue fournos-queue -o jsonpath='{.spec.resourceGroups[0].flavors}' \\
| python3 -m json.tool"""
RIGHTS = "oc auth can-i --as=system:serviceaccount:hearth:hearth list fournosclusters.fournos.dev"
LOCK = """oc patch fournoscluster <cluster-name> -n hearth \\
--type=merge -p '{"spec":{"owner":"your-name"}}'"""
LOCK_JOBS = "oc get fournosjobs -n psap-automation"
WORKLOADS = "oc get workloads -n psap-automation"
TTL = """oc patch fournoscluster <cluster-name> -n hearth \\
--type=merge -p '{"spec":{"owner":"your-name","ttl":"30m"}}'"""
EXPIRES = "oc get fournoscluster <cluster-name> -n hearth -o jsonpath='{.status.lockExpiresAt}'"
UNLOCK = """oc patch fournoscluster <cluster-name> -n hearth \\
--type=merge -p '{"spec":{"owner":""}}'"""
LOCKED = "oc get fournoscluster <cluster-name> -n hearth -o jsonpath='{.status.locked}'"
BLOCKED = """cat <<'EOF' | oc create -n psap-automation -f -
apiVersion: kueue.x-k8s.io/v1beta2
kind: Workload
metadata:
  name: test-blocked-job
  labels:
    kueue.x-k8s.io/queue-name: fournos-queue
spec:
  active: true
  queueName: fournos-queue
  podSets:
  - name: launcher
    count: 1
    template:
      spec:
        restartPolicy: Never
        containers:
        - name: placeholder
          image: registry.k8s.io/pause:3.9
          resources:
            requests:
              fournos/cluster-slot: "1"
        nodeSelector:
          fournos.dev/cluster: <cluster-name>
EOF"""
WHY = "oc get workload test-blocked-job -n psap-automation -o jsonpath='{.status.conditions[*].message}'"
DELETE_WORKLOAD = "oc delete workload test-blocked-job -n psap-automation"
DELETE = "oc delete fournoscluster <cluster-name> -n hearth"
DELETE_FLAVOR = "oc delete resourceflavor <cluster-name>"
DELETE_ENTRY = """oc get clusterqueue fournos-queue -o json \\
| python3 -c "
import json, sys
cq = json.load(sys.stdin)
flavors = cq['spec']['resourceGroups'][0]['flavors']
flavors[:] = [f for f in flavors if f['name'] != '<cluster-name>']
print(json.dumps({'spec': {'resourceGroups': cq['spec']['resourceGroups']}}))" \\
| oc patch clusterqueue fournos-queue --type=merge -p "$(cat -)"
"""
DELETE_SECRET = "oc delete secret kubeconfig-<cluster-name> -n psap-secrets"
KEYS = "oc get secret kubeconfig-<cluster-name> -n psap-secrets --show-labels | grep cluster-kubeconfig"
LAST_ERROR = "oc get fournoscluster <cluster-name> -n hearth -o jsonpath='{.spec.hardware.lastError}'"

QUEUE = """
apiVersion: kueue.x-k8s.io/v1beta2
kind: ResourceFlavor
metadata: {name: peoples}
spec: {nodeLabels: {fournos.dev/cluster: peoples}}
---
apiVersion: kueue.x-k8s.io/v1beta2
kind: ClusterQueue
metadata: {name: fournos-queue}
spec:
  namespaceSelector: {}
  preemption: {withinClusterQueue: LowerPriority}
  resourceGroups:
  - coveredResources: [fournos/gpu-a100, fournos/cluster-slot]
    flavors:
    - name: peoples
      resources:
      - {name: fournos/gpu-a100, nominalQuota: 8}
      - {name: fournos/cluster-slot, nominalQuota: 100}
---
apiVersion: kueue.x-k8s.io/v1beta2
kind: LocalQueue
metadata: {name: fournos-queue, namespace: psap-automation}
spec: {clusterQueue: fournos-queue}
---
apiVersion: v1
kind: Node
metadata: {name: oven-node, labels: {nvidia.com/gpu.product: NVIDIA-L40S}}
"""


class Person:
    """Somebody with `oc` at the root of the repository."""

    def __init__(self, kubeconfig: Path, directory: Path) -> None:
        self.kubeconfig, self.directory = kubeconfig, directory
        kubectl = shutil.which("kubectl")
        if kubectl is None:
            pytest.skip("needs kubectl")
        (directory / "bin").mkdir()
        (directory / "bin" / "oc").symlink_to(kubectl)
        shutil.copy(kubeconfig, directory / f"{NAME}-kubeconfig")

    def __call__(self, script: str, *, stdin: str = "", fails: bool = False, cwd: Path | None = None) -> str:
        environment = {
            **os.environ,
            "PATH": f"{self.directory / 'bin'}:{os.environ['PATH']}",
            "KUBECONFIG": str(self.kubeconfig),
        }
        done = subprocess.run(
            ["bash", "-euo", "pipefail", "-c", script.replace("<cluster-name>", NAME)],
            cwd=cwd or ROOT,
            env=environment,
            input=stdin,
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )
        assert (done.returncode != 0) == fails, f"{script}\n{done.stdout}\n{done.stderr}"
        return done.stdout + (done.stderr if fails else "")

    def sees(self, script: str, holds: Callable[[str], Any], *, limit: float = 40.0) -> str:
        until, shown = time.monotonic() + limit, ""
        while time.monotonic() < until:
            with contextlib.suppress(AssertionError):
                shown = self(script)
                if holds(shown):
                    return shown
            time.sleep(0.2)
        raise AssertionError(f"{script}\nshows\n{shown}")


@pytest.fixture
def person(kubeconfig: Path, tmp_path: Path) -> Iterator[Person]:
    """The hub as an administrator has set it up, with both operators."""
    person = Person(kubeconfig, tmp_path)
    for namespace in ("psap-secrets", "psap-automation"):
        person(f"oc create namespace {namespace}")
    person("oc apply --server-side --force-conflicts -f manifests/crd.yaml")
    person("oc apply -f deploy/deployment.yaml -f deploy/clusterrole.yaml")
    person("oc scale deployment hearth -n hearth --replicas=0")
    person("oc apply -f -", stdin=QUEUE)
    ready = [{"type": "Ready", "status": "True", "reason": "KubeletReady", "message": "ready"}]
    amounts = {"nvidia.com/gpu": "2"}
    status = {"status": {"capacity": amounts, "allocatable": amounts, "conditions": ready}}
    person(f"oc patch node oven-node --subresource=status --type=merge -p '{json.dumps(status)}'")
    config = yaml.safe_load(kubeconfig.read_text())
    token = person("oc create token hearth -n hearth").strip()
    config["users"] = [{"name": user["name"], "user": {"token": token}} for user in config["users"]]
    as_hearth = tmp_path / "hearth-kubeconfig"
    as_hearth.write_text(yaml.safe_dump(config))
    operators = [
        _operator(tmp_path / "hearth.log", as_hearth, "clusters"),
        _operator(tmp_path / "fournos.log", kubeconfig, "jobs", FOURNOS_NAMESPACE="psap-automation"),
    ]
    yield person
    for operator in operators:
        operator.terminate()
        operator.wait(timeout=40)
    for cleanup in (
        f'oc patch fournoscluster {NAME} -n hearth --type=merge -p \'{{"metadata":{{"finalizers":null}}}}\'',
        "oc delete clusterqueue fournos-queue --wait=false",
        f"oc delete resourceflavor peoples {NAME} --ignore-not-found --wait=false",
        "oc delete node oven-node",
        "oc delete clusterrole,clusterrolebinding hearth",
        "oc delete namespace hearth psap-secrets psap-automation --timeout=50s",
    ):
        with contextlib.suppress(AssertionError, subprocess.TimeoutExpired):
            person(cleanup)


def _operator(log: Path, kubeconfig: Path, enable: str, **variables: str) -> subprocess.Popen[bytes]:
    environment = {k: v for k, v in os.environ.items() if not k.startswith(("FOURNOS_", "HEARTH_"))}
    environment |= {"PYTHONPATH": str(ROOT / "src"), "KUBECONFIG": str(kubeconfig), **variables}
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        port = str(found.getsockname()[1])
    words = [sys.executable, "-m", "fournos", "run", "--enable", enable, "--health-port", port]
    with log.open("ab") as out:
        return subprocess.Popen(words, cwd=ROOT, env=environment, stdout=out, stderr=out)


def test_the_hearth_readme(person: Person, tmp_path: Path) -> None:
    assert person(RIGHTS).strip() == "yes"

    person(ADD, cwd=tmp_path)
    shown = person.sees(LIST, lambda text: "Valid" in text and "L40S" in text)
    assert shown.splitlines()[0].split() == ["NAME", "OWNER", "GPUS", "KUBECONFIG", "LOCKED", "AGE"]
    # The hub is its own target, so Nodes of other tests may count, too.
    assert re.fullmatch(rf"{NAME} +[0-9]+x NVIDIA-L40S +Valid +false .*", shown.splitlines()[1])
    assert re.fullmatch(r"[0-9]+x NVIDIA-L40S", person(SUMMARY))
    assert json.loads(person(GPUS))[0]["shortName"] == "l40s"
    assert person(LAST_ERROR) == ""
    assert NAME in person(FLAVOR) and person(KEYS)
    person.sees(QUOTAS, lambda text: NAME in text and "fournos/gpu-l40s" in text)

    person(LOCK)
    person.sees(LIST, lambda text: "your-name" in text and "true" in text)
    assert f"cluster-lock-{NAME}" in person.sees(LOCK_JOBS, lambda text: "Admitted" in text)
    assert f"cluster-lock-{NAME}" in person(WORKLOADS)
    assert "Held" in person(f"{FOURNOS} cluster list")
    assert "NotAsked" not in person(f"{FOURNOS} cluster get {NAME}")
    person(TTL)
    assert person.sees(EXPIRES, lambda text: text.startswith("20"))

    person(BLOCKED)
    person.sees(
        WHY, lambda text: f"insufficient unused quota for fournos/cluster-slot in flavor {NAME}" in text
    )
    person(UNLOCK)
    person.sees(LOCKED, lambda text: text == "false")
    person.sees(LOCK_JOBS, lambda text: "cluster-lock" not in text)
    person.sees(WORKLOADS, lambda text: "test-blocked-job" in text and "True" in text)
    person(DELETE_WORKLOAD)

    assert "x NVIDIA-L40S" in person(f"{FOURNOS} cluster discover {NAME}")
    assert "locked for me" in person(f"{FOURNOS} cluster lock {NAME} --owner me --ttl 1h --drain wait")
    assert "unlocked" in person(f"{FOURNOS} cluster unlock {NAME}")
    assert "drained" in person(f"{FOURNOS} cluster drain {NAME}")
    person(f"{FOURNOS} cluster drain {NAME} --undo")

    person(DELETE)
    assert "NotFound" in person(DELETE_FLAVOR, fails=True), "the operator has done that already"
    person(DELETE_ENTRY)
    person(DELETE_SECRET)
    queue = json.loads(person("oc get clusterqueue fournos-queue -o json"))
    (group,) = queue["spec"]["resourceGroups"]
    assert group["coveredResources"] == ["fournos/gpu-a100", "fournos/cluster-slot"]
    assert [flavor["name"] for flavor in group["flavors"]] == ["peoples"]

    log = (tmp_path / "hearth.log").read_text()
    assert "forbidden" not in log.lower(), log
    events = person("oc get events -n hearth -o jsonpath='{.items[*].reason}'")
    assert "LockRequested" in events and "Discovered" in events
