"""From the published operator to this one: the commands of the page, and what was under way."""

from __future__ import annotations

import os
import re
import subprocess
from pathlib import Path

import pytest

from devcluster.existing import kubectl_program
from fournos.api.kinds import FOURNOS_JOB, PIPELINE_RUN
from fournos.engine.kube.client import Client
from fournos.engine.kube.resource import Key, uid_of
from fournos.engine.queueing.kinds import WORKLOAD
from tests.integration.jobs.stage import JobStage

ROOT = Path(__file__).parents[3]
KOPF = "kopf.zalando.org/"
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


async def as_the_published_operator_leaves_it(stage: JobStage, name: str) -> None:
    """A job that runs: its status counts no attempts, and kopf's marks are on it."""
    status = await stage.status(name)
    kept = ("phase", "cluster", "pipelineRun", "message", "conditions")
    gone = {field: None for field in status if field not in kept}
    await stage.patch(FOURNOS_JOB, name, {"status": gone}, subresource="status")
    marks = {
        "finalizers": [f"{KOPF}KopfFinalizerMarker"],
        "annotations": {f"{KOPF}last-handled-configuration": "{}"},
    }
    await stage.patch(FOURNOS_JOB, name, {"metadata": marks})


async def delete(stage: JobStage, name: str) -> None:
    job = await stage.get(FOURNOS_JOB, name)
    await stage.client.delete(FOURNOS_JOB, Key(stage.namespace, name), uid=uid_of(job))


async def test_jobs_under_way_are_taken_over(stage: JobStage) -> None:
    names = ("done", "stopped", "deleted", "being-deleted")
    stage.executors.held.update(names)
    operator = await stage.leading()
    for name in names:
        await stage.submit(name)
        await stage.phase(name, "Running")
    await stage.kill(operator)
    for name in names:
        await as_the_published_operator_leaves_it(stage, name)
    await delete(stage, "being-deleted")
    before = {name: (await stage.get(PIPELINE_RUN, name))["metadata"]["uid"] for name in names}
    workload = (await stage.get(WORKLOAD, "done"))["metadata"]["uid"]

    await stage.leading()

    async def taken_over() -> bool:
        return all([(await stage.status(name)).get("attempt") == 1 for name in names[:3]])

    await stage.until(taken_over, "not taken over")
    assert KOPF not in str((await stage.get(FOURNOS_JOB, "done"))["metadata"].get("finalizers"))
    assert (await stage.get(WORKLOAD, "done"))["metadata"]["uid"] == workload
    after = {name: (await stage.get(PIPELINE_RUN, name))["metadata"]["uid"] for name in names[:3]}
    assert after == {name: before[name] for name in names[:3]}
    await stage.patch(FOURNOS_JOB, "stopped", {"spec": {"shutdown": "Stop"}})
    await stage.phase("stopped", "Stopped")
    await delete(stage, "deleted")

    async def gone() -> bool:
        jobs = await stage.client.list(FOURNOS_JOB, namespace=stage.namespace)
        return not {job["metadata"]["name"] for job in jobs.items} & {"deleted", "being-deleted"}

    await stage.until(gone, "the deleted jobs stay")
    stage.executors.finish("done")
    await stage.phase("done", "Succeeded")
    for name, end in (("stopped", "CancelledRunFinally"), ("done", None)):
        assert (await stage.get(PIPELINE_RUN, name))["spec"].get("status") == end
    await stage.good_end({"done": "Succeeded", "stopped": "Stopped"}, runs=sorted(names))


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
