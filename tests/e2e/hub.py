"""A hub cluster as its users see it: kubectl, and nothing of the product in between."""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import yaml

from tests.e2e.reader import reader
from tests.waiting import LIMIT, blocking_until

ROOT = Path(__file__).resolve().parents[2]
LANE = os.environ.get("FOURNOS_LANE", "")
CLUSTER = f"fournos-test-{LANE}" if LANE else "fournos-test"
"""The full cluster of these tests; lanes that run side by side have one each."""
TERMINAL = ("Succeeded", "Failed", "Stopped")
MOCK_JOB = {
    "owner": "e2e",
    "pipeline": "fournos-run-only",
    "cluster": "cluster-1",
    "exclusive": False,
    "hardware": {"gpuType": "a100", "gpuCount": 1},
    "executionEngine": {"forge": {"project": "mock"}},
}
"""The spec of a job of seconds, which shares cluster-1."""


class RefusedError(Exception):
    """kubectl failed; the text is its error output."""


@dataclass(frozen=True)
class Hub:
    kubeconfig: Path
    namespace: str
    secrets_namespace: str = "psap-secrets"
    kubectl_words: tuple[str, ...] = ("kubectl",)
    operator_namespace: str = ""
    """"": that of the jobs, as with the published commands."""

    @property
    def operator(self) -> Hub:
        """The same hub in the operator's namespace."""
        return replace(self, namespace=self.operator_namespace or self.namespace)

    # --- kubectl -----------------------------------------------------------------------------------

    def kubectl(
        self, *words: str, stdin: str | None = None, timeout: float = 200.0, check: bool = True
    ) -> str:
        """Raises RefusedError with kubectl's error output."""
        done = subprocess.run(  # noqa: PLW1510 - the exit code is looked at below
            [*self.kubectl_words, *words],
            input=stdin,
            text=True,
            capture_output=True,
            timeout=timeout,
            env={**os.environ, "KUBECONFIG": str(self.kubeconfig)},
        )
        if check and done.returncode != 0:
            raise RefusedError(done.stderr.strip() or done.stdout.strip())
        outdated = [line for line in done.stderr.splitlines() if "deprecated" in line]
        assert not outdated, (words, outdated)
        return done.stdout

    def run(self, *words: str, **options: Any) -> str:
        """kubectl in the namespace of the jobs."""
        return self.kubectl("-n", self.namespace, *words, **options)

    def apply(self, *documents: Mapping[str, Any], namespace: str | None = None) -> None:
        text = yaml.safe_dump_all(documents)
        self.kubectl("-n", namespace or self.namespace, "apply", "-f", "-", stdin=text)

    def get(self, kind: str, name: str) -> dict[str, Any]:
        return self._read(kind, name) or dict(json.loads(self.run("get", kind, name, "-o", "json")))

    def list(self, kind: str, *, selector: str = "") -> list[dict[str, Any]]:
        words = ["get", kind, "-o", "json", *(["-l", selector] if selector else [])]
        found = self._read(kind, selector=selector) or json.loads(self.run(*words))
        return list(found["items"])

    def exists(self, kind: str, name: str) -> bool:
        if (found := self._read(kind, name)) is not None:
            return bool(found)
        return bool(self.run("get", kind, name, "--ignore-not-found", "-o", "name").strip())

    def _read(self, kind: str, name: str = "", *, selector: str = "") -> dict[str, Any] | None:
        """{} for what is not there, None where kubectl itself must be asked."""
        found = reader(self.kubeconfig, self.kubeconfig.stat().st_mtime_ns)
        return found.read(self.namespace, kind, name, selector=selector)

    # --- jobs --------------------------------------------------------------------------------------

    def submit(self, name: str, **spec: Any) -> str:
        """A FournosJob with the short mock pipeline, sharing cluster-1 unless `spec` overrides it."""
        whole = {**MOCK_JOB, **spec}
        kept = {key: value for key, value in whole.items() if value is not None}
        body = {
            "apiVersion": "fournos.dev/v1",
            "kind": "FournosJob",
            "metadata": {"name": name},
            "spec": kept,
        }
        self.run("create", "-f", "-", stdin=yaml.safe_dump(body))
        return name

    def status(self, name: str) -> dict[str, Any]:
        return self.get("fournosjob", name).get("status") or {}

    def wait(
        self, name: str, phases: Iterable[str] = TERMINAL, *, timeout: float = 2 * LIMIT
    ) -> dict[str, Any]:
        """The status once the job is in one of these phases; the assertion shows it otherwise."""
        wanted = tuple(phases)
        return self.until(
            lambda: (status := self.status(name)).get("phase") in wanted and status,
            lambda: f"{name} is not {' or '.join(wanted)}: {json.dumps(self.status(name))[:2000]}",
            timeout=timeout,
        )

    def until(self, look: Callable[[], Any], message: Callable[[], str], *, timeout: float = LIMIT) -> Any:
        return blocking_until(look, message, limit=timeout)

    def queue_active(self, name: str) -> None:
        """Waits until Kueue has seen a LocalQueue of the namespace."""

        def active() -> bool:
            conditions = self.get("localqueue", name).get("status", {}).get("conditions") or ()
            return any(one["type"] == "Active" and one["status"] == "True" for one in conditions)

        self.until(active, lambda: self.run("get", "localqueues", "-o", "yaml"))

    def shutdown(self, name: str, how: str) -> None:
        """Requests the shutdown as in the Fournos README."""
        patch = json.dumps({"spec": {"shutdown": how}})
        self.run("patch", "FournosJob", name, "--type", "merge", "-p", patch)

    def condition(self, name: str, type_: str) -> dict[str, Any]:
        conditions = self.status(name).get("conditions") or ()
        return next((c for c in conditions if c["type"] == type_), {})

    def task_pods(self, name: str) -> dict[str, dict[str, Any]]:
        """Pods of the job's PipelineRuns by pipeline task."""
        pods = self.list("pods", selector=f"fournos.dev/job-name={name}")
        return {
            pod["metadata"]["labels"]["tekton.dev/pipelineTask"]: pod
            for pod in pods
            if "tekton.dev/pipelineTask" in pod["metadata"]["labels"]
        }
