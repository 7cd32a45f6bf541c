"""What people decide on results: baselines, and acknowledgements of changes."""

from __future__ import annotations

from typing import TYPE_CHECKING
from urllib.parse import urlencode

from fournos.client.errors import typed
from fournos.client.history_requests import HistoryRequests, parsed
from fournos.history.records import Run

if TYPE_CHECKING:
    from fournos.history.api.verdicts import Acknowledged
    from fournos.history.regressions.baseline import Baseline
    from fournos.history.regressions.benchmark import Benchmark


class AsyncVerdicts(HistoryRequests):
    """The part of `AsyncHistory` for baselines and acknowledgements."""

    @typed
    async def benchmarks(
        self, *owners: str, days: int = 84, everywhere: bool = False, namespace: str | None = None
    ) -> list[Benchmark]:
        """Returns how the benchmarks stand, what asks for somebody first.

        A benchmark is the comparable runs of a namespace, with results in the last `days`. `owners` are those
        of the newest runs, none for all. `everywhere` means all namespaces, and needs the right in all of
        them.
        """
        from fournos.history.regressions.benchmark import Benchmark

        where = self._where(namespace, everywhere=everywhere)
        query = urlencode([("days", days), *(("owner", owner) for owner in owners)])
        return await self._get(f"{where}/benchmarks?{query}", list[Benchmark])

    @typed
    async def baselines(self, *, everywhere: bool = False, namespace: str | None = None) -> list[Baseline]:
        """Returns the pinned baselines, the newest first."""
        from fournos.history.regressions.baseline import Baseline

        where = self._where(namespace, everywhere=everywhere)
        return await self._get(f"{where}/baselines", list[Baseline])

    @typed
    async def pin(self, run: Run, *, reason: str = "") -> None:
        """Makes a run the baseline of its fingerprint, instead of another one. A baseline does not expire."""
        await self._send("PUT", f"{self._of(run)}/baseline", {"reason": reason})

    @typed
    async def unpin(self, run: Run) -> None:
        """Ends that a run is the baseline. It does not expire until `release` takes its mark away."""
        await self._send("DELETE", f"{self._of(run)}/baseline")

    @typed
    async def acknowledge(
        self, name: str, reason: str, *, kpi: str = "", namespace: str | None = None
    ) -> tuple[Acknowledged, ...]:
        """Acknowledges the changes of KPIs that began with a run: they are not regressions any more.

        It holds when later runs move a change by a run or two. Raises RefusedError if nothing changed with
        this run.
        """
        from fournos.history.api.verdicts import Acknowledged

        path = self._acknowledgements(name, kpi, namespace)
        answer = await self._send("POST", path, {"reason": reason})
        return parsed(tuple[Acknowledged, ...], answer)

    @typed
    async def acknowledgements(
        self, name: str, *, kpi: str = "", namespace: str | None = None
    ) -> tuple[Acknowledged, ...]:
        """Returns what is acknowledged of the runs that can be compared with this one."""
        from fournos.history.api.verdicts import Acknowledged

        path = self._acknowledgements(name, kpi, namespace)
        return await self._get(path, tuple[Acknowledged, ...])

    @typed
    async def withdraw(self, name: str, *, kpi: str = "", namespace: str | None = None) -> None:
        """Withdraws what was acknowledged of a run; by its UID also when the run has expired."""
        await self._send("DELETE", self._acknowledgements(name, kpi, namespace))

    def _acknowledgements(self, name: str, kpi: str, namespace: str | None) -> str:
        return f"{self._path(name, namespace)}/acknowledgements?{urlencode({'kpi': kpi})}"
