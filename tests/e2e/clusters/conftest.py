"""A hub with both operators in pods, Hearth as `deploy/` ships it, and three target clusters.

The hub is the full cluster of all end-to-end tests, or the one that FOURNOS_TEST_HUB names; Hearth's
namespaces have the published names.  The
targets are control planes whose Nodes carry real GPU labels: NVIDIA, AMD, and one without feature discovery.
"""

from __future__ import annotations

import json
import os
import shlex
import shutil
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest

import devcluster
from dev import operator
from dev.image import operator_image, retag
from dev.setup import Where, prepare
from devcluster import Cluster
from devcluster.progress import Progress
from fournos import __version__
from tests.e2e.hub import ROOT, Hub
from tests.e2e.jobs.conftest import WHERE
from tests.integration.jobs.conftest import CONTROLLERS
from tests.waiting import LIMIT

IMAGES = (f"quay.io/rh_perfscale/hearth:{__version__}", "quay.io/rh_perfscale/hearth:my-branch")
JOBS, SECRETS, OPERATOR = "psap-automation", "psap-secrets", "psap-operator"
READY = {"type": "Ready", "status": "True", "reason": "KubeletReady", "message": "ready"}


@dataclass(frozen=True)
class Target:
    """A cluster for jobs, with one Node."""

    name: str
    labels: dict[str, str]
    resource: str
    short: str
    summary: str
    cluster: Cluster | None = None

    @property
    def kubeconfig(self) -> Path:
        assert self.cluster is not None
        return self.cluster.kubeconfig_path

    @property
    def ip(self) -> str:
        assert self.cluster is not None
        return self.cluster.node_ip

    def hub(self) -> Hub:
        return Hub(self.kubeconfig, "default")

    def give(self, gpus: int) -> None:
        """The Node has so many of them."""
        meta = {"name": "gpu-node", "labels": self.labels}
        self.hub().apply({"apiVersion": "v1", "kind": "Node", "metadata": meta})
        amounts = {self.resource: str(gpus)}
        status = {"status": {"capacity": amounts, "allocatable": amounts, "conditions": [READY]}}
        words = ("patch", "node", "gpu-node", "--subresource=status", "--type=merge", "-p")
        self.hub().kubectl(*words, json.dumps(status))


TARGETS = (
    Target("oven-nvidia", {"nvidia.com/gpu.product": "NVIDIA-L40S"}, "nvidia.com/gpu", "l40s", "NVIDIA-L40S"),
    Target(
        "oven-amd",
        {"amd.com/gpu.product-name": "AMD_Instinct_MI210"},
        "amd.com/gpu",
        "mi210",
        "AMD_Instinct_MI210",
    ),
    Target("oven-plain", {}, "nvidia.com/gpu", "nvidia", "NVIDIA"),
)


@pytest.fixture(scope="package")
def targets() -> Iterator[dict[str, Target]]:
    """The target clusters by name; no pod runs in them, and no controller marks their Nodes as lost."""
    found = {}
    for target in TARGETS:
        cluster = devcluster.ensure(
            f"fournos-{target.name}",
            profile="control-plane",
            without={"kueue", "tekton"},
            controllers=CONTROLLERS,
        )
        found[target.name] = replace(target, cluster=cluster)
        found[target.name].give(2)
    yield found
    for target in TARGETS:
        devcluster.down(f"fournos-{target.name}", progress=Progress(quiet=True))


