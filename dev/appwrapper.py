"""The AppWrapper operator's make targets and hack scripts, by the names that its README gives them.

All commands except create-cluster act on the current context of the kubeconfig, whatever cluster that is.
"""

from __future__ import annotations

import argparse
import os
import re
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from typing import Any, get_args

import yaml

from dev.image import ROOT, Image, operator_image, sample_image
from dev.rollout import await_rollout
from devcluster import Cluster, DevclusterError
from devcluster.cluster import start
from devcluster.engine import find_engine
from devcluster.existing import kubectl_program
from devcluster.kubectl import await_established, wait_until
from devcluster.progress import Progress
from devcluster.spec import ClusterSpec, ProviderName
from devcluster.state import require
from devcluster.upstream import release
from devcluster.versions import chosen

CLUSTER = "appwrapper-test"
NAMESPACE = "appwrapper-system"
IMAGE = re.compile(r"quay\.io/rh_perfscale/fournos:\S+")
"""The image in deploy/appwrapper, of any version."""
_CRD = "deploy/appwrapper/crd.yaml"
_LIMIT = 180.0
KUEUE_PATIENCE = 200
"""Seconds to wait for Kueue, which may take up to 120 to find a new CRD."""
PROBE = "deployment-probe"
_PROBE: Mapping[str, Any] = {
    "apiVersion": "workload.codeflare.dev/v1beta2",
    "kind": "AppWrapper",
    "metadata": {"name": PROBE, "namespace": NAMESPACE, "labels": {"kueue.x-k8s.io/queue-name": PROBE}},
    "spec": {
        "suspend": True,
        "components": [
            {
                "template": {
                    "apiVersion": "v1",
                    "kind": "Pod",
                    "metadata": {"name": PROBE},
                    "spec": {"containers": [{"name": "none", "image": "none"}]},
                }
            }
        ],
    },
}
"""An AppWrapper whose queue does not exist: Kueue creates its Workload but never admits it."""


def kubectl(*arguments: str, stdin: str | None = None, show: bool = True) -> str:
    """Runs kubectl in the current context.  Raises DevclusterError with kubectl's output."""
    command = [*kubectl_program(), *arguments]
    done = subprocess.run(
        command, input=stdin, capture_output=True, text=True, cwd=ROOT, timeout=_LIMIT, check=False
    )
    if done.returncode:
        raise DevclusterError(f"kubectl {' '.join(arguments)} failed: {done.stderr.strip()}")
    if show:
        print(done.stdout, end="")
    return done.stdout


# --- the cluster -------------------------------------------------------------------------------


def create_cluster() -> None:
    """Bring up a local cluster with Kueue, and make it the current context."""
    provider: Any = os.environ.get("DEVCLUSTER_PROVIDER", "native")
    if provider not in get_args(ProviderName):
        raise DevclusterError(
            f"DEVCLUSTER_PROVIDER is {provider}; known: {', '.join(get_args(ProviderName))}"
        )
    progress = Progress()
    cluster = start(
        ClusterSpec(name=_name(), profile="full", provider=provider, without=frozenset({"tekton"})),
        progress=progress,
    )
    if provider == "native":  # has no registry from which to pull the sample's image
        cluster.load(sample_image(progress).archive, progress=progress)
    target = current_kubeconfig(os.environ)
    merge(target, yaml.safe_load(cluster.kubeconfig_path.read_text()), f"devcluster-{cluster.name}")
    print(f"\n{target}: the current context is devcluster-{cluster.name}.")
    if shutil.which("kubectl") is None:
        print(f"There is no kubectl on PATH: alias kubectl='{' '.join(kubectl_program())}'")
    print(f"Take it down:  {sys.executable} -m devcluster down {cluster.name}")


def current_kubeconfig(environment: Mapping[str, str]) -> Path:
    """Returns the kubeconfig file that kubectl writes to."""
    named = environment.get("KUBECONFIG", "").split(os.pathsep)[0]
    return Path(named) if named else Path.home() / ".kube" / "config"


def merge(target: Path, cluster: Mapping[str, Any], name: str) -> None:
    """Adds or replaces the cluster of a kubeconfig under this name, and makes it the current context."""
    kubeconfig = (yaml.safe_load(target.read_text()) if target.exists() else None) or {
        "apiVersion": "v1",
        "kind": "Config",
    }
    entries = {
        "clusters": {"cluster": cluster["clusters"][0]["cluster"]},
        "users": {"user": cluster["users"][0]["user"]},
        "contexts": {"context": {"cluster": name, "user": name}},
    }
    for section, entry in entries.items():
        others = [item for item in kubeconfig.get(section) or () if item["name"] != name]
        kubeconfig[section] = [*others, {"name": name, **entry}]
    kubeconfig["current-context"] = name
    target.parent.mkdir(parents=True, exist_ok=True)
    written = target.with_name(f".{target.name}.new")
    written.touch(mode=0o600)
    written.write_text(yaml.safe_dump(kubeconfig, sort_keys=False))
    written.replace(target)


def deploy_kueue() -> None:
    """Install Kueue where it is missing, and make queues: 4 CPUs for the namespace default."""
    if "kueue.x-k8s.io/" not in kubectl("api-versions", show=False):
        _install_kueue(os.environ.get("KUEUE_MANIFESTS") or release("kueue", chosen()))
    # Kueue's webhook answers some time after its pod is ready.  The namespace of Kueue is not known here, so
    # the apply itself is retried.
    _apply("samples/queues.yaml")


