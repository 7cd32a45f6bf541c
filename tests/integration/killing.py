"""An operator that is killed after each of its writes: what all systems' fault tests share."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable
from typing import Any, Protocol

from tests.faults.proxy import FaultProxy
from tests.faults.rules import Call, Delay, Hold, RequestFault, Rule
from tests.integration.jobs.operator import Operator

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

    async def until(self, look: Callable[[], Any], message: str, *, limit: float = 30) -> Any: ...


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
    """kill -9 right after each write that the API server takes, until it is over; what was written."""
    written = []
    while not over():
        hold = hold_next_write(stage.proxy)
        operator = stage.launch()
        await stage.until(lambda: hold.reached.is_set() or over(), "no write and no end")  # noqa: B023
        if hold.call is not None:
            written.append(what(hold.call))
        await stage.kill(operator)
        stage.proxy.clear()
        assert len(written) < 30, written
        await asyncio.sleep(0.1)  # our own view of it
    return written


def what(call: Call) -> str:
    return f"{call.verb} {call.resource}{'/' + call.subresource if call.subresource else ''}"
