"""The handle of a dispatched job: where MultiKueue runs it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from fournos.client.errors import ObjectFailed, typed
from fournos.client.handles import AsyncHandle, HandleConnection
from fournos.client.views import View
from fournos.engine.api.conditions import condition, is_true
from fournos.engine.kube.resource import Obj, controller_of
from fournos.engine.queueing.workload import WORKLOAD
from fournos.insight.values import one_line

if TYPE_CHECKING:
    from datetime import datetime

    from fournos.insight.dispatch import DispatchCheck
    from fournos.insight.explanation import Explanation

_SUCCESS = ("Succeeded", "JobFinished")


class DispatchView(View):
    """A view of the Workload of a dispatched job as last read; `raw` is the whole Workload."""

    _check: DispatchCheck

    @property
    def _entry(self) -> Obj:
        from fournos.insight.dispatch import entry_of

        return entry_of(self.raw, {self._check.name: self._check})

    @property
    def job(self) -> str:
        """Kind and name of the job, such as FournosJob/run."""
        from fournos.insight.dispatch import job_name

        return job_name(self.raw)

    @property
    def worker(self) -> str | None:
        """The worker that runs the job; None while none has taken it."""
        from fournos.insight.dispatch import worker_of

        return worker_of(self.raw) or None

    @property
    def remote_name(self) -> str | None:
        """Namespace and name of the job on the worker; None while none has taken it.

        The copy on the worker has the namespace and the name of the job.
        """
        owner = controller_of(self.raw)
        name = str(owner["name"]) if owner else self.name
        return f"{self.namespace}/{name}" if self.worker else None

    @property
    def adapter(self) -> str:
        """The adapter that dispatches the job: "Kueue's" or "ours"."""
        return self._check.adapter

    @property
    def phase(self) -> str:
        """Queued, Pending, Running, Evicted, another state of the check, or the reason of the end."""
        from fournos.insight.dispatch import state_of

        return state_of(self.raw, self._entry)

    @property
    def message(self) -> str:
        """The message of the end, of the adapter, or of the queue."""
        end, quota = (condition(self.raw, type_) or {} for type_ in ("Finished", "QuotaReserved"))
        return one_line(end.get("message") or self._entry.get("message") or quota.get("message"))

    @property
    def ended(self) -> bool:
        """True if the Workload has finished."""
        return is_true(self.raw, "Finished")

    @property
    def succeeded(self) -> bool:
        """True if the Workload has finished with success."""
        return self.ended and self.phase in _SUCCESS

    def _facts(self, now: datetime) -> list[tuple[str, str]]:
        return [("Job", self.job), ("Worker", self.worker or ""), ("Adapter", self.adapter)]

    def _columns(self) -> dict[str, Any]:
        return {**super()._columns(), "job": self.job, "worker": self.worker, "adapter": self.adapter}


class AsyncDispatch(AsyncHandle, DispatchView):
    """The handle of one dispatched job: of its Workload, identified by its UID."""

    _resource = WORKLOAD
    _noun = "dispatched job"

    def __init__(self, client: HandleConnection, raw: Obj, check: DispatchCheck) -> None:
        super().__init__(client, raw)
        self._check = check

    @typed
    async def explain(self) -> Explanation:
        """Explains where the job stands on this cluster: its quota, its check, the workers asked."""
        from fournos.insight.dispatch import checks_by_name, dispatch_of, here
        from fournos.insight.explanation import Explanation

        await self.refresh()
        entry, check = dispatch_of(self._raw, await checks_by_name(self._client.api))
        facts = tuple(f"{label}: {text}" for label, text in here(self._raw, entry, check))
        advice = f"what each worker has of it: fournos dispatch explain {self.job.rpartition('/')[2]}"
        return Explanation(f"{self.job} is {self.phase}.", facts, (advice,))

    async def _raise_failure(self) -> None:
        if self.ended and not self.succeeded:
            raise ObjectFailed(self, fix=f"see the job: {self.job}")

    def _plural(self) -> str:
        return "dispatched"
