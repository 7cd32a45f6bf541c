"""The schedules of the jobs' namespace, and the times of the coming week."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from fournos.engine.kube.errors import NoSuchResourceError
from fournos.insight import schedule_board
from fournos.web.routes import Call, Page


async def gather(call: Call) -> Mapping[str, Any]:
    namespace = call.site.jobs_namespace or call.viewer.client.namespace
    try:
        board = await schedule_board.read(call.viewer.source, namespace, call.now)
    except NoSuchResourceError:
        board = None  # an older installation
    return {"board": board, "namespace": namespace}


PAGE: Final = Page(
    name="schedules",
    title="Schedules",
    path="/schedules",
    gather=gather,
    watched=schedule_board.KINDS,
    command="fournos schedule list{jobs}",
)
