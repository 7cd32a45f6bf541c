"""The command lines and configurations of the programs of a native cluster, as pure functions."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from devcluster.network import Network

API_PORT = 6443
SERVICE_RANGE = "10.96.0.0/16"
API_SERVICE_IP = "10.96.0.1"
DNS_SERVICE_IP = "10.96.0.10"
POD_RANGE = "10.244.0.0/16"
DOMAIN = "cluster.local"
KUEUE_WEBHOOK_PORT = 9443
KUEUE_HEALTH_PORT = 8081
PAUSE_IMAGE = "localhost/local/pause:1"
CONTAINERD_SOCKET = "/run/containerd/containerd.sock"
"""The path inside the cluster, which has its own /run and /var. The programs use their default paths there,
and socket paths stay below Linux's limit of 108 characters, wherever the state directory is."""
CNI_PLUGINS = "/usr/lib/cni"

CONTROL_PLANE_CONTROLLERS = "*,-node-lifecycle-controller"
"""All controllers but one. Nodes of the control-plane profile are plain API objects whose Lease no kubelet
renews; the node lifecycle controller would mark them NotReady."""

_ETCD = "http://127.0.0.1:2379"


@dataclass(frozen=True)
class Layout:
    """The paths of one cluster's files. `directory` holds the cluster's files, `binaries` the programs."""

    directory: Path
    binaries: Path
    network: Network
    durable: bool = False
    """See ClusterSpec."""

    @property
    def hyper(self) -> str:
        return str(self.binaries / "hyper")

    @property
    def pki(self) -> Path:
        return self.directory / "pki"

    @property
    def kubeconfig(self) -> Path:
        return self.directory / "admin.kubeconfig"


def etcd(layout: Layout) -> list[str]:
    """etcd, without fsync unless durable: a development cluster need not survive a power failure."""
    return [
        layout.hyper,
        "etcd",
        f"--data-dir={layout.directory / 'etcd'}",
        *([] if layout.durable else ["--unsafe-no-fsync"]),
        f"--listen-client-urls={_ETCD}",
        f"--advertise-client-urls={_ETCD}",
        "--listen-peer-urls=http://127.0.0.1:2380",
        "--quota-backend-bytes=8589934592",
        "--log-level=warn",
    ]


def api_server(layout: Layout) -> list[str]:
    """The API server as a process outside of any pod.

    With aggregator routing it connects to the endpoints of webhooks directly, and to kubelets by address.
    Without the front proxy's CA an aggregated API stays unavailable, and then the deletion of a namespace
    never completes.

    A quarter of its CPU time is garbage collection, which GOGC halves for 200 MB of memory; if durable it has
    Go's default, 100.
    """
    pki = layout.pki
    return [
        "env",
        f"GOGC={100 if layout.durable else 200}",
        layout.hyper,
        "kube-apiserver",
        f"--etcd-servers={_ETCD}",
        f"--secure-port={API_PORT}",
        f"--advertise-address={layout.network.node_ip}",
        f"--tls-cert-file={pki / 'apiserver.crt'}",
        f"--tls-private-key-file={pki / 'apiserver.key'}",
        f"--client-ca-file={pki / 'ca.crt'}",
        "--authorization-mode=Node,RBAC",
        "--allow-privileged=true",
        "--service-account-issuer=https://kubernetes.default.svc",
        f"--service-account-key-file={pki / 'sa.pub'}",
        f"--service-account-signing-key-file={pki / 'sa.key'}",
        f"--service-cluster-ip-range={SERVICE_RANGE}",
        f"--kubelet-client-certificate={pki / 'admin.crt'}",
        f"--kubelet-client-key={pki / 'admin.key'}",
        "--kubelet-preferred-address-types=InternalIP",
        "--enable-aggregator-routing=true",
        f"--requestheader-client-ca-file={pki / 'front-proxy-ca.crt'}",
        "--requestheader-allowed-names=front-proxy-client",
        "--requestheader-extra-headers-prefix=X-Remote-Extra-",
        "--requestheader-group-headers=X-Remote-Group",
        "--requestheader-username-headers=X-Remote-User",
        f"--proxy-client-cert-file={pki / 'front-proxy-client.crt'}",
        f"--proxy-client-key-file={pki / 'front-proxy-client.key'}",
    ]


def controller_manager(layout: Layout, controllers: str) -> list[str]:
    return [
        layout.hyper,
        "kube-controller-manager",
        f"--kubeconfig={layout.kubeconfig}",
        f"--service-account-private-key-file={layout.pki / 'sa.key'}",
        f"--root-ca-file={layout.pki / 'ca.crt'}",
        # The health probe uses the kubeconfig of the API server, so the certificate must be of the same CA.
        f"--tls-cert-file={layout.pki / 'apiserver.crt'}",
        f"--tls-private-key-file={layout.pki / 'apiserver.key'}",
        "--use-service-account-credentials=true",
        "--leader-elect=false",
        "--enable-hostpath-provisioner=true",
        f"--controllers={controllers}",
        # With the 20 requests a second that it is shipped with, the objects of deleted jobs wait for minutes.
        *([] if layout.durable else ["--kube-api-qps=1000", "--kube-api-burst=2000"]),
    ]


