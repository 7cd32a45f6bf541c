"""A full cluster does what Kubernetes does: pods, volumes, names, namespaces, logs; beside another one."""

from __future__ import annotations

import json
import re
import subprocess
import time
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
import yaml

from devcluster import Cluster, components, down, ensure, kernel, manifests, namespaces, native, system, up
from devcluster.archive import Recipe, write_image
from devcluster.errors import DevclusterError
from devcluster.images import KUBECTL_IMAGE
from devcluster.kubectl import wait_until
from devcluster.progress import Progress
from tests.commands import run
from tests.waiting import LIMIT

pytestmark = pytest.mark.timeout(900)


def kubectl(cluster: Cluster, *words: str, stdin: str | None = None, check: bool = True) -> str:
    done = subprocess.run(
        [*cluster.kubectl_words(), *words],
        input=stdin,
        capture_output=True,
        text=True,
        timeout=200,
        check=False,
    )
    assert done.returncode == 0 or not check, done.stderr
    return done.stdout


def run_pod(
    cluster: Cluster, namespace: str, script: str, *, claim: str = "", image: str = KUBECTL_IMAGE
) -> str:
    """Runs a shell script in a pod to its end and returns what it printed; fails when the script does."""
    container: dict[str, Any] = {"name": "main", "image": image, "command": ["sh", "-ec", script]}
    spec: dict[str, Any] = {"restartPolicy": "Never", "containers": [container]}
    if claim:
        container["volumeMounts"] = [{"name": "data", "mountPath": "/data"}]
        spec["volumes"] = [{"name": "data", "persistentVolumeClaim": {"claimName": claim}}]
    name = f"pod-{time.monotonic_ns()}"
    pod = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name}, "spec": spec}
    kubectl(cluster, "-n", namespace, "create", "-f", "-", stdin=yaml.safe_dump(pod))
    deadline = time.monotonic() + LIMIT
    while True:
        phase = kubectl(cluster, "-n", namespace, "get", "pod", name, "-o", "jsonpath={.status.phase}")
        if phase in ("Succeeded", "Failed"):
            break
        assert time.monotonic() < deadline, kubectl(cluster, "-n", namespace, "describe", "pod", name)
        time.sleep(0.3)
    output = kubectl(cluster, "-n", namespace, "logs", name)
    assert phase == "Succeeded", output
    return output


@pytest.fixture
def namespace(node: Cluster, request: pytest.FixtureRequest) -> str:
    name = f"t-{request.node.name[5:40].replace('_', '-').rstrip('-')}"
    kubectl(node, "create", "namespace", name)
    return name


def test_every_component_runs(node: Cluster) -> None:
    rows = {row.component: row.state for row in node.status()}
    assert {
        "etcd",
        "kube-apiserver",
        "kubelet",
        "kube-proxy",
        "containerd",
        "node",
        "coredns",
        "kueue",
    } <= set(rows)
    assert set(rows.values()) == {"running"}
    assert "tekton-controller" not in rows


def test_a_pod_runs_and_its_log_can_be_read(node: Cluster, namespace: str) -> None:
    assert run_pod(node, namespace, "echo from inside") == "from inside\n"


def test_a_claim_binds_and_keeps_what_one_pod_wrote_for_the_next(node: Cluster, namespace: str) -> None:
    claim = {
        "apiVersion": "v1",
        "kind": "PersistentVolumeClaim",
        "metadata": {"name": "data"},
        "spec": {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}},
    }
    kubectl(node, "-n", namespace, "create", "-f", "-", stdin=yaml.safe_dump(claim))
    run_pod(node, namespace, "echo kept > /data/file", claim="data")
    assert run_pod(node, namespace, "cat /data/file", claim="data") == "kept\n"
    assert not list(Path("/tmp/hostpath_pv").glob("*/file")), "the volume must be private to the cluster"


def test_pods_find_services_by_name(node: Cluster, namespace: str) -> None:
    output = run_pod(
        node,
        namespace,
        "nslookup kubernetes.default.svc.cluster.local; "
        "nslookup kueue-webhook-service.kueue-system.svc.cluster.local; "
        "kubectl version --output=json",
    )
    assert "Address: 10.96.0.1\n" in output
    assert output.count("10.96.0.10:53") == 2


def test_a_pod_reaches_the_api_server_by_its_service_name(node: Cluster, namespace: str) -> None:
    output = run_pod(
        node,
        namespace,
        "cd /var/run/secrets/kubernetes.io/serviceaccount; "
        "kubectl --server=https://kubernetes.default --certificate-authority=ca.crt --token=$(cat token) "
        "get --raw /version",
    )
    assert json.loads(output)["gitVersion"].startswith("v1.")


def test_a_deleted_namespace_goes(node: Cluster) -> None:
    kubectl(node, "create", "namespace", "to-go")
    run_pod(node, "to-go", "true")
    kubectl(node, "delete", "namespace", "to-go", "--timeout=180s")
    assert "to-go" not in kubectl(node, "get", "namespaces", "-o", "name")


def test_an_image_of_ones_own_is_loaded_and_runs(node: Cluster, namespace: str, tmp_path: Path) -> None:
    busybox = next(path for path in (Path("/bin/busybox"), Path("/usr/bin/busybox")) if path.exists())
    archive = tmp_path / "own.tar"
    tag = "docker.io/local/own:1"
    write_image(Recipe(tag, files={"/bin/busybox": busybox}, links={"/bin/sh": "busybox"}), archive)
    node.load(archive)
    assert run_pod(node, namespace, "echo mine", image=tag) == "mine\n"


