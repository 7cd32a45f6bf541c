"""MiniClusters as their users see them: kubectl, real pods, and a stand-in for flux in them."""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import yaml

from fournos.systems.miniclusters import names
from tests.e2e.hub import Hub

KIND = "miniclusters.flux-framework.org"
QUEUE = "hpc"
LIMIT = 300.0
"""Seconds that pods may take to start on a busy machine."""


@dataclass(frozen=True)
class Clusters(Hub):
    """The namespace of these tests."""

    image: str = ""
    """Of the application, with the stand-in on its PATH."""

    def manifest(self, name: str, *, queue: str = "", priority: str = "", **spec: Any) -> dict[str, Any]:
        """Returns a MiniCluster of two quiet pods with flux in the image, unless `spec` overrides it."""
        container = {"image": self.image, **spec.pop("container", {})}
        flux = {"container": {"image": self.image, "disable": True}, **spec.pop("flux", {})}
        labels = {"kueue.x-k8s.io/queue-name": queue} if queue else {}
        if priority:
            labels["kueue.x-k8s.io/priority-class"] = priority
        return {
            "apiVersion": "flux-framework.org/v1alpha2",
            "kind": "MiniCluster",
            "metadata": {"name": name, "labels": labels},
            "spec": {
                "size": 2,
                "logging": {"quiet": True},
                **spec,
                "flux": flux,
                "containers": [container, *spec.get("containers", ())],
            },
        }

    def make(self, name: str, **options: Any) -> str:
        self.run("create", "-f", "-", stdin=yaml.safe_dump(self.manifest(name, **options)))
        return name

    def stand(self, name: str) -> dict[str, Any]:
        """Its status."""
        return self.get(KIND, name).get("status") or {}

    def reaches(self, name: str, phase: str, *, limit: float = LIMIT, **fields: Any) -> dict[str, Any]:
        """The status once the phase, and these fields of it, are so."""
        wanted, end = {"phase": phase, **fields}, time.monotonic() + limit
        while (left := end - time.monotonic()) > 0:
            status = self.stand(name)
            others = [key for key, value in wanted.items() if status.get(key) != value]
            if not others:
                return status
            self.sees_field(f"{KIND}/{name}", f".status.{others[0]}", wanted[others[0]], limit=left)
        raise AssertionError(f"{name} is not {phase} {fields}: {self.explain(name)}")

    def sees_field(self, what: str, path: str, value: Any, *, limit: float) -> None:
        """Waits until a field has this value, or for so long: one process that watches takes less of a small
        machine than many that look."""
        words = ("wait", what, f"--for=jsonpath={{{path}}}={value}", f"--timeout={limit:.0f}s")
        self.run(*words, check=False, timeout=limit + 30)

    def completed(self, name: str, indexes: str, *, limit: float = LIMIT) -> None:
        """Its Job counts these indexes as done."""
        self.sees_field(f"job/{name}", ".status.completedIndexes", indexes, limit=limit)
        words = ("get", "job", name, "-o", "jsonpath={.status.completedIndexes}")
        assert self.run(*words) == indexes, self.explain(name)

    def explain(self, name: str) -> str:
        selector = f"{names.MINICLUSTER_LABEL}={name}"
        pods = self.run("get", "pods", "-l", selector, "-o", "wide", check=False)
        logs = self.run("logs", "-l", selector, "--all-containers", "--prefix", "--tail=15", check=False)
        return f"{json.dumps(self.stand(name))}\n{pods}\n{logs}"

    def pods(self, name: str) -> list[dict[str, Any]]:
        """Of its Job, by index."""
        found = self.list("pods", selector=f"{names.MINICLUSTER_LABEL}={name},{names.COMPLETION_INDEX_LABEL}")
        return sorted(found, key=lambda pod: int(pod["metadata"]["labels"][names.COMPLETION_INDEX_LABEL]))

    def alive(self, name: str) -> list[dict[str, Any]]:
        over = ("Succeeded", "Failed")
        return [pod for pod in self.pods(name) if pod["status"]["phase"] not in over]

    def lead(self, name: str) -> dict[str, Any]:
        return self.alive(name)[0]

    def log(self, name: str) -> str:
        """Of the lead broker."""
        selector = f"{names.MINICLUSTER_LABEL}={name},{names.COMPLETION_INDEX_LABEL}=0"
        return self.run("logs", "-l", selector, "-c", name, "--tail=-1")

    def flux(self, name: str, command: str, *, check: bool = True) -> str:
        """Runs a command in the lead's pod, connected as the documentation page describes."""
        code = f'. /mnt/flux/flux-view.sh && flux proxy "$fluxsocket" bash -c {json.dumps(command)}'
        pod = self.lead(name)["metadata"]["name"]
        return self.run("exec", pod, "-c", name, "--", "bash", "-c", code, check=check)

    def sees(self, name: str, free: int, *, limit: float = LIMIT) -> None:
        """Flux has as many ranks that take tasks."""
        command = "flux resource list -n -s free -o '{nnodes}'"
        self.until(
            lambda: self.flux(name, command).strip() == str(free),
            lambda: f"not {free} free: {self.flux(name, 'flux resource list; flux resource drain')}",
            timeout=limit,
        )

    def gone(self, what: Callable[[], Any], *, limit: float = LIMIT) -> None:
        self.until(lambda: not what(), lambda: f"still there: {what()}", timeout=limit)