def controller_manager_probe(layout: Layout) -> list[str]:
    """A command that succeeds inside the cluster's namespaces if the controller manager is healthy."""
    where = [f"--kubeconfig={layout.kubeconfig}", "--server=https://127.0.0.1:10257"]
    return [layout.hyper, "kubectl", *where, "get", "--raw", "/healthz"]


def scheduler(layout: Layout) -> list[str]:
    return [layout.hyper, "kube-scheduler", f"--kubeconfig={layout.kubeconfig}", "--leader-elect=false"]


def containerd(layout: Layout) -> list[str]:
    return ["containerd", f"--config={layout.directory / 'containerd.toml'}"]


def kubelet(layout: Layout) -> list[str]:
    return [
        layout.hyper,
        "kubelet",
        f"--config={layout.directory / 'kubelet.yaml'}",
        f"--kubeconfig={layout.kubeconfig}",
        f"--hostname-override={layout.network.cluster}",
        f"--node-ip={layout.network.node_ip}",
    ]


def kube_proxy(layout: Layout) -> list[str]:
    return [
        layout.hyper,
        "kube-proxy",
        f"--config={layout.directory / 'kube-proxy.yaml'}",
        f"--hostname-override={layout.network.cluster}",
    ]


def kueue_process(layout: Layout) -> list[str]:
    """Kueue's manager as a process outside of any pod (control-plane profile)."""
    return [
        str(layout.binaries / "kueue"),
        f"--config={layout.directory / 'kueue.yaml'}",
        f"--kubeconfig={layout.kubeconfig}",
        "--zap-log-level=2",
    ]


def containerd_config(layout: Layout, *, restrict_oom_score: bool) -> str:
    """containerd's TOML. `restrict_oom_score`: the machine refuses lower OOM scores, see system.py."""
    return f"""\
version = 2
[grpc]
  address = "{CONTAINERD_SOCKET}"
[plugins."io.containerd.internal.v1.opt"]
  path = "/var/lib/containerd/opt"
[plugins."io.containerd.grpc.v1.cri"]
  restrict_oom_score_adj = {str(restrict_oom_score).lower()}
  sandbox_image = "{PAUSE_IMAGE}"
  [plugins."io.containerd.grpc.v1.cri".cni]
    bin_dir = "{CNI_PLUGINS}"
    conf_dir = "{layout.directory / "cni"}"
"""


def cni_config() -> str:
    plugins: list[dict[str, Any]] = [
        {
            "type": "bridge",
            "bridge": "cni0",
            "isGateway": True,
            "ipMasq": True,
            "hairpinMode": True,
            "ipam": {
                "type": "host-local",
                "ranges": [[{"subnet": POD_RANGE}]],
                "routes": [{"dst": "0.0.0.0/0"}],
            },
        },
        {"type": "portmap", "capabilities": {"portMappings": True}},
    ]
    return json.dumps({"cniVersion": "0.4.0", "name": "local", "plugins": plugins}, indent=1)


def kubelet_config(layout: Layout) -> str:
    """The kubelet's configuration. `resolvConf` is empty: pods cannot use the machine's DNS settings."""
    return yaml.safe_dump(
        {
            "apiVersion": "kubelet.config.k8s.io/v1beta1",
            "kind": "KubeletConfiguration",
            "containerRuntimeEndpoint": f"unix://{CONTAINERD_SOCKET}",
            "cgroupDriver": "cgroupfs",
            "cgroupRoot": f"/{layout.network.cgroup}",
            "failCgroupV1": False,
            "failSwapOn": False,
            "clusterDNS": [DNS_SERVICE_IP],
            "clusterDomain": DOMAIN,
            "resolvConf": "",
            "authentication": {
                "anonymous": {"enabled": False},
                "webhook": {"enabled": True},
                "x509": {"clientCAFile": str(layout.pki / "ca.crt")},
            },
            "authorization": {"mode": "Webhook"},
            "evictionHard": {
                "memory.available": "100Mi",
                "nodefs.available": "1%",
                "imagefs.available": "1%",
            },
            # Never: no registry has the images of a local cluster, so that one that is deleted is gone.
            "imageGCHighThresholdPercent": 100,
            "maxPods": 500,
        }
    )


def kube_proxy_config(layout: Layout) -> str:
    """kube-proxy's configuration. `conntrack.maxPerCore: 0` keeps the machine's limits: some kernels refuse
    to change them.
    """
    return yaml.safe_dump(
        {
            "apiVersion": "kubeproxy.config.k8s.io/v1alpha1",
            "kind": "KubeProxyConfiguration",
            "clientConnection": {"kubeconfig": str(layout.kubeconfig)},
            "mode": "iptables",
            "clusterCIDR": POD_RANGE,
            "conntrack": {"maxPerCore": 0},
        }
    )
