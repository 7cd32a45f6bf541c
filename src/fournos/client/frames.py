"""Lists of handles, which notebooks show as a table and pandas as a data frame."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import TYPE_CHECKING, Any, TypeVar

from fournos.client.display import html_table
from fournos.client.views import View
from fournos.insight.values import frame

if TYPE_CHECKING:
    from fournos.history.results.models import RunValues, Test

V = TypeVar("V", bound=View)
W = TypeVar("W", bound=View)


class Handles(list[V]):
    """A list of handles."""

    def __init__(self, handles: Iterable[V] = (), *, paths: tuple[str, ...] = ()) -> None:
        super().__init__(handles)
        self.paths = paths
        """Paths of fields that `to_frame` shows without being asked, such as the axes of a matrix."""

    def mapped(self, face: Callable[[Any], W]) -> Handles[W]:
        """Returns the list with each handle replaced by `face` of it."""
        return Handles(map(face, self), paths=self.paths)

    def to_frame(self, *paths: str) -> Any:
        """Returns a pandas DataFrame with one row an object, as last read.

        `paths` are further columns, such as "hardware.gpuCount", "metadata.labels.team" or "status.message";
        a path without a root is one of the spec.  Raises FournosError if pandas is not installed.
        """
        return frame(_row(view, (*self.paths, *paths)) for view in self)

    def _repr_html_(self) -> str:
        """A table for notebooks.  All values come from the objects: they are untrusted and are escaped."""
        return html_table(self)


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


def _row(view: View, paths: Iterable[str]) -> dict[str, Any]:
    from fournos.insight.manifests import field_of

    return {**view._columns(), **{path: field_of(view.raw, path) for path in paths}}