def test_ensure_takes_the_running_cluster_again(node: Cluster, quiet: Progress) -> None:
    again = ensure("e2e-node", without={"tekton"}, progress=quiet)
    assert again.record.processes == node.record.processes


def test_up_refuses_another_shape_under_the_same_name(node: Cluster, quiet: Progress) -> None:
    with pytest.raises(DevclusterError, match="other settings"):
        up("e2e-node", without={"kueue"}, progress=quiet)
    assert node.pid("etcd")


def test_two_clusters_run_side_by_side_and_can_call_each_other(
    node: Cluster, namespace: str, quiet: Progress
) -> None:
    other = up("e2e-other", profile="control-plane", without={"tekton", "kueue"}, progress=quiet)
    try:
        assert other.node_ip != node.node_ip
        kubectl(other, "create", "namespace", "only-there")
        assert "only-there" not in kubectl(node, "get", "namespaces", "-o", "name")
        assert "kueue-system" not in kubectl(other, "get", "namespaces", "-o", "name")
        target = other.kubeconfig_path.read_text()
        script = (
            f"cat > /tmp/target <<'END'\n{target}END\nkubectl --kubeconfig=/tmp/target get namespaces -o name"
        )
        assert "namespace/only-there" in run_pod(node, namespace, script).splitlines()
    finally:
        assert down("e2e-other", progress=quiet)
    assert kubectl(node, "get", "--raw", "/readyz") == "ok"


def test_the_published_scripts_make_a_cluster_with_kueue(node: Cluster, tmp_path: Path) -> None:
    """The AppWrapper README's two, on this cluster: it is what the first of them makes.

    Kueue is removed in between: the second script installs it if it is missing, or prints how to.
    """
    variables = {"CLUSTER": "e2e-node", "KUBECONFIG": str(tmp_path / "kube" / "config")}
    shown = run("hack/create-test-cluster.sh", **variables)
    assert "the current context is devcluster-e2e-node" in shown
    built, _ = native.build(Progress(quiet=True))
    release = tmp_path / "manifests.yaml"
    release.write_text(manifests.kueue(built.kueue_manifests.read_text(), {}))
    kubectl(node, "delete", "-f", str(release), "--ignore-not-found", "--timeout=180s")

    missing = run("hack/deploy-kueue.sh", fails=True, **variables, KUEUE_MANIFESTS=str(tmp_path / "none"))
    assert "KUEUE_MANIFESTS=manifests.yaml hack/deploy-kueue.sh" in missing
    run("hack/deploy-kueue.sh", **variables, KUEUE_MANIFESTS=str(release))
    queues = kubectl(node, "get", "localqueues,clusterqueues", "-o", "wide")
    assert "user-queue" in queues and "cluster-queue" in queues
    run("hack/deploy-kueue.sh", **variables)


def containerd_answers(cluster: Cluster) -> bool:
    inside = namespaces.enter(cluster.record)
    words = [*inside, "ctr", "--address", components.CONTAINERD_SOCKET, "version"]
    return subprocess.run(words, capture_output=True, timeout=60, check=False).returncode == 0


def test_each_setting_that_a_program_opens_is_there_or_brought_by_a_module_of_the_table(
    node: Cluster, namespace: str, quiet: Progress
) -> None:
    """The last test: containerd with CNI's plugins, kubelet and kube-proxy go on as children of strace."""
    system.ensure_packages([system.TRACE_PACKAGES], quiet)
    traces = [node.record.directory / f"{name}.trace" for name in ("containerd", "kubelet", "kube-proxy")]
    traced = {
        trace.stem: ["strace", "-f", "-qq", "-e", "trace=open,openat", "-o", str(trace)]
        + node.record.commands[trace.stem]
        for trace in traces
    }
    for name, words in traced.items():
        node.stop_component(name)
        namespaces.start(node.record, name, words)
        if name == "containerd":  # a kubelet that starts without it ends
            wait_until("containerd answers", lambda: containerd_answers(node), limit=LIMIT)
    began = datetime.now(UTC)

    def kubelet_reports() -> bool:
        """It also ends where containerd answers and its CRI does not yet; systemd starts it again, too."""
        if not namespaces.children(node.record.processes["kubelet"]):
            namespaces.start(node.record, "kubelet", traced["kubelet"])
        words = ("-n", "kube-node-lease", "get", "lease", node.name, "-o", "jsonpath={.spec.renewTime}")
        return datetime.fromisoformat(kubectl(node, *words)) > began

    wait_until("kubelet reports", kubelet_reports, limit=LIMIT)
    # CoreDNS counts as ready only when this kubelet has probed it.
    run_pod(node, namespace, "until nslookup kubernetes.default.svc.cluster.local; do sleep 1; done")

    def settings() -> set[str]:
        return {path for trace in traces for path in re.findall(r'"/proc/sys/([^"]+)"', trace.read_text())}

    # A pod does not need the new kube-proxy: the rules of the earlier one are there.
    of_kube_proxy = "net/netfilter/nf_conntrack_tcp_timeout_established"
    wait_until("kube-proxy opens its settings", lambda: of_kube_proxy in settings(), limit=LIMIT)
    opened = settings()
    folders = {str(Path(module.settings).parent) for module in kernel.MODULES} | {"net/core", "net/ipv4"}
    folders |= {"net/ipv6"}  # a machine without it is among those of tests/vm
    unknown = {
        path for path in opened if path.startswith("net/") and "/".join(path.split("/")[:2]) not in folders
    }
    unknown |= {path for path in opened if path.split("/")[0] not in ("net", "kernel", "vm", "fs")}
    assert unknown == set(), "Add its module to devcluster/kernel.py"
