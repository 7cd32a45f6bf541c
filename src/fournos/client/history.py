"""The history: runs that are over or under way, read through the API server with the client's own rights."""

from __future__ import annotations

from collections import deque
from collections.abc import AsyncGenerator, AsyncIterator, Iterator, Sequence
from contextlib import aclosing
from datetime import datetime
from typing import TYPE_CHECKING, Any, Final, Unpack, cast
from urllib.parse import quote, urlencode

from fournos.client.errors import MissingError, NoLogError, typed, typed_iterator
from fournos.client.history_requests import (
    PREFIX,
    AsyncRuns,
    AsyncUploads,
    HistoryRequests,
    RunFilters,
    missing,
    named,
    parsed,
    times,
)
from fournos.client.logs import LogLine, LogSelection
from fournos.client.synchronous import blocking, iterating
from fournos.history.records import Document, Run
from fournos.insight.errors import FournosError
from fournos.insight.jobs import of_a_person, wanted_labels
from fournos.insight.values import frame

if TYPE_CHECKING:
    from fournos.history.api.comparisons import Trends
    from fournos.history.api.verdicts import Acknowledged
    from fournos.history.artifacts import Artifact
    from fournos.history.compare.comparison import Comparison
    from fournos.history.estimates import Typical
    from fournos.history.logs.stored import ContainerLog
    from fournos.history.records import Detail
    from fournos.history.regressions.benchmark import Benchmark
    from fournos.history.regressions.review import Baseline
    from fournos.history.results.models import RunValues, Test
    from fournos.history.usage import Usage


LAST: Final = ("@last", "@latest")
BASELINE: Final = "@baseline"
JOB_KIND: Final = "FournosJob"


def is_name(selector: str) -> bool:
    """True for a name or UID.  No name of an object has a character = or @."""
    return "=" not in selector and not selector.startswith("@")


def labels_of(selector: str) -> dict[str, str]:
    """Returns the labels that a selector names; none for a name, `@last` and `@baseline`.

    Raises FournosError for what is no selector.
    """
    if is_name(selector) or selector in (*LAST, BASELINE):
        return {}
    if selector.startswith("@"):
        raise FournosError(f"{selector}: write a name, labels as name=value, {LAST[0]} or {BASELINE}")
    return wanted_labels(selector)


class MeasuredResults(tuple["Test", ...]):
    """The results of a run, in the order in which they came."""

    __slots__ = ()

    def to_frame(self) -> Any:
        """Returns a pandas DataFrame with one row a KPI; of a curve `value` is the list of its points.

        Columns that begin with "test." are labels of tests.  Raises FournosError if pandas is not installed.
        """
        return frame(
            {
                **{f"test.{name}": text for name, text in record.all_labels.items()},
                "success": record.success,
                "kpi": kpi.kpi_id,
                "value": list(kpi.values) if kpi.is_curve else kpi.value,
                "unit": kpi.measured_in,
            }
            for record in self
            for kpi in record.kpis
        )


def kpi_rows(measured: RunValues) -> Iterator[dict[str, Any]]:
    """Yields a row for each single value of a run, with the fields of its job that were asked for."""
    run = measured.run
    for test, kpi in measured.values:
        yield {
            "job": run.name,
            "submitted": run.submitted_at,
            "phase": run.phase,
            "owner": run.owner,
            "cluster": run.target,
            **measured.fields,
            **{f"test.{name}": text for name, text in test.all_labels.items()},
            "kpi": kpi.kpi_id,
            "value": kpi.value,
            "unit": kpi.unit,
        }


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
        from fournos.history.regressions.review import Baseline

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


