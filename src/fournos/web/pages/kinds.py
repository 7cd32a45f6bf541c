"""Other kinds: AppWrappers, MiniClusters, queued PipelineRuns and dispatched jobs."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from fournos.insight.sheets import listed
from fournos.web.routes import Call, Page

ROWS: Final = 20
"""The objects of each kind that are shown."""


async def gather(call: Call) -> Mapping[str, Any]:
    namespace = call.site.jobs_namespace or call.viewer.client.namespace
    return {"lists": await listed(call.viewer.client.api, namespace), "rows": ROWS}


PAGE: Final = Page(
    name="kinds",
    title="Other kinds",
    path="/kinds",
    gather=gather,
    shared=False,
    command="fournos frameworks list",
)
