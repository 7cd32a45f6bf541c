"""The routes of the single values that many runs measured."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from pydantic import Field

from fournos.history.api.routes import (
    Access,
    ApiCall,
    BadRequestError,
    ForbiddenError,
    Route,
    RunFilter,
    Texts,
)
from fournos.history.records import Document, Identity
from fournos.history.results.models import RunValues, ValuePage
from fournos.insight.manifests import field_of

if TYPE_CHECKING:
    from fournos.history.api.service import HistoryService

MOST: Final = 20_000
"""Values of a page."""


class ValueFilter(RunFilter):
    """Which values of which runs."""

    kpi: Texts = Field((), description="Only these KPIs.")
    by: Texts = Field(
        (),
        description="Also these fields of the objects, such as params.model; takes the right to documents.",
    )
    limit: int = Field(50, ge=1, le=200, description="Maximum number of runs.")


async def list_values(service: HistoryService, call: ApiCall) -> ValuePage:
    """Returns a page of runs with what their last attempts measured, without curves.

    Raises BadRequestError if that is more than MOST values.
    """
    filters: ValueFilter = call.parameters
    scope, store = call.scope, await service.store()
    page = await store.find(
        filters.query(namespaces=scope.namespaces, in_cluster=scope.cluster, namespace=call.namespace)
    )
    if filters.by and not all(map(call.details.includes, page.runs)):
        raise ForbiddenError('by: takes the right to get "runs/documents" of all these runs')
    identities = [run.identity for run in page.runs]
    values = await (await service.results()).values_of(identities, filters.kpi, most=MOST)
    if values is None:
        raise BadRequestError(f"these runs have more than {MOST:,} values: name KPIs, or a smaller limit")
    objects: dict[Identity, Any] = {}
    if filters.by:
        objects = await store.documents(identities, Document.OBJECT)
    return ValuePage(
        tuple(
            RunValues(
                run,
                values.get(run.identity, ()),
                {path: field_of(objects.get(run.identity) or {}, path) for path in filters.by},
            )
            for run in page.runs
        ),
        page.cursor,
    )


_DOCUMENTS: Final = Access("get", "runs/documents")

ROUTES: Final = (
    Route(
        "GET",
        "/results",
        "listValues",
        Access("list", "results"),
        list_values,
        ValuePage,
        ValueFilter,
        details=_DOCUMENTS,
    ),
    Route(
        "GET",
        "/namespaces/{namespace}/results",
        "listNamespacedValues",
        Access("list", "results"),
        list_values,
        ValuePage,
        ValueFilter,
        details=_DOCUMENTS,
    ),
)
