"""`make demo`: a local cluster, the operator and the history in it, one job followed to its end."""

from __future__ import annotations

import asyncio
import sys
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from dev import history, operator, resources
from dev.image import Image, operator_image
from dev.setup import Where, arguments, engine_of, prepare, where_of
from devcluster import Cluster, DevclusterError
from devcluster.progress import Progress
from fournos.api.kinds import FOURNOS_JOB
from fournos.api.phase import TERMINAL
from fournos.kube.client import Client
from fournos.kube.credentials import load
from fournos.kube.errors import KubeError
from fournos.kube.resource import Obj, key_of

DEMO_NAMESPACE = "fournos-demo"
JOB_LIMIT = 180.0
SLOW = "demo-slow-"
"""Prefix of a job whose mock benchmark is slower."""


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
    progress.print("1/4  A local Kubernetes with Kueue, Tekton and four mock clusters; the operator's image")
    with ThreadPoolExecutor(max_workers=1) as pool:
        # The image does not need the cluster, so it is built at the same time.
        building = None if pushed else pool.submit(operator_image, progress, engine)
        cluster = prepare(where, progress)
        image = building.result() if building else pushed
    progress.print(f"2/4  The operator, in namespace {where.namespace}")
    if isinstance(image, Image):
        cluster.load(image.archive, progress=progress)
    with progress.step("Two replicas become ready", usual="15 s"):
        operator.deploy(
            cluster,
            image,
            namespace=where.namespace,
            secrets_namespace=where.secrets_namespace,
            history=True,
        )
    progress.print(f"3/4  The history, in namespace {history.HOME}")
    with progress.step("Its API answers", usual="15 s"):
        history.deploy(cluster, image)
    progress.print("4/4  A job: dev/sample-job.yaml; beside it the same again, and a slower one to compare")
    (sample,) = resources.load("dev/sample-job.yaml")
    jobs = asyncio.run(_submit(cluster.kubeconfig_path, sample, where.namespace, progress))
    _next_steps(cluster, where, jobs)
    return 0 if all(job["status"]["phase"] == "Succeeded" for job in jobs) else 1


async def _submit(kubeconfig: Path, sample: Obj, namespace: str, progress: Progress) -> list[Obj]:
    """Submits three jobs and follows the first one.  Returns them when all are in the history."""
    prefixes = (sample["metadata"]["generateName"], sample["metadata"]["generateName"], SLOW)
    async with Client(load(kubeconfig)) as api:
        created = [
            await api.create(
                FOURNOS_JOB, {**sample, "metadata": {"generateName": prefix, "namespace": namespace}}
            )
            for prefix in prefixes
        ]
        try:
            async with asyncio.timeout(JOB_LIMIT):
                await _follow(api, created[0], progress)
                with progress.step("The other two end, and the history has all three", usual="10 s"):
                    return [await _recorded(api, job) for job in created]
        except TimeoutError:
            last = [await api.get(FOURNOS_JOB, key_of(job)) for job in created]
            states = [f"{key_of(job).name} {_state(job)}" for job in last]
            raise DevclusterError(
                f"The jobs are not done and recorded after {JOB_LIMIT:g} s: {'; '.join(states)}"
            ) from None


def _state(job: Obj) -> str:
    status = job.get("status") or {}
    recorded = "recorded" if status.get("archivedAt") else "not recorded"
    return f"{status.get('phase')} ({recorded}): {status.get('message')}"


async def _recorded(api: Client, job: Obj) -> Obj:
    """Returns the job when its end is in the history."""
    while True:
        found = await api.get(FOURNOS_JOB, key_of(job))
        if (found.get("status") or {}).get("archivedAt"):
            return found
        await asyncio.sleep(0.5)


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


def _next_steps(cluster: Cluster, where: Where, jobs: Sequence[Obj]) -> None:
    name, again, slow = (job["metadata"]["name"] for job in jobs)
    lines = [f"{job['metadata']['name']}: {job['status']['phase']}" for job in jobs]
    print("\n" + "\n".join(lines))
    print(
        f"""
What next
  export KUBECONFIG={cluster.kubeconfig_path} FOURNOS_NAMESPACE={where.namespace}
  .venv/bin/fournos web                                        all of it in a browser
  .venv/bin/fournos list                                       the jobs
  .venv/bin/fournos get {name}                             one of them, with what it measured
  .venv/bin/fournos compare {name} {again} {slow}    the three beside each other
  .venv/bin/fournos trend {name}                           its KPIs over all comparable runs
  .venv/bin/fournos submit -f dev/sample-job.yaml              another one; from ten on, changes are judged
  kubectl get fournosjobs,workloads,pipelineruns -n {where.namespace}      what Kubernetes sees
  make test                                                    everything that continuous integration checks
  make dev-teardown                                            remove the cluster
"""
    )


def main() -> int:
    parser = arguments("A local cluster, the operator and the history in it, one job followed to its end.")
    parser.add_argument("--image", default="", help="operator that the cluster can pull (existing clusters)")
    parsed = parser.parse_args()
    try:
        return run(where_of(parsed, namespace=DEMO_NAMESPACE), Progress(), pushed=parsed.image)
    except (DevclusterError, KubeError) as error:
        print(f"error: {error}", file=sys.stderr)
        return 1


if __name__ == "__main__":
    sys.exit(main())
