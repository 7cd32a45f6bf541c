"""The native provider: a cluster of the cached programs, in its own Linux namespaces."""

from __future__ import annotations

import os
import subprocess
import tomllib
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path

from devcluster import cgroups, components, kernel, manifests, namespaces, network, pki, system
from devcluster.binaries import Built, ensure_built
from devcluster.components import Layout
from devcluster.errors import CommandFailedError, ComponentFailedError, DevclusterError
from devcluster.images import ensure_images
from devcluster.install import POD_COMPONENTS, apply_part, await_part, start_kueue
from devcluster.kubectl import Kubectl, wait_until
from devcluster.locks import file_lock
from devcluster.network import NETWORK_LOCK, Network
from devcluster.progress import Progress
from devcluster.provider import ComponentStatus
from devcluster.shell import run, tail_file
from devcluster.state import Record, alive, names
from devcluster.state import load as load_record
from devcluster.teardown import tear_down
from devcluster.versions import Versions, chosen


class NativeProvider:
    """See Provider. Needs Linux and root."""

    def up(self, record: Record, progress: Progress) -> None:
        node = record.spec.profile == "full"
        prepare(progress, node=node)
        built, archives = build(progress, record.spec.version_set, node=node)
        _claim_network(record)
        _Start(record, built, archives, progress).run()
        record.phase = "ready"
        record.save()

    def configure_kueue(self, record: Record, progress: Progress) -> None:
        """Starts the Kueue of a control plane anew, with the configuration that its record has now."""
        namespaces.stop(record, "kueue")
        built = ensure_built(progress, record.spec.version_set)
        _Start(record, built, {}, progress).start_kueue()

    def down(self, record: Record, progress: Progress) -> None:
        with progress.step(f"Taking {record.spec.name} down", usual="2 s"):
            tear_down(record)

    def status(self, record: Record) -> list[ComponentStatus]:
        rows = [_process_status(record, name) for name in record.processes]
        kubectl = _kubectl(record)
        if not record.kubeconfig.is_file() or not kubectl.answers("/readyz"):
            rows.append(ComponentStatus("API", "failed", "the API server does not answer /readyz"))
            return rows
        if record.spec.profile == "full":
            rows.append(_node_status(kubectl, record.spec.name))
            for name in _pod_components(record):
                rows.append(_deployment_status(kubectl, name))
        return rows

    def load(self, record: Record, archive: Path, progress: Progress) -> None:
        if record.spec.profile != "full":
            raise DevclusterError(
                f"Cluster {record.spec.name} has no node to load an image into",
                hint="Bring one up with `--profile full`.",
            )
        with progress.step(f"Loading {archive.name} into {record.spec.name}", usual="2 s"):
            import_archive(record, archive)

    def logs(self, record: Record, component: str, *, tail: int) -> str:
        if component in record.processes:
            return tail_file(record.log_file(component), tail)
        pods = _pod_components(record)
        if component not in pods:
            known = ", ".join([*record.processes, *pods])
            raise DevclusterError(f"No component {component!r}", hint=f"There are: {known}.")
        namespace, deployment = POD_COMPONENTS[component]
        words = ["-n", namespace, "logs", f"deployment/{deployment}", f"--tail={tail}"]
        return _kubectl(record).run(*words).stdout

    def kubectl(self, record: Record) -> list[str]:
        return _kubectl(record).words()


def prepare(progress: Progress, *, node: bool = True) -> None:
    """Installs packages and loads kernel modules. Raises NotSupportedError if no cluster can run here."""
    system.require_native()
    system.ensure_packages(_packages(node), progress)
    kernel.prepare(progress, node=node)


def build(
    progress: Progress, versions: Versions | None = None, *, node: bool = True
) -> tuple[Built, dict[str, Path]]:
    """Builds the programs and, for a cluster with a node, the images, before `up` starts any process."""
    system.ensure_packages(_packages(node), progress)
    built = ensure_built(progress, versions or chosen())
    return built, ensure_images(built, progress) if node else {}


def _packages(node: bool) -> list[dict[str, str]]:
    return [system.BASE_PACKAGES, *([system.NODE_PACKAGES] if node else [])]


def import_archive(record: Record, archive: Path) -> None:
    """Imports a docker archive into the cluster's containerd, from inside its namespaces."""
    configuration = tomllib.loads((record.directory / "containerd.toml").read_text())
    words = [
        "ctr",
        "--address",
        configuration["grpc"]["address"],
        "--namespace",
        "k8s.io",
        "images",
        "import",
        "-",
    ]
    with archive.open("rb") as data:
        done = subprocess.run(
            [*namespaces.enter(record), *words],
            stdin=data,
            capture_output=True,
            text=True,
            timeout=300,
            check=False,
        )
    if done.returncode != 0:
        raise CommandFailedError(f"{archive} could not be imported", evidence=done.stderr)


