"""What the stories are made of: manifests, and a hub with commands for AppWrappers."""

from __future__ import annotations

import json
import os
import subprocess
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from tests.e2e.hub import Hub
from tests.waiting import LIMIT

IMAGE = "busybox:1.36"
"""What the local cluster has without a registry."""
QUEUE = "user-queue"
GPU = "nvidia.com/gpu"
ANNOTATION = "workload.codeflare.dev.appwrapper/"


def pod_spec(command: str, *, memory: str = "16Mi", gpus: str = "", restart: str = "Never") -> dict[str, Any]:
    """Memory is what the queue is short of: the node has plenty."""
    limits = {GPU: gpus} if gpus else {}
    container = {
        "name": "main",
        "image": IMAGE,
        "imagePullPolicy": "IfNotPresent",
        "command": ["sh", "-c", command],
        "resources": {"requests": {"cpu": "10m", "memory": memory, **limits}, "limits": limits},
    }
    return {"restartPolicy": restart, "terminationGracePeriodSeconds": 1, "containers": [container]}


def pod(name: str, command: str = "sleep 600", **resources: str) -> dict[str, Any]:
    labels = {"app": name}
    meta = {"name": name, "labels": labels}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": meta, "spec": pod_spec(command, **resources)}


def job(name: str, command: str, **spec: Any) -> dict[str, Any]:
    body = {**spec, "template": {"spec": pod_spec(command)}}
    return {"apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": name}, "spec": body}


def service(name: str, app: str) -> dict[str, Any]:
    spec = {"selector": {"app": app}, "ports": [{"port": 80}]}
    return {"apiVersion": "v1", "kind": "Service", "metadata": {"name": name}, "spec": spec}


def deployment(name: str, replicas: int) -> dict[str, Any]:
    labels = {"app": name}
    template = {"metadata": {"labels": labels}, "spec": pod_spec("sleep 600", restart="Always")}
    spec = {"replicas": replicas, "selector": {"matchLabels": labels}, "template": template}
    return {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": name}, "spec": spec}


def wrapper(
    name: str,
    *templates: Mapping[str, Any],
    labels: Mapping[str, str] | None = None,
    **annotations: str,
) -> dict[str, Any]:
    marks = {ANNOTATION + key: value for key, value in annotations.items()}
    return {
        "apiVersion": "workload.codeflare.dev/v1beta2",
        "kind": "AppWrapper",
        "metadata": {
            "name": name,
            "labels": {"kueue.x-k8s.io/queue-name": QUEUE, **(labels or {})},
            "annotations": marks,
        },
        "spec": {"components": [{"template": dict(one)} for one in templates]},
    }


class Stories(Hub):
    """In a namespace of their own."""

    def phase(self, name: str, *phases: str, timeout: float = LIMIT) -> dict[str, Any]:
        """The AppWrapper, once it is in one of these phases."""
        return self.until(  # type: ignore[no-any-return]
            lambda: (
                (found := self.get("appwrapper", name)).get("status", {}).get("phase") in phases and found
            ),
            lambda: f"{name} is not {' or '.join(phases)}: {json.dumps(self.get('appwrapper', name))[:3000]}",
            timeout=timeout,
        )

    @contextmanager
    def watching(self, kind: str) -> Iterator[Path]:
        """`kubectl get --watch` beside what happens; the file that it writes."""
        words = [*self.kubectl_words, "-n", self.namespace, "get", kind, "--watch"]
        with tempfile.NamedTemporaryFile(prefix=f"{kind}-") as table:
            process = subprocess.Popen(
                words, stdout=table, env={**os.environ, "KUBECONFIG": str(self.kubeconfig)}
            )
            try:
                yield Path(table.name)
            finally:
                process.terminate()
                process.wait()

    def condition_of(self, wrapper: Mapping[str, Any], type_: str) -> dict[str, Any]:
        conditions = (wrapper.get("status") or {}).get("conditions") or ()
        return next((one for one in conditions if one["type"] == type_), {})

    def ready(self, name: str, *, timeout: float = LIMIT) -> None:
        self.until(
            lambda: self.condition_of(self.get("appwrapper", name), "PodsReady").get("status") == "True",
            lambda: f"{name} does not get ready: {json.dumps(self.get('appwrapper', name))[:3000]}",
            timeout=timeout,
        )

    def live(self, *names: str) -> list[str]:
        """Pods of AppWrappers that have not ended, of all or of these."""
        found = self.list("pods", selector="workload.codeflare.dev/appwrapper")
        return [
            one["metadata"]["name"]
            for one in found
            if one["status"].get("phase") not in ("Succeeded", "Failed")
            and (not names or one["metadata"]["labels"]["workload.codeflare.dev/appwrapper"] in names)
        ]

    def gone(self, *names: str) -> None:
        self.until(lambda: not self.live(*names), lambda: f"pods stay: {self.live(*names)}")
