"""The operator is killed at writes that matter: nothing is lost, nothing made twice.

The stories of tests/unit/systems/appwrappers kill it after every write of an AppWrapper's life.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

import pytest

from fournos.api.kinds import APPWRAPPER
from fournos.engine.api.conditions import is_true
from fournos.engine.kube.errors import NotFoundError
from fournos.engine.kube.reflector import Reflector
from fournos.engine.kube.resource import LEASE, Key, Obj
from fournos.engine.kube.store import Store
from fournos.engine.queueing.kinds import WORKLOAD
from fournos.engine.queueing.workload import IN_USE
from tests.faults.proxy import FaultProxy
from tests.integration.appwrappers.conftest import settings
from tests.integration.appwrappers.stage import AppWrapperStage, job, pod
from tests.integration.jobs.operator import Operator
from tests.integration.killing import killed_after
from tests.waiting import LIMIT


class FaultStage:
    """A stage whose operators stand behind a proxy, and what is seen of its AppWrapper meanwhile."""

    def __init__(self, stage: AppWrapperStage, proxy: FaultProxy, directory: Path) -> None:
        self.stage = stage
        self.proxy = proxy
        self.operators: list[Operator] = []
        self.stores = {APPWRAPPER: Store(), WORKLOAD: Store()}
        self.workloads: set[str] = set()
        """UIDs of all that ever were."""
        self._directory = directory
        stage.tail = lambda: self.operators[-1].tail() if self.operators else ""

    @contextlib.asynccontextmanager
    async def looking(self) -> AsyncIterator[FaultStage]:
        def seen(_type: str, _old: Obj | None, new: Obj | None) -> None:
            if new is not None:
                self.workloads.add(new["metadata"]["uid"])

        tasks = [
            asyncio.create_task(
                Reflector(
                    self.stage.client,
                    resource,
                    store,
                    namespace=self.stage.namespace,
                    on_change=seen if resource == WORKLOAD else lambda *_: None,
                ).run()
            )
            for resource, store in self.stores.items()
        ]
        try:
            yield self
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)

    def launch(self) -> Operator:
        number = len(self.operators)
        kubeconfig = self.proxy.write_kubeconfig(self._directory / f"kubeconfig-{number}")
        log = self._directory / f"operator-{number}.log"
        own = settings("own", namespace=self.stage.namespace)
        found = Operator(kubeconfig, self.stage.namespace, log, enable="appwrappers", settings=own)
        self.operators.append(found)
        return found

    async def kill(self, operator: Operator) -> None:
        operator.kill()
        with contextlib.suppress(NotFoundError):
            await self.stage.client.delete(LEASE, Key(self.stage.namespace, "appwrappers"))

    async def until(self, look: Callable[[], Any], message: str, *, limit: float = LIMIT) -> Any:
        return await self.stage.until(look, message, limit=limit)

    def one(self, resource: Any) -> Obj:
        """{} while there is none."""
        return next(iter(self.stores[resource]), {})

    def phase(self) -> str:
        return str((self.one(APPWRAPPER).get("status") or {}).get("phase") or "")


@pytest.fixture
async def faults(prepared: AppWrapperStage, kubeconfig: Path, tmp_path: Path) -> AsyncIterator[FaultStage]:
    async with FaultProxy(kubeconfig) as proxy, FaultStage(prepared, proxy, tmp_path).looking() as found:
        yield found
        for operator in found.operators:
            operator.kill()


async def test_from_the_queue_to_the_end(faults: FaultStage) -> None:
    stage = faults.stage
    await stage.submit("life", pod("life-pod"), job("life-job"))

    def over() -> bool:
        """Its Workload is let go: the last thing that is done."""
        workload = faults.one(WORKLOAD)
        let_go = workload and IN_USE not in (workload["metadata"].get("finalizers") or ())
        return bool(faults.phase() == "Succeeded" and let_go and is_true(workload, "Finished"))

    await killed_after(faults, "create workloads", "create pods", "patch workloads/status")
    faults.launch()
    await faults.until(over, "it is not over")
    assert len(faults.workloads) == 1
    made = sorted(one["metadata"]["name"].partition("-job-")[0] for one in stage.kubelet.seen.values())
    assert made == ["life", "life-pod"]
    await stage.until(stage.nothing_reserved, "its quota stays taken")


async def test_evicted_and_deleted(faults: FaultStage) -> None:
    """Pods go before the quota does, whenever it is killed; deleted, nothing stays."""
    stage = faults.stage
    stage.kubelet.endless.add("short")
    await stage.submit("short", pod("short"))
    operator = await faults.launch().ready()
    await stage.condition("short", "PodsReady", "True")
    await faults.kill(operator)
    await stage.stop_policy("HoldAndDrain")

    def released() -> bool:
        workload = faults.one(WORKLOAD)
        if workload and not is_true(workload, "QuotaReserved"):
            assert stage.kubelet.live() == [], "quota was given back while a pod ran"
            return faults.phase() == "Suspended"
        return False

    await killed_after(faults, "delete pods", "patch workloads/status")
    operator = await faults.launch().ready()
    await faults.until(released, "its quota is not given back")
    await faults.kill(operator)
    await stage.client.delete(APPWRAPPER, Key(stage.namespace, "short"))
    await killed_after(faults, "patch appwrappers")  # the finalizer
    faults.launch()
    await faults.until(lambda: not faults.one(APPWRAPPER), "the AppWrapper stays")
    await stage.until(lambda: not faults.one(WORKLOAD), "the Workload stays")