class AsyncHistory(AsyncRuns, AsyncVerdicts, AsyncUploads):
    """Reads the history of a cluster.  All methods raise NoHistoryError if it has none."""

    @typed
    async def run(self, name: str, *, kind: str = "", namespace: str | None = None) -> Detail:
        """Returns a run by its UID, or the newest of its name.

        Raises MissingError.
        """
        from fournos.history.records import Detail

        suffix = f"?{urlencode({'kind': kind})}" if kind else ""
        return await self._get(self._path(name, namespace) + suffix, Detail)

    @typed
    async def document(self, run: Run, document: Document) -> Any:
        """Returns a document of a run, such as the whole object as last seen.  Raises MissingError."""
        return await self._get(f"{self._of(run)}/documents/{document.value}", object)

    @typed
    async def keep(self, run: Run, *, reason: str = "") -> None:
        """Marks a run: it does not expire."""
        await self._send("PUT", f"{self._of(run)}/keep", {"reason": reason})

    @typed
    async def release(self, run: Run) -> None:
        """Takes the mark of `keep` away."""
        await self._send("DELETE", f"{self._of(run)}/keep")

    @typed
    async def delete(self, run: Run) -> None:
        """Deletes a run with its documents, logs, artifacts and results."""
        await self._send("DELETE", self._of(run))

    @typed
    async def results(self, name: str, *, namespace: str | None = None) -> MeasuredResults:
        """Returns the results of a run: its tests with their KPIs."""
        from fournos.history.results.models import Test

        path = f"{self._path(name, namespace)}/results"
        return MeasuredResults(await self._get(path, tuple[Test, ...]))

    @typed
    async def kpis(self, *, by: Sequence[str] = (), limit: int = 100, **filters: Unpack[RunFilters]) -> Any:
        """Returns a pandas DataFrame with one row for each single value of `values`.

        Columns that begin with "test." are labels of tests. Raises FournosError if pandas is not installed.
        """
        measured = self.values(by=by, limit=limit, **filters)
        return frame([row async for run in measured for row in kpi_rows(run)])

    @typed
    async def problems(self, name: str, *, namespace: str | None = None) -> tuple[str, ...]:
        """Returns what of the results that a run returned could not be stored, and why."""
        path = f"{self._path(name, namespace)}/documents/{Document.PROBLEMS.value}"
        try:
            return tuple(await self._get(path, list[str]))
        except MissingError:
            return ()

    @typed
    async def select(self, *selectors: str, owner: str = "", namespace: str | None = None) -> list[Run]:
        """Returns the runs that are meant by names, UIDs, labels (`team=x,model=y`), `@last` and `@baseline`.

        Labels and `@last` mean the newest job that succeeded, `@last` that of `owner` and of no schedule.
        `@baseline` is the pinned run of the fingerprint of the others. Raises MissingError, and FournosError
        for a selector that cannot be read or is not clear.
        """
        labels = {selector: labels_of(selector) for selector in selectors}
        others = [selector for selector in labels if selector != BASELINE]
        if labels and not others:
            raise FournosError(f"{BASELINE} is that of another run: name one beside it")
        runs = {one: await self._selected(one, labels[one], owner, namespace) for one in others}
        if BASELINE in labels:
            runs[BASELINE] = await self._baseline_beside(runs, namespace)
        return [runs[selector] for selector in selectors]

    async def _selected(
        self, selector: str, labels: dict[str, str], owner: str, namespace: str | None
    ) -> Run:
        if is_name(selector):
            return (await self.run(selector, namespace=namespace)).run
        mine = "" if labels else owner
        filters = RunFilters(
            kind=JOB_KIND, phase="Succeeded", labels=labels, owner=mine or (), namespace=namespace
        )
        async for run in self.runs(limit=None if selector in LAST else 1, **filters):
            if selector not in LAST or of_a_person(run.labels):
                return run
        whose = f" of {mine}" if mine else ""
        raise MissingError(
            f"{selector}: the history has no such job{whose} that succeeded",
            fix="see what there is: fournos list --all-time",
        )

    async def _baseline_beside(self, runs: dict[str, Run], namespace: str | None) -> Run:
        """Returns the pinned run of the fingerprint that the runs have."""
        fingerprints = {run.fingerprint for run in runs.values() if run.fingerprint}
        if not fingerprints:
            raise FournosError(f"{BASELINE} is not clear: none of the runs beside it has a fingerprint")
        if len(fingerprints) > 1:
            raise FournosError(f"{BASELINE} is not clear: the runs measure several things")
        for baseline in await self.baselines(namespace=namespace):
            if baseline.run.fingerprint in fingerprints:
                return baseline.run
        raise MissingError(
            f"no run is pinned as the baseline of {', '.join(runs)}",
            fix="pin one: fournos baseline pin JOB",
        )

    @typed
    async def compare(
        self, name: str, *others: str, across: bool = False, namespace: str | None = None
    ) -> Comparison:
        """Compares a run with others: what differs, then each KPI within the noise of comparable runs.

        Runs of different fingerprints are not judged unless `across` is set: they measured different things.
        """
        from fournos.history.compare.comparison import Comparison

        query = urlencode([*(("with", one) for one in others), ("across", str(across).lower())])
        return await self._get(f"{self._path(name, namespace)}/results/comparison?{query}", Comparison)

    @typed
    async def trends(
        self, name: str, *, kpi: str = "", runs: int | None = None, namespace: str | None = None
    ) -> Trends:
        """Returns the KPIs of a run over the comparable runs, and what changed in them.

        `kpi` is one KPI; `runs` the number of the newest runs of each series, None for those that messages
        and metrics judge, too.
        """
        from fournos.history.api.comparisons import Trends

        query = urlencode({"kpi": kpi} | ({"runs": runs} if runs else {}))
        return await self._get(f"{self._path(name, namespace)}/results/trends?{query}", Trends)

    @typed
    async def estimates(self, *, namespace: str | None = None) -> list[Typical]:
        """Returns the jobs of the namespace that wait or run, and how long runs of their kind took."""
        from fournos.history.estimates import Typical

        return await self._get(f"{self._where(namespace)}/estimates", list[Typical])

    @typed
    async def estimate(self, name: str, *, namespace: str | None = None) -> Typical:
        """Returns the same of one job, by its name or UID.

        Raises MissingError if it neither waits nor runs.
        """
        from fournos.history.estimates import Typical

        return await self._get(f"{self._where(namespace)}/estimates/{named(name)}", Typical)

    @typed
    async def usage(
        self,
        *,
        since: datetime | None = None,
        until: datetime | None = None,
        everywhere: bool = False,
        namespace: str | None = None,
    ) -> Usage:
        """Returns the GPU-hours of jobs by owner, cluster, project and GPU type.

        The default period is the last seven days; a run counts with the part of its time within the period.
        `everywhere` means all namespaces, and needs the right in all of them.
        """
        from fournos.history.usage import Usage

        where = self._where(namespace, everywhere=everywhere)
        query = urlencode(times(since=since, until=until))
        return await self._get(f"{where}/usage?{query}", Usage)

    @typed
    async def artifacts(self, name: str, *, namespace: str | None = None) -> list[Artifact]:
        """Returns the artifacts of a run, by path."""
        from fournos.history.artifacts import Artifact

        return await self._get(f"{self._path(name, namespace)}/artifacts", list[Artifact])

    @typed_iterator
    async def artifact(self, name: str, path: str, *, namespace: str | None = None) -> AsyncIterator[bytes]:
        """Yields the content of an artifact in pieces."""
        where = f"{PREFIX}{self._path(name, namespace)}/artifacts/{quote(path)}"
        with missing():
            async with aclosing(await self._read(lambda: self._api.raw_stream(where))) as pieces:
                async for piece in pieces:
                    yield piece

    @typed
    async def stored_logs(
        self, name: str, *, namespace: str | None = None, **selection: Unpack[LogSelection]
    ) -> list[ContainerLog]:
        """Returns what is stored of the logs of a run: one entry a container, in the order of their starts.

        A log is stored when its container has ended.  The entry of a container that failed has the first line
        that shows why.  Raises MissingError if there is no such run.
        """
        from fournos.history.logs.stored import ContainerLog, chosen

        logs = await self._get(f"{self._path(name, namespace)}/logs", list[ContainerLog])
        return chosen(logs, **selection)

    @typed_iterator
    async def logs(
        self,
        name: str,
        *,
        tail: int | None = None,
        namespace: str | None = None,
        **selection: Unpack[LogSelection],
    ) -> AsyncIterator[LogLine]:
        """Yields the lines of the stored logs of a run, selected as by `stored_logs`.

        `tail` is the number of last lines of each container.  Raises MissingError if there is no such run,
        NoLogError if it has no such log.
        """
        logs = await self.stored_logs(name, namespace=namespace, **selection)
        if not logs:
            raise NoLogError(f"the history has no such log of {name}", fix="see the run: fournos get")
        for log in logs:
            source = log.source(logs)
            async with aclosing(cast(AsyncGenerator[str, None], self.log(name, log, namespace))) as lines:
                if tail is None:
                    async for line in lines:
                        yield LogLine(source, line)
                else:
                    for line in deque([line async for line in lines], maxlen=tail):
                        yield LogLine(source, line)

    @typed_iterator
    async def log(self, name: str, log: ContainerLog, namespace: str | None = None) -> AsyncIterator[str]:
        """Yields the lines of one of `stored_logs`."""
        path = f"{self._path(name, namespace)}/logs/{quote(log.pod, safe='')}/{quote(log.container, safe='')}"
        where, rest = PREFIX + path, b""
        with missing():
            async with aclosing(await self._read(lambda: self._api.raw_stream(where))) as pieces:
                async for piece in pieces:
                    *lines, rest = (rest + piece).split(b"\n")
                    for line in lines:
                        yield line.decode(errors="replace")
        if rest:
            yield rest.decode(errors="replace")


