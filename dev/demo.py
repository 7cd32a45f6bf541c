"""`make demo`: a local cluster, the operator and the history in it, one job followed to its end, the page."""

from __future__ import annotations

import asyncio
import sys
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from functools import partial

from dev import demo_jobs, demo_schedule, endings, history, operator, page
from dev.demo_jobs import Ran
from dev.endings import evidence
from dev.image import Image, operator_image
from dev.setup import CONTINUES, Where, arguments, check_machine, engine_of, prepare, where_of
from devcluster import Cluster, DevclusterError
from devcluster.progress import Progress

DEMO_NAMESPACE = "fournos-demo"


def run(where: Where, progress: Progress, *, pushed: str = "") -> int:
    """Runs the demo and returns the exit code.

    `pushed` is an operator image that the cluster can pull.  Without it an image is built and loaded.
    """
    if where.provider == "existing" and not pushed:
        raise DevclusterError(
            "No image can be loaded into an existing cluster: name an operator's that it can pull",
            hint="Push what `make docker-build` makes, and add --image.",
        )
    check_machine(where, progress)
    engine = engine_of(where.provider)
    progress.print("1/5  A local Kubernetes with Kueue, Tekton and four mock clusters; the operator's image")
    pool = ThreadPoolExecutor(max_workers=1)
    try:
        # The image does not need the cluster, so it is built at the same time.
        building = None if pushed else pool.submit(operator_image, progress, engine)
        cluster = prepare(where, progress)
        image = building.result() if building else pushed
    finally:
        # A cluster that fails is reported at once; the image is then made to its end, for the next time.
        pool.shutdown(wait=False, cancel_futures=True)
    progress.print(
        f"2/5  The operator, in namespace {where.operator_namespace}; its jobs are in {where.namespace}"
    )
    if isinstance(image, Image):
        cluster.load(image.archive, progress=progress)
    with progress.step("Two replicas become ready", usual="15 s"):
        # A job is deleted after its ttl when the history has recorded its end.
        operator.deploy(cluster, image, where, settings={"FOURNOS_HISTORY_ENABLED": "true"})
    progress.print(f"3/5  The history, in namespace {history.HOME}")
    with progress.step("Its store and its API answer", usual="15 s"):
        history.deploy(cluster, image)
    progress.print("4/5  A job: dev/sample-job.yaml; beside it the same again, and a slower one to compare")
    with evidence(lambda: f"{operator.pods(cluster, where.operator_namespace)}\n{history.pods(cluster)}"):
        ran, jobs = asyncio.run(demo_jobs.run(cluster.kubeconfig_path, where.namespace, progress))
    progress.print("5/5  The page, on this machine")
    with progress.step("It answers", usual="5 s"):
        address = page.deploy(cluster, where.namespace)
    demo_schedule.deploy(cluster, where.namespace)
    print("\n" + "\n".join(f"{job['metadata']['name']}: {job['status']['phase']}" for job in jobs))
    print(_next_steps(cluster, where, ran, address))
    return 0 if all(job["status"]["phase"] == "Succeeded" for job in jobs) else 1


def _next_steps(cluster: Cluster, where: Where, ran: Ran, address: str) -> str:
    name, again = ran.followed, (*ran.others, ran.followed)[0]
    fournos = ".venv/bin/fournos"
    steps = (
        (f"{fournos} list", "the jobs"),
        (f"{fournos} get {name}", "one of them, with what it measured"),
        (f"{fournos} compare {name} {again} {ran.slow}", "three beside each other"),
        (f"{fournos} trend {name}", "its KPIs over all comparable runs"),
        (f"{fournos} explain demo-waiting", "why a job waits"),
        (
            f"{fournos} schedule get {demo_schedule.NAME}",
            "a benchmark each hour, next in seconds",
        ),
        (f"{fournos} submit -f dev/sample-job.yaml", "another one; from ten on, changes are judged"),
        (f"kubectl get fournosjobs,workloads,pipelineruns -n {where.namespace}", "what Kubernetes sees"),
        ("make test", "lint, and all tests of the product"),
        ("make dev-teardown", "remove the cluster, and the page with it"),
    )
    width = max(len(command) for command, _ in steps)
    lines = "\n".join(f"  {command:<{width}}  {what}" for command, what in steps)
    return f"""
All of it in a browser, until the cluster ends; the address holds a token, and whoever knows it acts as you:
  {address}

What next
  export KUBECONFIG={cluster.kubeconfig_path} FOURNOS_NAMESPACE={where.namespace}
{lines}
"""


def main() -> int:
    parser = arguments("A local cluster, the operator and the history in it, one job followed to its end.")
    parser.add_argument("--image", default="", help="operator that the cluster can pull (existing clusters)")
    parsed = parser.parse_args()
    where = where_of(parsed, namespace=DEMO_NAMESPACE)
    where = replace(where, operator_namespace=f"{where.namespace}-operator")
    go_on = (
        f"To go on: make demo. {CONTINUES}\n"
        f"To see what runs: .venv/bin/python -m devcluster status {where.cluster}"
    )
    return endings.run(partial(run, where, Progress(), pushed=parsed.image), go_on=go_on)


if __name__ == "__main__":
    sys.exit(main())