def _apply(manifests: str, *, stdin: str | None = None) -> None:
    """Applies objects that a webhook reviews, which the API server may not reach yet."""

    def applied() -> bool:
        kubectl("apply", "--server-side", "-f", manifests, stdin=stdin, show=stdin is None)
        return True

    wait_until(f"{manifests} applied", applied, limit=_LIMIT, every=1)


def _install_kueue(manifests: str) -> None:
    """Installs a Kueue release.  `manifests` is a URL or a file."""
    print(f"Kueue is not installed in this cluster: applying {manifests}")
    try:
        kubectl("apply", "--server-side", "--force-conflicts", "-f", manifests)
    except DevclusterError as error:
        raise DevclusterError(
            f"{error}\nKueue could not be installed. Name a copy of its release's manifests.yaml, by file or "
            f"URL:\n  KUEUE_MANIFESTS=manifests.yaml hack/deploy-kueue.sh\nIts address is "
            f"{release('kueue', chosen())}; a cluster of hack/create-test-cluster.sh has Kueue already."
        ) from None


# --- the operator ------------------------------------------------------------------------------


def image(progress: Progress) -> Image:
    """Builds the image of this checkout with Docker or Podman if one of them answers, else with buildah."""
    return operator_image(progress, find_engine())


def build() -> None:
    """Make the image of this checkout."""
    print(image(Progress()).tag)


def push() -> None:
    """Load that image into the local cluster."""
    progress = Progress()
    cluster = Cluster(require(_name()))
    cluster.load(image(progress).archive, progress=progress)


def deploy() -> None:
    """Apply the CRD and the operator with that image, or with $IMG."""
    tag = os.environ.get("IMG") or image(Progress()).tag
    folder = os.environ.get("DEPLOY", "deploy/appwrapper")
    rendered = IMAGE.sub(tag, kubectl("kustomize", folder, show=False))
    kubectl("apply", "--server-side", "--force-conflicts", "-f", "-", stdin=rendered)
    await_rollout(partial(kubectl, "-n", NAMESPACE, show=False), "appwrapper-controller-manager", limit=150)
    await_kueue()


def await_kueue(*, wait: Callable[[float], None] = time.sleep) -> None:
    """Waits until AppWrappers get Workloads: Kueue looks for a new CRD with growing backoff.

    Raises DevclusterError after KUEUE_PATIENCE seconds.
    """
    if "kueue.x-k8s.io/" not in kubectl("api-versions", show=False):
        print("Kueue is not installed here: AppWrappers with a queue wait for it.")
        return
    _apply("-", stdin=yaml.safe_dump(_PROBE))
    try:
        for second in range(KUEUE_PATIENCE):
            if kubectl("-n", NAMESPACE, "get", "workloads", "-o", "name", show=False):
                return
            if second == 3:
                print("Waiting for Kueue to see the new CRD (up to two minutes the first time) ...")
            wait(1)
    finally:
        kubectl("-n", NAMESPACE, "delete", "appwrapper", PROBE, "--timeout=60s", show=False)
    raise DevclusterError(
        "The operator runs, but AppWrappers get no Workloads: Kueue has to list "
        "workload.codeflare.dev/appwrapper under integrations.frameworks of its configuration (or let this "
        "operator make them: DEPLOY=deploy/appwrapper-own-workloads make deploy)"
    )


def undeploy() -> None:
    """Delete all of that, AppWrappers first: while there is an operator to take down what they made."""
    uninstall()
    kubectl("delete", "-k", "deploy/appwrapper", "--ignore-not-found", "--timeout=120s")


def install() -> None:
    """Apply the CRD."""
    kubectl("apply", "--server-side", "-f", _CRD)
    await_established(kubectl_program())


def uninstall() -> None:
    """Delete the CRD, and with it all AppWrappers."""
    try:
        kubectl("delete", "-f", _CRD, "--ignore-not-found", "--timeout=120s")
    except DevclusterError as error:
        raise DevclusterError(
            f"{error}\nAppWrappers wait for their operator to take down what they made: does it run?"
        ) from None


def run() -> None:
    """Run the operator here, without webhooks, in the current context."""
    environment = {"FOURNOS_CONTROLLER_NAMESPACE": "default", **os.environ}
    words = [sys.executable, "-m", "fournos", "run", "--enable", "appwrappers"]
    # This process becomes the operator, so that signals and the exit code need no forwarding.
    os.execve(sys.executable, words, environment)  # noqa: S606


def _name() -> str:
    return os.environ.get("CLUSTER", CLUSTER)


COMMANDS: Mapping[str, Callable[[], None]] = {
    function.__name__.replace("_", "-"): function
    for function in (create_cluster, deploy_kueue, build, push, deploy, undeploy, install, uninstall, run)
}


def main() -> int:
    parser = argparse.ArgumentParser(
        prog="python -m dev.appwrapper", description=(__doc__ or "").split("\n")[0]
    )
    commands = parser.add_subparsers(dest="command", required=True)
    for name, function in COMMANDS.items():
        commands.add_parser(name, help=(function.__doc__ or "").split("\n")[0])
    try:
        COMMANDS[parser.parse_args().command]()
    except (DevclusterError, subprocess.TimeoutExpired) as error:
        print(f"error: {error}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
