"""`make demo`: a local cluster, the operator in it, one job followed to its end."""

from __future__ import annotations

import asyncio
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from dev import operator, resources
from dev.image import Image, operator_image
from dev.setup import Where, arguments, engine_of, prepare, where_of
from devcluster import Cluster, DevclusterError
from devcluster.progress import Progress
from fournos.api.phase import TERMINAL
from fournos.jobs.kinds import FOURNOS_JOB
from fournos.kube.client import Client
from fournos.kube.credentials import load
from fournos.kube.errors import KubeError
from fournos.kube.resource import Obj, key_of

DEMO_NAMESPACE = "fournos-demo"
JOB_LIMIT = 180.0


def run(where: Where, progress: Progress, *, pushed: str = "") -> int:
    """Runs the demo and returns the exit code.

    `pushed` is an operator image that the cluster can pull.  Without it an image is built and loaded.
    """
    if where.provider == "existing" and not pushed:
        raise DevclusterError(
            "No image can be loaded into an existing cluster: name an operator's that it can pull",
            hint="Push what `make docker-build` makes, and add --image.",
        )
    engine = engine_of(where.provider)
    progress.print("1/3  A local Kubernetes with Kueue, Tekton and four mock clusters; the operator's image")
    with ThreadPoolExecutor(max_workers=1) as pool:
        # The image does not need the cluster, so it is built at the same time.
        building = None if pushed else pool.submit(operator_image, progress, engine)
        cluster = prepare(where, progress)
        image = building.result() if building else pushed
    progress.print(f"2/3  The operator, in namespace {where.namespace}")
    if isinstance(image, Image):
        cluster.load(image.archive, progress=progress)
    with progress.step("Two replicas become ready", usual="15 s"):
        operator.deploy(cluster, image, namespace=where.namespace, secrets_namespace=where.secrets_namespace)
    progress.print("3/3  A job: dev/sample-job.yaml")
    (sample,) = resources.load("dev/sample-job.yaml")
    final = asyncio.run(_submit(cluster.kubeconfig_path, sample, where.namespace, progress))
    phase = final["status"]["phase"]
    _next_steps(cluster, where, final)
    return 0 if phase == "Succeeded" else 1


async def _submit(kubeconfig: Path, sample: Obj, namespace: str, progress: Progress) -> Obj:
    async with Client(load(kubeconfig)) as api:
        body = {**sample, "metadata": {**sample["metadata"], "namespace": namespace}}
        created = await api.create(FOURNOS_JOB, body)
        try:
            async with asyncio.timeout(JOB_LIMIT):
                return await _follow(api, created, progress)
        except TimeoutError:
            last = await api.get(FOURNOS_JOB, key_of(created))
            status = last.get("status") or {}
            raise DevclusterError(
                f"The job is not done after {JOB_LIMIT:g} s; phase {status.get('phase')}:"
                f" {status.get('message')}"
            ) from None


async def _follow(api: Client, job: Obj, progress: Progress) -> Obj:
    """Prints each new phase and message until the job has ended.  Returns the job."""
    key, started, shown = key_of(job), time.monotonic(), ("", "")
    progress.print(f"     FournosJob {key.name}")
    while True:
        version = str(job["metadata"]["resourceVersion"])
        watch = api.watch(FOURNOS_JOB, namespace=key.namespace, resource_version=version)
        async for event in watch:
            if event.type != "MODIFIED" or key_of(event.object) != key:
                continue
            job = event.object
            shown = _show(job, shown, time.monotonic() - started, progress)
            if shown[0] in TERMINAL:
                return job
        # A watch may end before it delivers the last change, so the job is read again.
        job = await api.get(FOURNOS_JOB, key)
        shown = _show(job, shown, time.monotonic() - started, progress)
        if shown[0] in TERMINAL:
            return job


def _show(job: Obj, shown: tuple[str, str], elapsed: float, progress: Progress) -> tuple[str, str]:
    status = job.get("status") or {}
    now = (status.get("phase") or "", status.get("message") or "")
    if now != shown:
        cluster = f" on {status['cluster']}" if status.get("cluster") else ""
        progress.print(f"     {elapsed:5.1f} s  {now[0]:<10}{cluster}  {now[1]}")
    return now


def _next_steps(cluster: Cluster, where: Where, job: Obj) -> None:
    name = job["metadata"]["name"]
    print(
        f"""
{name}: {job["status"]["phase"]}

What next
  export KUBECONFIG={cluster.kubeconfig_path}
  .venv/bin/fournos list -n {where.namespace}                              the jobs
  .venv/bin/fournos submit -f dev/sample-job.yaml -n {where.namespace}     another one
  kubectl get fournosjobs,workloads,pipelineruns -n {where.namespace}      what Kubernetes sees
  make test                                                    everything that continuous integration checks
  make dev-teardown                                            remove the cluster
"""
    )


def main() -> int:
    parser = arguments("A local cluster, the operator in it, one job followed to its end.")
    parser.add_argument("--image", default="", help="operator that the cluster can pull (existing clusters)")
    parsed = parser.parse_args()
    try:
        return run(where_of(parsed, namespace=DEMO_NAMESPACE), Progress(), pushed=parsed.image)
    except (DevclusterError, KubeError) as error:
        print(f"error: {error}", file=sys.stderr)
        return 1


if __name__ == "__main__":
    sys.exit(main())