class History:
    """See `AsyncHistory`."""

    def __init__(self, history: AsyncHistory) -> None:
        self._async = history

    @property
    def namespace(self) -> str:
        return self._async.namespace

    runs = iterating(AsyncHistory.runs)
    pages = iterating(AsyncHistory.pages)
    values = iterating(AsyncHistory.values)
    run = blocking(AsyncHistory.run)
    document = blocking(AsyncHistory.document)
    logs = iterating(AsyncHistory.logs)
    log = iterating(AsyncHistory.log)
    stored_logs = blocking(AsyncHistory.stored_logs)
    results = blocking(AsyncHistory.results)
    kpis = blocking(AsyncHistory.kpis)
    problems = blocking(AsyncHistory.problems)
    select = blocking(AsyncHistory.select)
    compare = blocking(AsyncHistory.compare)
    trends = blocking(AsyncHistory.trends)
    estimates = blocking(AsyncHistory.estimates)
    estimate = blocking(AsyncHistory.estimate)
    usage = blocking(AsyncHistory.usage)
    artifacts = blocking(AsyncHistory.artifacts)
    artifact = iterating(AsyncHistory.artifact)
    push_results = blocking(AsyncHistory.push_results)
    push_artifact = blocking(AsyncHistory.push_artifact)
    benchmarks = blocking(AsyncHistory.benchmarks)
    baselines = blocking(AsyncHistory.baselines)
    pin = blocking(AsyncHistory.pin)
    unpin = blocking(AsyncHistory.unpin)
    acknowledge = blocking(AsyncHistory.acknowledge)
    acknowledgements = blocking(AsyncHistory.acknowledgements)
    withdraw = blocking(AsyncHistory.withdraw)
    keep = blocking(AsyncHistory.keep)
    release = blocking(AsyncHistory.release)
    delete = blocking(AsyncHistory.delete)
