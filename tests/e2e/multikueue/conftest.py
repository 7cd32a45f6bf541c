"""A manager without nodes, and a worker on which pods run; the operators are processes of this checkout.

FOURNOS_E2E_CLUSTER names another cluster of this machine, with pods, Kueue and Tekton, to be the worker.
"""

from __future__ import annotations

import json
import os
import uuid
from collections.abc import AsyncIterator, Iterator
from dataclasses import replace
from functools import partial
from pathlib import Path

import pytest

import devcluster
from bench.fleet import make
from dev import resources
from dev.setup import Where, install, prepare
from devcluster import Cluster
from devcluster.manifests import parse
from devcluster.progress import Progress
from devcluster.state import require
from fournos.engine.kube.client import Client
from fournos.engine.kube.credentials import load
from fournos.engine.kube.resource import NAMESPACE, SECRET
from fournos.insight.doctor_access import KUEUE_CONFIGURATION
from fournos.systems.multikueue import names
from tests.e2e.jobs.conftest import WHERE
from tests.fakes.flux_image import flux_image
from tests.integration.multikueue.fleet import MANAGER_CONFIG, TARGET, Fleet, Site

MANAGER = "fournos-test-manager"
SYSTEMS = "frameworks,jobs,appwrappers,miniclusters"
EXTERNAL = ["PipelineRun.v1.tekton.dev", "TaskRun.v1.tekton.dev"]
SHARED = {"APPWRAPPER_NAMESPACE": "appwrapper-system", "MINICLUSTER_NAMESPACE": "operator-system"}
"""Where the leases are of the operators that the worker may have already: there is only one at work."""


@pytest.fixture(scope="package")
def clusters() -> Iterator[dict[str, Cluster]]:
    progress = Progress()
    given = os.environ.get("FOURNOS_E2E_CLUSTER")
    worker = Cluster(require(given)) if given else prepare(WHERE, progress)
    worker.load(flux_image(progress).archive, progress=progress)
    resources.apply(worker, resources.load("deploy/kueue/rbac.yaml"))
    # Kueue leaves the pods of PipelineRuns alone (docs/frameworks.md); as shipped, 0.19 queues all pods.
    before = _configure_kueue(worker, EXTERNAL)
    manager = devcluster.ensure(MANAGER, profile="control-plane", kueue_config=MANAGER_CONFIG)
    yield {"manager": manager, "worker": worker}
    # Now and then Kueue refuses the first pod of a TaskRun that it does not know yet: not in others' tests.
    _configure_kueue(worker, before)


def _configure_kueue(worker: Cluster, kinds: list[str]) -> list[str]:
    """Lets Kueue know these kinds as those of another controller; returns those of before."""
    kueue = partial(resources.kubectl, worker, "--namespace", KUEUE_CONFIGURATION.namespace)
    name, file = KUEUE_CONFIGURATION.name, "controller_manager_config.yaml"
    configuration = parse(json.loads(kueue("get", "configmap", name, "--output", "json"))["data"][file])[0]
    integrations = configuration["integrations"]
    before: list[str] = integrations.get("externalFrameworks") or []
    if before == kinds:
        return before
    integrations["externalFrameworks"] = kinds
    kueue("patch", "configmap", name, "--patch", json.dumps({"data": {file: json.dumps(configuration)}}))
    deployment = "deployment/kueue-controller-manager"
    kueue("rollout", "restart", deployment)
    kueue("rollout", "status", deployment, "--timeout=120s", limit=150.0)
    return before


@pytest.fixture
async def fleet(clusters: dict[str, Cluster], tmp_path: Path) -> AsyncIterator[Fleet]:
    namespace = f"mk-e2e-{uuid.uuid4().hex[:6]}"
    there, here = clusters["worker"], clusters["manager"]
    async with Client(load(here.kubeconfig_path)) as manager, Client(load(there.kubeconfig_path)) as worker:
        sites = (
            Site("manager", here, manager, namespace),
            Site("worker", there, worker, namespace),
        )
        fleet = Fleet(sites[0], {"worker": sites[1]}, tmp_path)
        secrets = f"{namespace}-secrets"
        where = replace(WHERE, namespace=namespace, secrets_namespace=secrets, operator_namespace="")
        await _set_up(fleet, where)
        fleet.start()
        await fleet.staff(SYSTEMS, manager=f"{SYSTEMS},schedules", **SHARED)
        yield fleet
        await fleet.tear_down()
        await worker.delete(NAMESPACE, sites[1].key(where.secrets_namespace)._replace(namespace=""))


async def _set_up(fleet: Fleet, where: Where) -> None:
    await fleet.set_up(controller=names.CONTROLLER, cpu=2)
    for site in (fleet.manager, *fleet.workers.values()):
        for namespace in SHARED.values():
            await make(site.client, NAMESPACE, {"metadata": {"name": namespace}})
    for site in fleet.workers.values():
        # The resolver and the pipelines are mocks, and so is the cluster that they work on.
        install(site.cluster, where)
        meta = {"name": f"kubeconfig-{TARGET}", "namespace": where.secrets_namespace}
        body = {"metadata": meta, "stringData": {"kubeconfig": "# of the target"}}
        await make(site.client, SECRET, body)
