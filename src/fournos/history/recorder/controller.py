"""The controllers of the recorder, one for each recorded kind, the objects in their caches, and metrics."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Final

from fournos.api.kinds import FOURNOS_JOB, PIPELINE_RUN
from fournos.engine.kube.resource import Key, Obj, Resource, uid_of
from fournos.engine.runtime.controller import Caches, Controller
from fournos.engine.runtime.manager import Manager
from fournos.engine.runtime.metrics import Counter, Gauge, Metric, Metrics
from fournos.history.recorder.decide import decide
from fournos.history.recorder.observe import (
    SWEEP,
    NotReady,
    Observed,
    ObservedObject,
    Observer,
    cluster_uid,
    forget_events,
    watches,
)
from fournos.history.recorder.steps import Journal, executors
from fournos.history.records import Record, Run
from fournos.history.settings import HistorySettings

if TYPE_CHECKING:
    from fournos.history.logs.collector import LogCollector
    from fournos.history.recorder.database import DatabaseArchive


def name_of(resource: Resource) -> str:
    """Returns the name of the controller that records this kind."""
    return f"history-{resource.plural}"


def recorder(
    settings: HistorySettings,
    resource: Resource,
    archive: DatabaseArchive,
    journal: Journal,
    *,
    wrote: Callable[[Record, bool], None] = lambda record, taken: None,
    logs: LogCollector | None = None,
) -> Controller[Observed]:
    """Returns the controller that records the objects of this kind.

    `logs`: stores the logs of FournosJobs; None: no logs are stored.
    """
    if resource != FOURNOS_JOB:
        logs = None
    own = {resource.kind: resource}
    if resource == FOURNOS_JOB and PIPELINE_RUN.kind not in {each.kind for each in settings.resources()}:
        # Recorded PipelineRuns have a controller of their own, whose cache has those without a job, too.
        own[PIPELINE_RUN.kind] = PIPELINE_RUN

    def collect(caches: Caches) -> Iterable[Key]:
        forget_events(caches, own)
        return (SWEEP,)

    return Controller(
        name=name_of(resource),
        watches=watches(settings, resource, logs),
        observe=Observer(resource, journal, logs),
        decide=decide,
        primary=_primary,
        collect=collect,
        executors=executors(archive, journal, wrote, logs),
    )


def _primary(observed: Observed) -> Obj:
    if isinstance(observed, ObservedObject | NotReady) and observed.obj is not None:
        return observed.obj
    key = observed.key
    return {"metadata": {"namespace": key.namespace, "name": key.name, "uid": ""}}


class LiveObjects:
    """Finds the objects of runs in the caches of the recorder; none before `started` is called."""

    def __init__(self, resources: Iterable[Resource]) -> None:
        self._resources = {resource.kind: resource for resource in resources}
        self._caches: dict[str, Caches] = {}

    def started(self, manager: Manager) -> None:
        self._caches = {kind: manager.caches(name_of(resource)) for kind, resource in self._resources.items()}

    def cluster(self) -> str:
        """Returns the UID of the cluster; "" while it is not known."""
        return next((cluster_uid(caches) for caches in self._caches.values()), "")

    def find(self, run: Run) -> tuple[Resource, Obj] | None:
        """Returns the object of a run; None if it does not exist any more."""
        resource = self._resources.get(run.kind)
        if resource is None or run.kind not in self._caches:
            return None
        obj = self._caches[run.kind][resource].get(run.key)
        return (resource, obj) if obj is not None and uid_of(obj) == run.identity.uid else None


# --- metrics --------------------------------------------------------------------------------------------

RECORDS: Final = Counter(
    "fournos_history_records_total",
    "Records that the history took, or refused because it has a newer one or the run was deleted there.",
    ("kind", "result"),
)
OPEN: Final = Gauge("fournos_history_open_runs", "Recorded runs whose end is not recorded yet.", ("kind",))
METRICS: Final[tuple[Metric, ...]] = (RECORDS, OPEN)


def count(metrics: Metrics, record: Record, taken: bool) -> None:
    metrics.add(RECORDS, record.run.kind, "taken" if taken else "refused")


def report(journals: dict[str, Journal], metrics: Metrics) -> None:
    """Sets the gauge, by kind."""
    for kind, journal in journals.items():
        metrics.set(OPEN, journal.open_count(), kind)
