"""From the published operator to this one: the commands of the page, and what was under way."""

from __future__ import annotations

import os
import re
import subprocess
from pathlib import Path

import pytest

from devcluster.existing import kubectl_program
from fournos.api.kinds import FOURNOS_JOB
from fournos.engine.kube.client import Client
from fournos.engine.kube.resource import Key, uid_of

ROOT = Path(__file__).parents[3]
PUBLISHED = """
apiVersion: apps/v1
kind: Deployment
metadata:
  name: fournos
  labels: {app: fournos}
spec:
  replicas: 1
  selector:
    matchLabels: {app: fournos}
  template:
    metadata:
      labels: {app: fournos}
    spec:
      containers:
        - name: fournos
          image: quay.io/rh_perfscale/fournos:latest
          ports:
            - {containerPort: 8080, name: health}
"""
"""The parts that decide what may be applied over it."""


@pytest.mark.usefixtures("crds")
async def test_the_commands_of_the_page(
    client: Client, namespace: str, kubeconfig: Path, tmp_path: Path
) -> None:
    """What `kubectl apply` alone would do is refused; with the page's commands it is our Deployment."""
    page = (ROOT / "docs/fournos.md").read_text(encoding="utf-8")
    (commands,) = re.findall(r"## Moving from the published operator\n.*?```bash\n(.*?)```", page, re.DOTALL)
    (tmp_path / "kubectl").write_text(f'#!/bin/sh\nexec {" ".join(kubectl_program())} "$@"\n')
    (tmp_path / "kubectl").chmod(0o755)
    environment = {
        **os.environ,
        "PATH": f"{tmp_path}:{os.environ['PATH']}",
        "KUBECONFIG": str(kubeconfig),
        "FOURNOS_NAMESPACE": namespace,
        "FOURNOS_CONTROLLER_NAMESPACE": namespace,
    }

    def bash(script: str, **kwargs: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            ["bash", "-euc", script],
            env=environment,
            cwd=ROOT,
            capture_output=True,
            text=True,
            timeout=400,
            check=False,
            **kwargs,
        )

    done = bash("kubectl apply -n $FOURNOS_NAMESPACE -f -", input=PUBLISHED)
    assert done.returncode == 0, done.stderr
    alone = bash("kubectl apply -n $FOURNOS_NAMESPACE -f manifests/deployment.yaml")
    assert alone.returncode != 0
    assert "field is immutable" in alone.stderr
    spec = {"cluster": "cluster-1", "executionEngine": {"forge": {}}}
    job = {"metadata": {"name": "waiting", "namespace": namespace}, "spec": spec}
    waiting = await client.create(
        FOURNOS_JOB, {"apiVersion": FOURNOS_JOB.api_version, "kind": FOURNOS_JOB.kind, **job}
    )
    moved = bash(commands)
    assert moved.returncode == 0, moved.stderr
    selector = bash("kubectl get deployment fournos -n $FOURNOS_NAMESPACE -o jsonpath='{.spec.selector}'")
    assert selector.stdout == '{"matchLabels":{"app.kubernetes.io/name":"fournos"}}'
    assert uid_of(await client.get(FOURNOS_JOB, Key(namespace, "waiting"))) == uid_of(waiting)
