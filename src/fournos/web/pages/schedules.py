"""The schedules of the jobs' namespace."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from fournos.engine.kube.errors import NoSuchResourceError
from fournos.insight import schedules
from fournos.web.routes import Call, Page


async def gather(call: Call) -> Mapping[str, Any]:
    namespace = call.site.jobs_namespace or call.viewer.client.namespace
    try:
        lines = await schedules.read_lines(call.viewer.source, namespace, call.now)
    except NoSuchResourceError:
        lines = None  # an older installation
    return {"lines": lines, "namespace": namespace}


PAGE: Final = Page(
    name="schedules",
    title="Schedules",
    path="/schedules",
    gather=gather,
    watched=schedules.KINDS,
    command="fournos schedule list{jobs}",
)
