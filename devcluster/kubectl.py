"""Runs kubectl against one cluster, with a time limit for each call, and waits for conditions."""

from __future__ import annotations

import json
import subprocess
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from devcluster.errors import CommandFailedError, DevclusterError
from devcluster.shell import run


@dataclass(frozen=True)
class Kubectl:
    """kubectl for one cluster.

    `program` is the command that runs kubectl. `cache` is its discovery cache, outside of the home directory.
    `environment` is added to the environment of what `run` starts.
    """

    program: Sequence[str]
    kubeconfig: Path
    cache: Path | None = None
    environment: Mapping[str, str] = field(default_factory=dict)

    def words(self, *arguments: str) -> list[str]:
        cache = [f"--cache-dir={self.cache}"] if self.cache else []
        return [*self.program, f"--kubeconfig={self.kubeconfig}", *cache, *arguments]

    def run(
        self, *arguments: str, stdin: str | None = None, limit: float = 60.0, check: bool = True
    ) -> subprocess.CompletedProcess[str]:
        return run(self.words(*arguments), stdin=stdin, limit=limit, check=check, env=self.environment)

    def json(self, *arguments: str, limit: float = 60.0) -> Any:
        return json.loads(self.run(*arguments, "-o", "json", limit=limit).stdout)

    def answers(self, path: str) -> bool:
        """True if a GET of `path` on the API server succeeds."""
        try:
            return (
                self.run("get", "--raw", path, "--request-timeout=2s", limit=10, check=False).returncode == 0
            )
        except CommandFailedError:
            return False

    def apply(self, text: str, *, limit: float = 180.0) -> None:
        """Applies the objects server-side, with forced ownership of conflicting fields."""
        self.run("apply", "--server-side", "--force-conflicts", "-f", "-", stdin=text, limit=limit)

    def accepts(self, text: str) -> bool:
        """Raises CommandFailedError if the API server or a webhook refuses a dry-run creation."""
        self.run("create", "--dry-run=server", "-f", "-", stdin=text, limit=30)
        return True

    def deployments_available(self, namespace: str) -> bool:
        """True if `namespace` has Deployments and all are available at their newest generation."""
        items = self.json("-n", namespace, "get", "deployments", limit=20)["items"]
        return bool(items) and all(rolled_out(item) for item in items)


def rolled_out(deployment: dict[str, Any]) -> bool:
    """Returns whether the controller has seen this generation, and only its pods are there and available."""
    status = deployment.get("status") or {}
    replicas = deployment["spec"].get("replicas", 1)
    counts = (status.get(field, 0) for field in ("replicas", "updatedReplicas", "availableReplicas"))
    seen = status.get("observedGeneration", 0) >= deployment["metadata"]["generation"]
    return seen and all(count == replicas for count in counts)


def await_established(
    kubectl: Sequence[str], *, limit: float = 60.0, environment: Mapping[str, str] | None = None
) -> None:
    """Waits until the API server serves every CustomResourceDefinition; `kubectl` is the command to run.

    Each must be in the discovery, too, which follows the condition some time later: `kubectl apply` and the
    components that start next find kinds there.

    `kubectl wait` is not used: it fails at once on a definition that was just created and has no condition
    yet (".status.conditions accessor error").  Raises DevclusterError.
    """
    conditions = '{.status.conditions[?(@.type=="Established")].status}'
    path = f'{{range .items[*]}}{{.metadata.name}} {conditions} {{.spec.versions[*].served}}{{"\\n"}}{{end}}'
    definitions = [*kubectl, "get", "customresourcedefinitions", "-o", f"jsonpath={path}"]

    def established() -> bool:
        rows = [line.split() for line in run(definitions, limit=30, env=environment).stdout.splitlines()]
        if not rows or not all(row[1:2] == ["True"] for row in rows):
            return False
        # It fails if an aggregated API does not answer, and lists all others.
        discovery = run([*kubectl, "api-resources", "-o", "name"], limit=30, check=False, env=environment)
        return {row[0] for row in rows if "true" in row[2:]} <= set(discovery.stdout.splitlines())

    wait_until("definitions of resources established", established, limit=limit)


def wait_until(
    what: str,
    ready: Callable[[], bool],
    *,
    limit: float,
    every: float = 0.25,
    meanwhile: Callable[[], None] = lambda: None,
    evidence: Callable[[], str] = lambda: "",
) -> None:
    """Waits until `ready` returns True. `meanwhile` may raise to end the wait early (a process died).

    A DevclusterError of `ready` is not an end: an API server that just started, or has much to do, refuses
    requests for a while.  Raises DevclusterError after `limit` seconds, with `evidence` or that last error.
    """
    deadline = time.monotonic() + limit
    while True:
        refused = ""
        try:
            if ready():
                return
        except DevclusterError as error:
            refused = str(error)
        meanwhile()
        if time.monotonic() > deadline:
            raise DevclusterError(f"{what}: not within {limit:.0f} s", evidence=evidence() or refused)
        time.sleep(every)