def _claim_network(record: Record) -> None:
    """Chooses a free subnet and creates it. It is recorded first, so that tear-down finds a partial one."""
    with file_lock(NETWORK_LOCK, limit=60, what="the choice of a subnet"):
        others = [load_record(name) for name in names()]
        record.index = network.choose_index(
            recorded={other.index for other in others if other}, in_use=network.subnets_in_use()
        )
        record.save()
        network.make(Network(record.index, record.spec.name))
    network.let_clusters_meet(Network(record.index, record.spec.name))
    system.make_room_for_watches()


class _Start:
    """The start of a cluster, step by step. Each failure names the component and shows its log."""

    def __init__(self, record: Record, built: Built, archives: dict[str, Path], progress: Progress) -> None:
        self.record = record
        self.built = built
        self.archives = archives
        self.progress = progress
        self.network = Network(record.index, record.spec.name)
        self.layout = Layout(record.directory, built.bin, self.network, record.spec.durable)
        self.kubectl = _kubectl(record)
        self.full = record.spec.profile == "full"

    def run(self) -> None:
        with self.progress.step("Making namespaces, certificates and configuration", usual="1 s"):
            namespaces.start_holder(self.record, self.network, visible=[self.built.root], pods=self.full)
            self._write_certificates()
            if self.full:
                self._write_node_configuration()
        if self.full:
            with ThreadPoolExecutor(max_workers=1) as pool:
                imported = pool.submit(self._start_containerd)
                self._start_control_plane()
                self._start_node(imported)
            self._install_pods()
        else:
            self._start_control_plane()
            self._install_processes()

    def _write_certificates(self) -> None:
        directory = self.layout.pki
        ca = pki.authority("kubernetes")
        front_proxy = pki.authority("front-proxy-ca")
        directory.mkdir(parents=True, exist_ok=True)
        (directory / "ca.crt").write_bytes(ca.certificate_pem)
        (directory / "front-proxy-ca.crt").write_bytes(front_proxy.certificate_pem)
        service = "kubernetes.default.svc"
        hosts = ["localhost", "kubernetes", "kubernetes.default", service, f"{service}.{components.DOMAIN}"]
        hosts += ["127.0.0.1", components.API_SERVICE_IP, self.network.node_ip]
        pki.issue(ca, "kube-apiserver", hosts=hosts).write(directory, "apiserver")
        admin = pki.issue(ca, "admin", organizations=["system:masters"])
        admin.write(directory, "admin")
        pki.issue(front_proxy, "front-proxy-client").write(directory, "front-proxy-client")
        pki.write_service_account_key(directory)
        webhook = pki.issue(ca, "kueue-webhook", hosts=["127.0.0.1"])
        webhook.write(directory, "tls")
        if not self.full:  # the path is fixed in Kueue's manager; the cluster has its own /etc
            webhook.write(self.record.directory / "etc/kueue/metrics/certs", "tls")
        server = f"https://{self.network.node_ip}:{components.API_PORT}"
        self.record.kubeconfig.touch(mode=0o600)
        self.record.kubeconfig.write_text(
            pki.kubeconfig(name=self.record.spec.name, server=server, ca=ca, client=admin)
        )

    def _write_node_configuration(self) -> None:
        directory = self.record.directory
        (directory / "cni").mkdir(exist_ok=True)
        (directory / "cni/10-local.conflist").write_text(components.cni_config())
        restricted = system.oom_score_is_restricted()
        (directory / "containerd.toml").write_text(
            components.containerd_config(self.layout, restrict_oom_score=restricted)
        )
        (directory / "kubelet.yaml").write_text(components.kubelet_config(self.layout))
        (directory / "kube-proxy.yaml").write_text(components.kube_proxy_config(self.layout))
        cgroups.make(self.network.cgroup)
        inside = namespaces.enter(self.record)
        kernel.switch_on(inside, "net/ipv4/ip_forward")
        # Services between pods of one node need bridged packets to pass iptables.
        if kernel.Kernel().has(kernel.BRIDGE_FILTER):
            kernel.switch_on(inside, "net/bridge/bridge-nf-call-iptables")

    def _start_control_plane(self) -> None:
        spec = self.record.spec
        with self.progress.step("Starting etcd and the API server", usual="5 s"):
            namespaces.start(self.record, "etcd", components.etcd(self.layout))
            namespaces.start(self.record, "kube-apiserver", components.api_server(self.layout))
            self._await("kube-apiserver", lambda: self.kubectl.answers("/readyz"), limit=120)
        controllers = spec.controllers or ("*" if self.full else components.CONTROL_PLANE_CONTROLLERS)
        namespaces.start(
            self.record, "kube-controller-manager", components.controller_manager(self.layout, controllers)
        )
        if self.full:
            namespaces.start(self.record, "kube-scheduler", components.scheduler(self.layout))
        probe = namespaces.enter(self.record) + components.controller_manager_probe(self.layout)
        self._await(
            "kube-controller-manager", lambda: run(probe, limit=20, check=False).returncode == 0, limit=60
        )

    def _start_containerd(self) -> None:
        namespaces.start(self.record, "containerd", components.containerd(self.layout))
        probe = [*namespaces.enter(self.record), "ctr", "--address", components.CONTAINERD_SOCKET, "version"]
        self._await("containerd", lambda: run(probe, limit=20, check=False).returncode == 0, limit=60)
        for name, archive in self.archives.items():
            if self.record.spec.has(name.partition("-")[0]):
                import_archive(self.record, archive)

    def _start_node(self, imported: Future[None]) -> None:
        with self.progress.step("Loading images into the node", usual="10 s"):
            imported.result()
        with self.progress.step("Starting the node", usual="8 s"):
            namespaces.start(self.record, "kubelet", components.kubelet(self.layout))
            namespaces.start(self.record, "kube-proxy", components.kube_proxy(self.layout))
            self.kubectl.apply(manifests.dump([manifests.STORAGE_CLASS]))
            self.kubectl.apply(manifests.coredns())
            name = self.record.spec.name
            self._await("kubelet", lambda: _node_status(self.kubectl, name).state == "running", limit=120)

    def _install_pods(self) -> None:
        spec = self.record.spec
        parts = {}
        if spec.has("tekton"):
            parts["tekton"] = manifests.tekton(self.built.tekton_config, spec.version_set.tekton)
        if spec.has("kueue"):
            parts["kueue"] = manifests.kueue(self.built.kueue_manifests.read_text(), spec.kueue_config)
        for part, text in parts.items():
            apply_part(self.kubectl, part, text, self.progress)
        for part in ("coredns", *parts):
            await_part(self.kubectl, part, self.progress, meanwhile=self._all_alive)

    def _install_processes(self) -> None:
        spec = self.record.spec
        if spec.has("tekton"):
            config, version = self.built.tekton_config, spec.version_set.tekton
            definitions = manifests.tekton_definitions(config, version)
            apply_part(self.kubectl, "tekton's definitions", definitions, self.progress)
        if not spec.has("kueue"):
            return
        ca_pem = (self.layout.pki / "ca.crt").read_bytes()
        objects = manifests.kueue_without_pods(self.built.kueue_manifests.read_text(), ca_pem)
        apply_part(self.kubectl, "kueue", objects, self.progress)
        self.start_kueue()

    def start_kueue(self) -> None:
        """As a process, with the configuration that the record has now."""
        with self.progress.step("Starting Kueue", usual="5 s"), self._blaming("kueue"):
            start_kueue(self.record, self.layout, self.kubectl, self.built, meanwhile=self._all_alive)

    def _await(self, component: str, ready: Callable[[], bool], *, limit: float) -> None:
        with self._blaming(component):
            wait_until(f"{component} ready", ready, limit=limit, every=0.15, meanwhile=self._all_alive)

    @contextmanager
    def _blaming(self, component: str) -> Iterator[None]:
        """An error that names no component is this one's."""
        try:
            yield
        except ComponentFailedError:
            raise
        except DevclusterError as error:
            raise self._failed(component, error.message) from None

    def _all_alive(self) -> None:
        for name, ref in list(self.record.processes.items()):
            if not alive(ref):
                raise self._failed(name, "it ended by itself")

    def _failed(self, component: str, why: str) -> ComponentFailedError:
        log = self.record.log_file(component)
        return ComponentFailedError(component, why, log_tail=tail_file(log), hint=f"Its whole log: {log}")