@dataclass(frozen=True)
class Person:
    """Runs commands at the root of the repository with `oc`, `fournos` and three kubeconfigs."""

    hub: Hub
    directory: Path

    def __call__(self, script: str, *, fails: bool = False, cwd: Path = ROOT, limit: float = 90.0) -> str:
        """Returns the output of a command; raises an error with its message on failure."""
        path = f"{self.directory / 'bin'}:{os.environ['PATH']}"
        done = subprocess.run(
            ["bash", "-ec", script],
            cwd=cwd,
            env={**os.environ, "PATH": path, "KUBECONFIG": str(self.hub.kubeconfig), "PYTHONPATH": "src"},
            capture_output=True,
            text=True,
            timeout=limit,
            check=False,
        )
        assert (done.returncode != 0) == fails, f"{script}\n{done.stdout}\n{done.stderr}"
        return done.stdout + (done.stderr if fails else "")

    def sees(self, script: str, *wanted: str, limit: float = LIMIT) -> str:
        """Looks until all of it is shown."""
        shown = [""]

        def look() -> bool:
            shown.append(self(script))
            return all(text in shown[-1] for text in wanted)

        self.hub.until(look, lambda: f"{script}\nshows\n{shown[-1]}\nand not {wanted}", timeout=limit)
        return shown[-1]

    # --- what is there ---

    def cluster(self, name: str) -> dict[str, Any]:
        """Empty if there is none."""
        shown = self.hub.run("get", "fournoscluster", name, "-o", "json", "--ignore-not-found")
        return json.loads(shown) if shown else {}

    def condition(self, name: str, type_: str) -> dict[str, Any]:
        conditions = (self.cluster(name).get("status") or {}).get("conditions") or ()
        return next((found for found in conditions if found["type"] == type_), {})

    def until_condition(self, name: str, type_: str, status: str, *, limit: float = LIMIT) -> dict[str, Any]:
        return self.hub.until(  # type: ignore[no-any-return]
            lambda: (found := self.condition(name, type_)).get("status") == status and found,
            lambda: f"{name} is not {type_}={status}: {json.dumps(self.cluster(name).get('status'))}",
            timeout=limit,
        )

    def quotas(self) -> dict[str, dict[str, int]]:
        queue = json.loads(self.hub.kubectl("get", "clusterqueue", "fournos-queue", "-o", "json"))
        return {
            entry["name"]: {quota["name"]: int(quota["nominalQuota"]) for quota in entry["resources"]}
            for group in queue["spec"]["resourceGroups"]
            for entry in group["flavors"]
        }


@pytest.fixture(scope="package")
def person(targets: dict[str, Target], tmp_path_factory: pytest.TempPathFactory) -> Iterator[Person]:
    directory = tmp_path_factory.mktemp("person")
    progress = Progress()
    where = Where(
        os.environ.get("FOURNOS_TEST_HUB", WHERE.cluster), JOBS, SECRETS, operator_namespace=OPERATOR
    )
    cluster = prepare(where, progress)
    image = operator_image(progress)
    cluster.load(image.archive, progress=progress)
    retag(image.archive, IMAGES, directory / "hearth.tar")
    cluster.load(directory / "hearth.tar", progress=progress)
    # Hearth's README makes Secrets without a list.
    operator.deploy(cluster, image, where, replicas=1, settings={"FOURNOS_SECRET_POLICY": "open"})
    (directory / "bin").mkdir()
    programs = {"oc": cluster.kubectl_words(), "fournos": [sys.executable, "-m", "fournos"]}
    for name, words in programs.items():
        program = directory / "bin" / name
        program.write_text(f'#!/bin/sh\nexec {shlex.join(words)} "$@"\n')
        program.chmod(0o755)
    for target in targets.values():
        shutil.copy(target.kubeconfig, directory / f"{target.name}-kubeconfig")
    person = Person(Hub(cluster.kubeconfig_path, "hearth", SECRETS), directory)
    person("oc delete clusterrolebinding hearth --ignore-not-found")
    person("oc apply -f deploy/deployment.yaml -f deploy/clusterrole.yaml")
    person("oc rollout status deployment/hearth -n hearth --timeout=180s", limit=200)
    yield person
    _leave(person)


def _leave(person: Person) -> None:
    """Nothing of these tests is left in the hub that others use, whatever has happened."""
    hub = person.hub
    for target in TARGETS:
        words = ("delete", "secret", f"kubeconfig-{target.name}", "-n", SECRETS, "--ignore-not-found")
        hub.kubectl(*words)
    hub.kubectl("delete", "fournosjobs", "--all", "-n", JOBS, "--wait=false")
    hub.kubectl("delete", "workloads", "--all", "-n", JOBS, "--wait=false")
    hub.run("delete", "fournosclusters", "--all", "--wait=true", "--timeout=180s", check=False)
    hub.kubectl("delete", "clusterrole,clusterrolebinding", "hearth")
    hub.kubectl("delete", "namespace", "hearth", JOBS, OPERATOR, "--wait=false")
    names = (
        f"clusterrolebinding/fournos-queue-reader-{JOBS}",
        f"validatingwebhookconfiguration/fournos-jobs-{JOBS}",
    )
    hub.kubectl("delete", *names, "--ignore-not-found")
