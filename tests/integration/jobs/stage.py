"""A namespace with all that a job needs, an operator behind a fault proxy, and what must hold in the end."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from fournos.api.kinds import FOURNOS_JOB
from fournos.engine.kube.client import Client
from fournos.engine.kube.errors import NotFoundError
from fournos.engine.kube.resource import LEASE, SECRET, Key, Resource
from fournos.engine.queueing.kinds import CLUSTER_QUEUE, LOCAL_QUEUE, WORKLOAD
from fournos.systems.jobs import names
from tests.faults.proxy import FaultProxy
from tests.faults.rules import Hold, RequestFault, Rule
from tests.integration.jobs.executors import Executors
from tests.integration.jobs.operator import Operator
from tests.integration.killing import WRITES, fail_all, hold_next_write
from tests.integration.stage import Stage
from tests.waiting import LIMIT

CLUSTERS = ("faults-1", "faults-2")
GPU, OTHER_GPU = "h200", "a100"
PIPELINE_NAME = "fournos-full"


class JobStage(Stage):
    """A namespace with all that a FournosJob needs, and operators behind a fault proxy."""

    def __init__(
        self, namespace: str, client: Client, proxy: FaultProxy, executors: Executors, directory: Path
    ) -> None:
        super().__init__(namespace, client)
        self.proxy = proxy
        self.executors = executors
        self.operators: list[Operator] = []
        self._directory = directory

    # --- the operator --------------------------------------------------------------------------------

    def launch(self, proxy: FaultProxy | None = None, **kwargs: Any) -> Operator:
        """Another operator process, behind the stage's proxy or another."""
        number = len(self.operators)
        kubeconfig = (proxy or self.proxy).write_kubeconfig(self._directory / f"kubeconfig-{number}")
        operator = Operator(kubeconfig, self.namespace, self._directory / f"operator-{number}.log", **kwargs)
        self.operators.append(operator)
        return operator

    async def leading(self, **kwargs: Any) -> Operator:
        """A new operator, once it leads."""
        operator = await self.launch(**kwargs).ready()
        await self.until(self.leader, "nobody leads")
        return operator

    async def leader(self) -> str:
        """Returns the holder of the lease, "" without one."""
        try:
            lease = await self.client.get(LEASE, Key(self.namespace, "fournos"))
        except NotFoundError:
            return ""
        return str((lease.get("spec") or {}).get("holderIdentity") or "")

    async def kill(self, operator: Operator) -> None:
        """kill -9, and its lease is taken away: the wait for it to expire has a test of its own."""
        operator.kill()
        with contextlib.suppress(NotFoundError):
            await self.client.delete(LEASE, Key(self.namespace, "fournos"))

    # --- faults --------------------------------------------------------------------------------------

    def fail_all(self, fault: RequestFault, *, verbs: Iterable[str] = WRITES) -> list[Rule]:
        return fail_all(self.proxy, fault, verbs=verbs)

    def hold_next_write(self) -> Hold:
        return hold_next_write(self.proxy)

    # --- users ---------------------------------------------------------------------------------------

    async def submit(self, name: str = "job", **spec: Any) -> str:
        """A job that shares a cluster with others."""
        whole: dict[str, Any] = {
            "pipeline": PIPELINE_NAME,
            "exclusive": False,
            "hardware": {"gpuType": GPU, "gpuCount": 1},
            "executionEngine": {"mock": {}},
            **spec,
        }
        spec = {field: value for field, value in whole.items() if value is not None}
        await self.client.create(FOURNOS_JOB, self.body(FOURNOS_JOB, name, spec=spec))
        return name

    def body(self, resource: Resource, name: str, **parts: Any) -> dict[str, Any]:
        metadata = {"name": name, "namespace": self.namespace, **parts.pop("metadata", {})}
        return {
            "apiVersion": resource.api_version,
            "kind": resource.kind,
            "metadata": metadata,
            **parts,
        }

    # --- looking -------------------------------------------------------------------------------------

    async def status(self, name: str = "job") -> dict[str, Any]:
        return dict((await self.get(FOURNOS_JOB, name)).get("status") or {})

    async def phase(self, name: str = "job", *phases: str, limit: float = LIMIT) -> dict[str, Any]:
        """Waits until the job is in one of these phases; its status then."""
        status: dict[str, Any] = {}

        async def there() -> bool:
            nonlocal status
            status = await self.status(name)
            return status.get("phase") in phases

        await self.until(there, f"{name} is not {' or '.join(phases)}", limit=limit)
        return status

    def logs(self) -> str:
        """Returns the jobs, the operators' logs and the last requests."""
        jobs = {job["metadata"]["name"]: job.get("status") for job in self.executors.all(FOURNOS_JOB)}
        logs = [f"--- {operator.log.name}\n{operator.tail()}" for operator in self.operators]
        calls = [f"{call.verb} {call.resource} {code}" for call, code in self.proxy.calls[-20:]]
        return "\n".join([json.dumps(jobs, indent=1), *logs, "--- last calls", *calls])

    async def good_end(self, jobs: dict[str, str], *, runs: Iterable[str]) -> None:
        """Each job in its phase; these PipelineRuns were made, no other and none twice; all quota is back."""
        for name, phase in jobs.items():
            await self.phase(name, phase)
        await self.until(self._released, "quota or finalizers are left")
        assert self.executors.problems == [], self.logs()
        assert sorted(self.executors.runs.values()) == sorted(runs), self.logs()

    async def _released(self) -> bool:
        if (await self.client.list(WORKLOAD, namespace=self.namespace)).items:
            return False
        for job in (await self.client.list(FOURNOS_JOB, namespace=self.namespace)).items:
            if names.FINALIZER in (job["metadata"].get("finalizers") or ()):
                return False
        return await self.used() == 0

    async def used(self) -> int:
        """Slots that Kueue counts as taken."""
        queue = await self.client.get(CLUSTER_QUEUE, Key("", self.namespace))
        return sum(
            int(resource["total"])
            for flavor in (queue.get("status") or {}).get("flavorsReservation") or ()
            for resource in flavor["resources"]
            if resource["name"] == names.SLOT_RESOURCE
        )

    async def secret(self, name: str) -> dict[str, str]:
        return dict((await self.get(SECRET, name))["data"])

    async def queue_active(self) -> bool:
        queue = await self.get(LOCAL_QUEUE, "fournos-queue")
        conditions = (queue.get("status") or {}).get("conditions") or ()
        return any(c["type"] == "Active" and c["status"] == "True" for c in conditions)