def _kubectl(record: Record) -> Kubectl:
    return Kubectl(
        [*network.past_proxies(os.environ), *Built(record.spec.version_set).kubectl],
        record.kubeconfig,
        record.directory / "kubectl-cache",
        namespaces.mark(record),
    )


def _pod_components(record: Record) -> list[str]:
    if record.spec.profile != "full":
        return []
    return [name for name in POD_COMPONENTS if record.spec.has(name.partition("-")[0])]


def _process_status(record: Record, name: str) -> ComponentStatus:
    ref = record.processes[name]
    if alive(ref):
        return ComponentStatus(name, "running", f"process {ref.pid}")
    last = tail_file(record.log_file(name), 1)
    return ComponentStatus(name, "failed", f"ended; its last words: {last}" if last else "ended")


def _node_status(kubectl: Kubectl, name: str) -> ComponentStatus:
    try:
        node = kubectl.json("get", "node", name, limit=20)
    except CommandFailedError:
        return ComponentStatus("node", "absent", "not registered")
    for condition in node.get("status", {}).get("conditions", []):
        if condition["type"] == "Ready":
            if condition["status"] == "True":
                return ComponentStatus("node", "running", "Ready")
            return ComponentStatus("node", "failed", condition.get("message", "not ready"))
    return ComponentStatus("node", "starting")


def _deployment_status(kubectl: Kubectl, name: str) -> ComponentStatus:
    namespace, deployment = POD_COMPONENTS[name]
    try:
        live = kubectl.json("-n", namespace, "get", "deployment", deployment, limit=20)
    except CommandFailedError:
        return ComponentStatus(name, "absent", f"no Deployment {namespace}/{deployment}")
    have = live.get("status", {}).get("availableReplicas", 0)
    want = live["spec"].get("replicas", 1)
    return ComponentStatus(name, "running" if have >= want else "failed", f"{have} of {want} pods available")
