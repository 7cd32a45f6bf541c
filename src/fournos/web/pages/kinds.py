"""Other kinds: AppWrappers, MiniClusters and queued PipelineRuns.

The list of all, and of each object its state, its parts, and why it waits.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from fournos.insight.sheets import listed, sheet
from fournos.insight.values import Key
from fournos.web.site import Call, Page

ROWS: Final = 20
"""The objects of each kind that are shown."""


async def gather(call: Call) -> Mapping[str, Any]:
    namespace = call.site.jobs_namespace or call.viewer.client.namespace
    return {"lists": await listed(call.viewer.client.api, namespace), "rows": ROWS}


async def gather_object(call: Call) -> Mapping[str, Any]:
    key = Key(call.path["namespace"], call.path["name"])
    return {"sheet": await sheet(call.viewer.client.api, call.path["kind"], key, call.now)}


PAGE: Final = Page(
    name="kinds",
    title="Other kinds",
    path="/kinds",
    gather=gather,
    shared=False,
)
OBJECT: Final = Page(
    name="kind",
    title="Object",
    path="/kinds/{kind}/{namespace}/{name}",
    gather=gather_object,
    in_nav=False,
    shared=False,
)
