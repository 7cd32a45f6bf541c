"""The synchronous face of the history.  In a module of its own, because its types take time to import."""

from __future__ import annotations

from fournos.client.bridge import blocking, iterating
from fournos.client.history import AsyncHistory


class History:
    """See `AsyncHistory`."""

    def __init__(self, history: AsyncHistory) -> None:
        self._async = history

    @property
    def namespace(self) -> str:
        return self._async.namespace

    @property
    def of_all_clusters(self) -> History:
        """See `AsyncHistory.of_all_clusters`."""
        return History(self._async.of_all_clusters)

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
