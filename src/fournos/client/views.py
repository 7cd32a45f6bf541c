"""The typed, read-only views of an object of any kind and of a job, as last read.  They send no request."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import UTC, datetime, timedelta
from html import escape
from typing import TYPE_CHECKING, Any, Final

from fournos.api.phase import run_times
from fournos.engine.kube.resource import Obj, key_of, uid_of
from fournos.insight.values import (
    TimelineEntry,
    conditions_of,
    created,
    hardware,
    hardware_of,
    is_terminal,
    judged,
    moment,
    name_of,
    one_line,
    phase_of,
    short,
    spec_of,
    status_of,
    timeline,
)
from fournos.systems.jobs.names import display_name

if TYPE_CHECKING:
    from fournos.api.fournosjob import Attempt, FournosJob, FournosJobSpec, FournosJobStatus
    from fournos.engine.api.crd import StatusCondition

_MANY: Final = 100
"""Lists show this number of rows."""


def html_table(views: Sequence[View]) -> str:
    """HTML of a list: one row an object with its columns; at most 100 rows."""
    rows = [_cells(view) for view in views[:_MANY]]
    titles = list(dict.fromkeys(title for row in rows for title in row))
    head = "".join(f"<th>{title}</th>" for title in titles)
    body = "".join(_row(row.get(title, "") for title in titles) for row in rows)
    more = len(views) - len(rows)
    rest = f"<p>and {more} more</p>" if more > 0 else ""
    return f"<div><table><tr>{head}</tr>{body}</table>{rest}</div>"


def _row(cells: Iterable[str]) -> str:
    return f"<tr>{''.join(f'<td>{cell}</td>' for cell in cells)}</tr>"


def _cells(view: View) -> dict[str, str]:
    """Column → escaped text of what the object has: all values come from it, and are untrusted."""
    columns = columns_of(view).items()
    return {name: escape(_text(value)) for name, value in columns if value not in (None, "")}


def columns_of(view: View) -> dict[str, Any]:
    """Returns the columns of an object; of one that does not fit its kind its name and the problem."""
    known = {"namespace": view.namespace, "name": view.name, "uid": view.uid}
    return judged(lambda one: one._columns(), view, lambda problem: {**known, "message": problem})


def _text(value: object) -> str:
    match value:
        case datetime():
            return value.isoformat(" ", "seconds")
        case timedelta():
            return short(value)
        case _:
            return str(value)


class View:
    """A typed view of an object as last read; `raw` is the whole object."""

    @property
    def raw(self) -> Obj:
        """The whole object as last read."""
        raise NotImplementedError

    @property
    def name(self) -> str:
        """The name of the object."""
        return name_of(self.raw)

    @property
    def namespace(self) -> str:
        """The namespace of the object."""
        return key_of(self.raw).namespace

    @property
    def uid(self) -> str:
        """The identity of the object: a later object of the same name has another UID."""
        return uid_of(self.raw)

    @property
    def created(self) -> datetime | None:
        """The creation time."""
        return moment(created(self.raw))

    @property
    def phase(self) -> str:
        """The phase; New while no operator has reconciled the object."""
        return phase_of(self.raw)

    @property
    def message(self) -> str:
        """The status message on one line; "" if there is none."""
        return one_line(status_of(self.raw).get("message"))

    @property
    def ended(self) -> bool:
        """True if the object has ended, with whatever result."""
        return False

    @property
    def succeeded(self) -> bool:
        """True if the object has ended with success."""
        return False

    @property
    def conditions(self) -> tuple[StatusCondition, ...]:
        """The conditions in the status."""
        # Imported here: the models take a third of the client's import time.
        from fournos.engine.api.crd import StatusCondition

        return tuple(StatusCondition.model_validate(one) for one in conditions_of(self.raw))

    @property
    def queue_name(self) -> str:
        """The LocalQueue that the object names; "" if it names none."""
        from fournos.engine.queueing.podsets import queue_name

        return queue_name(self.raw)

    def _columns(self) -> dict[str, Any]:
        """Column → value of the object's row in data frames and in the tables of notebooks."""
        return {
            "namespace": self.namespace,
            "name": self.name,
            "uid": self.uid,
            "phase": self.phase,
            "created": self.created,
            "message": self.message,
        }

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self.namespace}/{self.name} {self.phase}>"

    def _repr_html_(self) -> str:
        """A table for notebooks, with one row a column."""
        rows = "".join(_row(pair) for pair in _cells(self).items())
        return f"<div><b>{escape(self.name)}</b><table>{rows}</table></div>"


class JobView(View):
    """A typed view of a job as last read; `raw` is the whole object."""

    @property
    def display_name(self) -> str:
        """The name for display: spec.displayName, else the name."""
        return display_name(self.raw)

    @property
    def spec(self) -> FournosJobSpec:
        """The spec as a typed model; unset fields have their defaults."""
        return _typed({"spec": self.raw.get("spec") or {}}).spec

    @property
    def status(self) -> FournosJobStatus:
        """The status as a typed model."""
        return _typed({"status": self.raw.get("status") or {}}).status

    @property
    def ended(self) -> bool:
        """True if the job has succeeded, failed or was stopped."""
        return is_terminal(self.raw)

    @property
    def succeeded(self) -> bool:
        """True if the job has succeeded."""
        return self.phase == "Succeeded"

    @property
    def cluster(self) -> str | None:
        """The cluster on which the job runs or ran; None while none is assigned."""
        cluster = status_of(self.raw).get("cluster")
        return None if cluster is None else str(cluster)

    @property
    def hardware(self) -> str:
        """The GPUs, such as "2 x a100"; "-" if none are requested."""
        return hardware(self.raw)

    @property
    def attempts(self) -> tuple[Attempt, ...]:
        """The attempts in the status."""
        return self.status.attempts

    @property
    def timeline(self) -> list[TimelineEntry]:
        """The phases of the job with their durations; the current one lasts until now."""
        return timeline(self.raw, datetime.now(UTC))

    @property
    def dashboard_url(self) -> str | None:
        """The address of the run's page in the Tekton Dashboard; None if it is not known."""
        return self.status.dashboard_url

    def _columns(self) -> dict[str, Any]:
        began, ended = run_times(self.raw)
        lengths = {entry.phase.lower(): entry.length for entry in self.timeline}
        gpus = hardware_of(self.raw)
        return {
            **super()._columns(),
            "owner": spec_of(self.raw).get("owner"),
            "cluster": self.cluster,
            "gpu_type": gpus.get("gpuType"),
            "gpu_count": gpus.get("gpuCount"),
            "attempt": status_of(self.raw).get("attempt"),
            "started": moment(began),
            "finished": moment(ended),
            **{f"{phase}_for": lengths.get(phase) for phase in ("resolving", "pending", "running")},
        }


def _typed(document: Obj) -> FournosJob:
    # Imported here: the models take a third of the client's import time.
    from fournos.api.fournosjob import FournosJob

    return FournosJob.model_validate(document)


def values_of(model: Any) -> dict[str, Any]:
    """Returns the fields of a typed model that were set, with their JSON names and values."""
    found: dict[str, Any] = model.model_dump(mode="json", by_alias=True, exclude_unset=True)
    return found
