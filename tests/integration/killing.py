"""What the fault tests of all systems share: an operator that is killed after each of its writes, and the
return of a cluster whose API server was away."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable
from functools import partial
from typing import Any, Protocol

from devcluster import Cluster
from devcluster.install import await_webhook
from devcluster.kubectl import Kubectl, wait_until
from tests.faults.proxy import FaultProxy
from tests.faults.rules import Call, Delay, Hold, RequestFault, Rule
from tests.integration.jobs.operator import Operator
from tests.waiting import LIMIT

WRITES = ("create", "patch", "apply", "update", "delete")
_NOT_WORK = ("leases", "events")
"""Resources of leadership and of telling: faults for "all" spare them."""


class Killable(Protocol):
    """Who starts and kills the operator, behind a proxy that can hold its writes."""

    proxy: FaultProxy

    def launch(self) -> Operator: ...

    async def kill(self, operator: Operator) -> None:
        """kill -9, and its lease is taken away."""
        ...

    async def until(self, look: Callable[[], Any], message: str, *, limit: float = LIMIT) -> Any: ...


def fail_all(proxy: FaultProxy, fault: RequestFault, *, verbs: Iterable[str] = WRITES) -> list[Rule]:
    """For all requests of these verbs but those of leadership and Events, until `proxy.clear`."""
    for resource in _NOT_WORK:
        proxy.on_request(Delay(0), resource=resource, times=None)
    return [proxy.on_request(fault, verb=verb, times=None) for verb in verbs]


def hold_next_write(proxy: FaultProxy) -> Hold:
    """The answer to the next write is held back."""
    hold = Hold(after=True)
    fail_all(proxy, hold)
    return hold


async def killed_after_each_write(stage: Killable, over: Callable[[], bool]) -> list[str]:
    """kill -9 right after each write that the API server takes, until it is over; what was written.

    A write that passes beside the held one counts, too: independent writes of one pass go out together, and
    the answer to one may come after the kill.
    """
    begin = len(stage.proxy.calls)
    while not over():
        hold = hold_next_write(stage.proxy)
        operator = stage.launch()
        await stage.until(lambda: hold.reached.is_set() or over(), "no write and no end")  # noqa: B023
        await stage.kill(operator)
        stage.proxy.clear()
        await asyncio.sleep(0.1)  # our own view of it
        assert len(written := _written(stage.proxy, begin)) < 30, written
    return _written(stage.proxy, begin)


async def killed_after(stage: Killable, *writes: str) -> None:
    """kill -9 after the first of each of these writes (as `what` names them), an operator for each."""
    for write in writes:
        verb, _, target = write.partition(" ")
        resource, _, subresource = target.partition("/")
        hold = Hold(after=True)
        stage.proxy.on_request(hold, verb=verb, resource=resource, subresource=subresource)
        operator = stage.launch()
        await stage.until(hold.reached.is_set, f"no {write}")
        await stage.kill(operator)
        stage.proxy.clear()


def _written(proxy: FaultProxy, begin: int) -> list[str]:
    return [what(call) for call, status in proxy.calls[begin:] if status < 300 and _is_work(call)]


def _is_work(call: Call) -> bool:
    return call.verb in WRITES and call.resource not in _NOT_WORK


def what(call: Call) -> str:
    return f"{call.verb} {call.resource}{'/' + call.subresource if call.subresource else ''}"


async def revived(cluster: Cluster) -> None:
    """Returns when the cluster admits objects again, after its API server has been started.

    As a kubelet does, it starts what has given up meanwhile.  An API server answers some reads before its
    admission is ready, and Kueue's webhook comes back later.
    """
    cluster.start_ended()
    kubectl = Kubectl(cluster.kubectl_words(), cluster.kubeconfig_path)
    ready = partial(wait_until, "the API server ready", lambda: kubectl.answers("/readyz"), limit=LIMIT)
    await asyncio.to_thread(ready)
    await asyncio.to_thread(await_webhook, kubectl, "kueue", limit=LIMIT)
